package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

func use(owner events.Owner, keyID string) access.Caller {
	return access.Caller{Owner: owner, Credential: command.Credential{Kind: command.CredentialKey, ID: keyID}}
}

// TestUsesAreRecordedOnceAMinute: each key that was used is recorded once, when its owner
// looks or within a minute. An owner whose commands fail holds up no one, and is tried
// again.
func TestUsesAreRecordedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		owner, slow := events.OwnerFromBytes([32]byte{1}), events.OwnerFromBytes([32]byte{2})
		stuck := true
		var recorded []string
		u := newKeyUses(func(ctx context.Context, of events.Owner, keyID string) error {
			if of == slow && stuck {
				<-ctx.Done()
				return errors.New("no turn")
			}
			recorded = append(recorded, keyID)
			return nil
		})
		took := func(want ...string) {
			t.Helper()
			slices.Sort(recorded)
			if !slices.Equal(recorded, want) {
				t.Errorf("recorded %v, want %v", recorded, want)
			}
			recorded = nil
		}
		for range 3 {
			u.note(use(owner, "a"))
			u.note(use(owner, "b"))
			u.note(use(slow, "c"))
			u.note(access.Caller{Owner: owner, Credential: command.Credential{Kind: command.CredentialCoreSession, ID: "session"}})
		}
		start := time.Now()
		u.flush(t.Context(), owner)
		took("a", "b")
		u.flush(t.Context(), slow)
		if is := time.Since(start); is != time.Second {
			t.Errorf("the owners looked for %v", is)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		stuck = false
		u.note(use(owner, "a"))
		go func() { u.run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		took("a", "c")
		for n := range maxUses + 1 {
			u.note(use(owner, fmt.Sprint(n)))
		}
		if len(u.used) != maxUses {
			t.Errorf("%d uses wait", len(u.used))
		}
		cancel()
		<-ended
	})
}
