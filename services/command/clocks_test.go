package command_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/services/command"
)

// TestEndedThoughClocksDiffer: of two replicas, one is 30 s fast and one 30 s slow, as
// signin.clockSkew allows. If the owner ends a session or a key at the first, the second
// refuses it.
func TestEndedThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	log, base := openLog(t), time.Now()
	at := func(off time.Duration) *command.Executor {
		x := command.NewExecutor(command.Config{Log: log, Loader: command.NoReadModel{}, Source: "/test", NewID: newID, CachedOwners: 9,
			Now: func() time.Time { return base.Add(off) }})
		return x
	}
	// start is long before, so that the session is old when the clocks differ.
	start, fast, slow := at(-time.Hour), at(30*time.Second), at(-30*time.Second)
	run := func(x *command.Executor, o events.Owner, c command.Command) {
		t.Helper()
		must(t, x.Execute(context.Background(), o, c))
	}
	stolen := command.Credential{Kind: command.CredentialCoreSession, ID: "stolen"}
	signIn := func(o events.Owner) {
		run(start, o, &command.SignIn{UserID: "u", SessionID: "stolen", Audience: events.AudienceCore, ExpiresAt: events.At(base)})
	}

	for name, end := range map[string]command.Command{
		"sign out everywhere": &command.EndAccess{Kind: events.KindSession}, "one session": &command.EndSession{SessionID: "stolen"},
		"one key": &command.RevokeKey{KeyID: "stolen"},
	} {
		t.Run(name, func(t *testing.T) {
			o, w := logtest.Owner(), write(1)
			signIn(o)
			run(start, o, &command.CreateKey{KeyID: "stolen", ExpiresAt: new(events.At(base))})
			run(fast, o, end)
			if w.Credential = stolen; name == "one key" {
				w.Credential.Kind = command.CredentialKey
			}
			if err := slow.Execute(t.Context(), o, w); !errors.Is(err, command.ErrCredentialDead) {
				t.Errorf("a write with what was ended: %v", err)
			}
		})
	}
	t.Run("erasure", func(t *testing.T) {
		o := logtest.Owner()
		signIn(o)
		w := write(1)
		w.Credential = stolen
		run(slow, o, w)
		must(t, fast.EndAllAccess(t.Context(), o))
		run(fast, o, &command.EraseOwner{})
		w = write(2)
		w.Credential, w.KeyErasures = stolen, 1
		if err := slow.Execute(t.Context(), o, w); !errors.Is(err, command.ErrCredentialDead) {
			t.Errorf("a write with a session from before the erasure: %v", err)
		}
	})
	t.Run("a clock that was hours ahead", func(t *testing.T) {
		o := logtest.Owner()
		signIn(o)
		run(at(3*time.Hour), o, &command.SignIn{SessionID: "ahead", Audience: events.AudienceCore, ExpiresAt: events.At(base.Add(4 * time.Hour))})
		run(slow, o, &command.EndSession{SessionID: "stolen", Credential: stolen}) // it can be used, and ended
	})
	t.Run("one live grant", func(t *testing.T) {
		o := logtest.Owner()
		signIn(o)
		run(start, o, &command.MintGrant{GrantID: "g1", Kind: events.GrantCase, ExpiresAt: events.At(base), MaxUses: 5, Credential: stolen})
		run(fast, o, &command.MintGrant{GrantID: "g2", Kind: events.GrantCase, ExpiresAt: events.At(base.Add(time.Hour)), MaxUses: 5})
		one, two := &command.ConsumeCase{GrantID: "g1"}, &command.ConsumeCase{GrantID: "g2"}
		if slow.Execute(t.Context(), o, one) == nil && slow.Execute(t.Context(), o, two) == nil {
			t.Error("both cases of an owner are live")
		}
		run(at(2*time.Hour), o, &command.RevokeGrant{GrantID: "g2", Kind: events.GrantCase})
		if slow.Execute(t.Context(), o, two) == nil {
			t.Error("a case is live that was ended where it has expired")
		}
	})
}

// TestADestroyedKeySealsNothing: a memory, a batch, and a drop's memory that were sealed
// with a key from before the erasure are refused.
func TestADestroyedKeySealsNothing(t *testing.T) {
	t.Parallel()
	log, o := openLog(t), logtest.Owner()
	x := newExecutor(t, log)
	session := command.Credential{Kind: command.CredentialCoreSession, ID: "after"}
	soon := events.At(time.Now().Add(time.Hour))
	for _, c := range []command.Command{
		&command.SignIn{UserID: "u", SessionID: "before", Audience: events.AudienceCore, ExpiresAt: events.At(time.Now().Add(-time.Hour))},
		&command.EraseOwner{},
		&command.SignIn{SessionID: "after", Audience: events.AudienceCore, ExpiresAt: soon, Erasures: 1},
		&command.MintGrant{GrantID: "drop", Kind: events.GrantDrop, ExpiresAt: soon, MaxUses: 2, Credential: session},
	} {
		must(t, x.Execute(t.Context(), o, c))
	}
	sealed := func(erasures int) *command.WriteMemory {
		w := write(1)
		w.Credential, w.KeyErasures = session, erasures
		return w
	}
	for erasures, want := range []error{command.ErrKeyErased, nil} {
		for name, c := range map[string]command.Command{
			"memory": sealed(erasures), "batch": &command.WriteBatch{Memories: []*command.WriteMemory{sealed(erasures)}, Credential: session},
			"drop": &command.ConsumeDrop{GrantID: "drop", Memory: *sealed(erasures)},
		} {
			if err := x.Execute(t.Context(), o, c); !errors.Is(err, want) {
				t.Errorf("%s, sealed after %d erasures: %v", name, erasures, err)
			}
		}
	}
}
