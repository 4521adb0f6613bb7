package signin_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mr-tron/base58"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/signin"
)

// unread is a read model that has not seen anything.
type unread struct{}

func (unread) Load(_ context.Context, owner events.Owner) (*command.State, error) {
	return command.NewState(owner), nil
}

func (unread) FindWritten(context.Context, events.Owner, events.Hash) (command.Written, bool, uint64, error) {
	return command.Written{}, false, 0, nil
}

func (unread) Leaves(context.Context, events.Owner) (uint64, error) { return 0, nil }

func (unread) UsedKeys(context.Context, events.Owner, int) ([]events.Hash, error) { return nil, nil }

type noKeys struct{}

func (noKeys) EnsureDataKey(context.Context, events.Owner) error { return nil }

// troubledLog is a real log whose next append goes as it is told.
type troubledLog struct {
	eventlog.Log
	next atomic.Pointer[func(context.Context, eventlog.Append) (uint64, error)]
}

func (l *troubledLog) Append(ctx context.Context, a eventlog.Append) (uint64, error) {
	if trouble := l.next.Swap(nil); trouble != nil {
		return (*trouble)(ctx, a)
	}
	return l.Log.Append(ctx, a)
}

func (l *troubledLog) once(trouble func(context.Context, eventlog.Append) (uint64, error)) {
	l.next.Store(&trouble)
}

// deaf is a bucket that can be told to take no more updates.
type deaf struct {
	jetstream.KeyValue
	deaf atomic.Bool
}

func (b *deaf) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if b.deaf.Load() {
		return 0, errors.New("no server")
	}
	return b.KeyValue.Update(ctx, key, value, revision)
}

// frontDesk is both APIs' sign-in on a server of its own.
type frontDesk struct {
	extension, core *signin.Desk
	replica         *signin.Desk // of extension
	log             *troubledLog
	nonces          *deaf
	now             atomic.Int64 // in Unix milliseconds
}

func newFrontDesk(t *testing.T) *frontDesk {
	t.Helper()
	nc, err := nats.Connect(natstest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.Create(t.Context(), nc, eventlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.CreateKeyValue(t.Context(), signin.NonceBucketConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	f := &frontDesk{log: &troubledLog{Log: log}, nonces: &deaf{KeyValue: bucket}}
	f.now.Store(time.Now().UnixMilli())
	now := func() time.Time { return time.UnixMilli(f.now.Load()) }
	var ids atomic.Int64
	newID := func() string { return fmt.Sprintf("id-%d", ids.Add(1)) }
	desk := func(issuer signin.Issuer) *signin.Desk {
		commands, err := command.NewExecutor(command.Config{Log: f.log, Loader: unread{}, Source: "/test", NewID: newID, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return signin.NewDesk(signin.Config{
			Site: signin.Site{Domain: "ledger.example", URI: "https://ledger.example", ChainID: "mainnet"}, Nonces: f.nonces,
			Commands: commands, DataKeys: noKeys{}, Issuer: issuer, Now: now, NewID: newID,
		})
	}
	f.extension, f.replica = desk(signin.RandomTokens{TTL: time.Hour}), desk(signin.RandomTokens{TTL: time.Hour})
	f.core = desk(signin.NewSignedTokens([]byte("a secret of thirty-two bytes long"), now))
	return f
}

// challenge returns a good answer to a new challenge of a desk.
func challenge(t *testing.T, d *signin.Desk) signin.Answer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Challenge(t.Context(), base58.Encode(public))
	if err != nil {
		t.Fatal(err)
	}
	return signin.Answer{
		PublicKey: events.Owner(base58.Encode(public)), Message: c.Message,
		Signature: ed25519.Sign(private, []byte(c.Message)),
	}
}

func verifies(t *testing.T, d *signin.Desk, a signin.Answer) {
	t.Helper()
	if s, err := d.Verify(t.Context(), a); err != nil || s.Token == "" {
		t.Errorf("a good answer got %+v, %v", s, err)
	}
}

func refuses(t *testing.T, d *signin.Desk, a signin.Answer, why string) {
	t.Helper()
	if s, err := d.Verify(t.Context(), a); !errors.Is(err, signin.ErrRefused) || !strings.Contains(err.Error(), why) || s.Token != "" {
		t.Errorf("got %+v, %v, want a refusal: %s", s, err, why)
	}
}

// TestAFailedSignInKeepsTheNonce: the session could not be recorded, whether that
// is known or not, so the same answer is good once more, and then never.
func TestAFailedSignInKeepsTheNonce(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(f *frontDesk) func(context.Context, eventlog.Append) (uint64, error){
		"lost": func(*frontDesk) func(context.Context, eventlog.Append) (uint64, error) {
			return func(context.Context, eventlog.Append) (uint64, error) { return 0, eventlog.ErrUnavailable }
		},
		"stored, and not known": func(f *frontDesk) func(context.Context, eventlog.Append) (uint64, error) {
			return func(ctx context.Context, a eventlog.Append) (uint64, error) {
				if _, err := f.log.Log.Append(ctx, a); err != nil {
					return 0, err
				}
				return 0, eventlog.ErrUncertain
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFrontDesk(t)
			answer := challenge(t, f.extension)
			f.log.once(trouble(f))
			if s, err := f.extension.Verify(t.Context(), answer); err == nil || errors.Is(err, signin.ErrRefused) || s.Token != "" {
				t.Errorf("got %+v, %v", s, err)
			}
			verifies(t, f.extension, answer)
			refuses(t, f.extension, answer, "nonce is unknown or was used")
		})
	}
}

// TestAClaimEndsByItself where nobody could say that the attempt had failed.
func TestAClaimEndsByItself(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	answer := challenge(t, f.extension)
	f.log.once(func(context.Context, eventlog.Append) (uint64, error) {
		f.nonces.deaf.Store(true)
		return 0, eventlog.ErrUnavailable
	})
	if _, err := f.extension.Verify(t.Context(), answer); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Fatal(err)
	}
	f.nonces.deaf.Store(false)
	refuses(t, f.extension, answer, "nonce is being used")
	f.now.Add(15_000)
	verifies(t, f.extension, answer)
	refuses(t, f.extension, answer, "nonce is unknown or was used")
}

// TestOneAtATime: while an answer is being made a session, the same answer is
// refused; and one that took so long that it was taken over gets nothing.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in time": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFrontDesk(t)
			answer := challenge(t, f.extension)
			begun, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			f.log.once(func(ctx context.Context, a eventlog.Append) (uint64, error) {
				close(begun)
				<-goOn
				return f.log.Log.Append(ctx, a)
			})
			go func() {
				_, err := f.extension.Verify(t.Context(), answer)
				first <- err
			}()
			<-begun
			refuses(t, f.replica, answer, "nonce is being used")
			if late {
				f.now.Add(15_000)
				verifies(t, f.replica, answer)
			}
			close(goOn)
			if err := <-first; late != errors.Is(err, signin.ErrRefused) || !late && err != nil {
				t.Errorf("the first got %v", err)
			}
			refuses(t, f.replica, answer, "nonce is unknown or was used")
		})
	}
}

// TestAChallengeIsOfOneAPI: the wallet showed where the session would be good.
func TestAChallengeIsOfOneAPI(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	for _, pair := range [][2]*signin.Desk{{f.core, f.extension}, {f.extension, f.core}} {
		answer := challenge(t, pair[0])
		refuses(t, pair[1], answer, "the challenge is of another API")
		verifies(t, pair[0], answer)
		refuses(t, pair[0], answer, "nonce is unknown or was used")
	}
}
