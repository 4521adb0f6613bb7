package core

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

// TestUsesShowWithinSecondsAndOnceAMinute: a key that is used all the time is recorded once
// a minute.
func TestUsesShowWithinSecondsAndOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		recorded := 0
		u := newKeyUses(func(context.Context, events.Owner, string) error { recorded++; return nil })
		ended := make(chan struct{})
		go func() { u.run(ctx); close(ended) }()
		caller := access.Caller{Owner: "o", Credential: command.Credential{Kind: command.CredentialKey, ID: "k"}}
		for second := range 150 {
			u.note(caller)
			time.Sleep(time.Second)
			if second == 6 && recorded != 1 {
				t.Errorf("after 6 s, %d uses are recorded", recorded)
			}
		}
		if recorded != 3 {
			t.Errorf("in 150 s, %d uses are recorded, want 3", recorded)
		}
		cancel()
		<-ended
	})
}
