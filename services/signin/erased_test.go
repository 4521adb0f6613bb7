package signin_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/memory"
)

// TestErasedAgainDuringASignIn: an owner without leaves since an erasure signs in at the
// extension API, which makes a key after a pause of five seconds, and erases again during
// the pause. The next sign-in at the extension API must work.
func TestErasedAgainDuringASignIn(t *testing.T) {
	t.Parallel()
	nc, js := natstest.Connect(t, natstest.Start(t).URL())
	log, err := eventlog.Create(t.Context(), nc, eventlog.Config{})
	must(t, err)
	bucket, err := keystore.Create(t.Context(), js, 1)
	must(t, err)
	stream, err := js.Stream(t.Context(), keystore.Stream)
	must(t, err)
	service := func(pause func(), destroys bool) *memory.Service {
		keys, err := keystore.Open(bucket, keystore.Config{Masters: []keystore.Master{keystore.MasterKey{1}}, Marked: keystore.Marked(stream),
			Pause: func(context.Context, time.Duration) bool { pause(); return true }})
		must(t, err)
		x, err := command.NewExecutor(command.Config{Log: log, Loader: command.NoReadModel{}, Source: "/test", NewID: rand.Text})
		must(t, err)
		cfg := memory.Config{Commands: x, Keys: keys, NewID: rand.Text}
		if destroys {
			cfg.DestroyKey = func(ctx context.Context, o events.Owner, before int) error { return keys.Destroy(ctx, js, o, before) }
		}
		return memory.New(cfg)
	}
	core, owner := service(func() {}, true), logtest.Owner()
	signIn := func(s *memory.Service) error { // as SignIn.issue
		for {
			standing, err := s.Commands.Standing(t.Context(), owner)
			if err == nil && standing.KeyMissing {
				err = s.EnsureDataKey(t.Context(), owner, standing.Erasures)
			}
			if errors.Is(err, command.ErrErased) {
				continue
			}
			if err != nil {
				return err
			}
			err = s.Commands.Execute(t.Context(), owner, &command.SignIn{UserID: "u", SessionID: rand.Text(), Audience: events.AudienceExtension,
				ExpiresAt: events.At(time.Now().Add(time.Hour)), Erasures: standing.Erasures})
			if !errors.Is(err, command.ErrErased) {
				return err
			}
		}
	}
	erase := func() {
		if _, err := core.Erase(t.Context(), owner); err != nil {
			t.Error(err)
		}
	}
	must(t, signIn(core))
	erase()
	once := false
	extension := service(func() {
		if !once {
			once = true
			erase()
		}
	}, false)
	for _, s := range []*memory.Service{extension, service(func() {}, false)} {
		if err := signIn(s); err != nil {
			t.Error(err)
		}
	}
}
