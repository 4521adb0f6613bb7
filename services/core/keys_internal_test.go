package core

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

// TestABusyKeyIsRecordedOnceAMinute: a key that is used all the time costs a command a
// minute, not one at every look. A use that could not be recorded is tried again.
func TestABusyKeyIsRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var u keyUses
		commands := 0
		for second := range 300 {
			u.note(access.Caller{Owner: "owner", Credential: command.Credential{Kind: command.CredentialKey, ID: "key"}})
			if second%5 == 0 {
				for _, use := range u.unrecorded("") {
					if commands++; commands > 1 { // the first one fails
						u.recorded(use)
					}
				}
			}
			time.Sleep(time.Second)
		}
		if commands < 5 || commands > 6 {
			t.Errorf("%d commands in five minutes", commands)
		}
	})
}
