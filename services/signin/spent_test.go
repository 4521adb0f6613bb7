package signin_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mr-tron/base58"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/signin"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

// noKeys records the number of erasures of each request for a data key.
type noKeys chan int

func (k noKeys) EnsureDataKey(_ context.Context, _ events.Owner, erasures int) error {
	k <- erasures
	return nil
}

// troubledLog is a real log whose next append the test controls.
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

// troubledBucket is a real bucket whose next update the server loses, if so set.
type troubledBucket struct {
	jetstream.KeyValue
	loses atomic.Bool
}

func (b *troubledBucket) Update(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	if b.loses.Swap(false) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return b.KeyValue.Update(ctx, key, value, last)
}

// frontDesk is the sign-in of both APIs on its own server.
type frontDesk struct {
	js              jetstream.JetStream
	extension, core *signin.SignIn
	replica         *signin.SignIn // of the extension API
	log             *troubledLog
	keys            noKeys
	nonces          *troubledBucket
	now             atomic.Int64 // in Unix milliseconds
	// pause is called instead of waiting. No time passes, so a waiting attempt polls as
	// often as it ever would.
	pause atomic.Pointer[func()]
	sync  atomic.Pointer[func() error] // outcome of syncing the nonces; nil: success
}

func newFrontDesk(t *testing.T) *frontDesk {
	t.Helper()
	nc, js := natstest.Connect(t, natstest.Start(t).URL())
	natstest.Log(t, nc)
	log, err := eventlog.Open(t.Context(), nc)
	must(t, err)
	bucket, err := natsconf.CreateBucket(t.Context(), js, signin.NonceBucket, 1)
	must(t, err)
	f := &frontDesk{js: js, log: &troubledLog{Log: log}, keys: make(noKeys, 1000), nonces: &troubledBucket{KeyValue: bucket}}
	f.now.Store(time.Now().UnixMilli())
	now := func() time.Time { return time.UnixMilli(f.now.Load()) }
	pause := func(ctx context.Context, _ time.Duration) bool {
		if p := f.pause.Load(); p != nil {
			(*p)()
		}
		return ctx.Err() == nil
	}
	sync := func(context.Context) error {
		if s := f.sync.Load(); s != nil {
			return (*s)()
		}
		return nil
	}
	var ids atomic.Int64
	newID := func() string { return fmt.Sprintf("id-%d", ids.Add(1)) }
	keys := signin.DeriveNonceKeys([]keystore.Master{keystore.MasterKey{1}})
	signIn := func(issuer signin.Issuer) *signin.SignIn {
		commands := command.NewExecutor(command.Config{Log: f.log, Loader: command.NoReadModel{}, Source: "/test", NewID: newID, Now: now, CachedOwners: 9})
		return signin.New(signin.Config{
			Site: signin.Site{Domain: "ledger.example", URI: "https://ledger.example", ChainID: "mainnet"}, NonceKeys: keys,
			Spent: f.nonces, SyncSpent: sync, Commands: commands, EnsureDataKey: f.keys.EnsureDataKey, Issuer: issuer, Now: now, NewID: newID, Pause: pause,
		})
	}
	f.extension, f.replica = signIn(signin.RandomTokens{TTL: time.Hour}), signIn(signin.RandomTokens{TTL: time.Hour})
	f.core = signIn(signin.NewSignedTokens([]byte("a secret of thirty-two bytes long"), now))
	return f
}

// challenge returns a valid answer to a new challenge of a SignIn.
func challenge(t *testing.T, d *signin.SignIn) signin.Answer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	c, err := d.Challenge(base58.Encode(public), signin.PurposeSignIn)
	must(t, err)
	return signin.Answer{
		PublicKey: events.Owner(base58.Encode(public)), Message: c.Message,
		Signature: ed25519.Sign(private, []byte(c.Message)),
	}
}

func verifies(t *testing.T, d *signin.SignIn, a signin.Answer) {
	t.Helper()
	if s, err := d.Verify(t.Context(), a); err != nil || s.Token == "" {
		t.Errorf("a good answer got %+v, %v", s, err)
	}
}

func refuses(t *testing.T, d *signin.SignIn, a signin.Answer, why string) {
	t.Helper()
	if s, err := d.Verify(t.Context(), a); !errors.Is(err, signin.ErrRefused) || !strings.Contains(err.Error(), why) || s.Token != "" {
		t.Errorf("got %+v, %v, want a refusal: %s", s, err, why)
	}
}

// undecided checks that an attempt failed without a decision about the nonce, so the answer
// is not refused.
func undecided(t *testing.T, d *signin.SignIn, a signin.Answer) {
	t.Helper()
	if s, err := d.Verify(t.Context(), a); !errors.Is(err, signin.ErrUnavailable) || errors.Is(err, signin.ErrRefused) || s.Token != "" {
		t.Errorf("got %+v, %v, want that it is not known", s, err)
	}
}

// TestAFailedSignInKeepsTheNonce: if the session could not be recorded, or that is
// uncertain, the same answer is valid once more, and then never again.
func TestAFailedSignInKeepsTheNonce(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(f *frontDesk) func(context.Context, eventlog.Append) (uint64, error){
		"lost": func(*frontDesk) func(context.Context, eventlog.Append) (uint64, error) {
			return func(context.Context, eventlog.Append) (uint64, error) {
				return 0, eventlog.ErrUnavailable
			}
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
			refuses(t, f.extension, answer, "nonce was used")
		})
	}
}

// TestALostClaimIsMadeAgain: if a server that fails loses the claim, the same request makes it
// again, and the sign-in succeeds.
func TestALostClaimIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	answer := challenge(t, f.core)
	f.nonces.loses.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // as of a request
	defer cancel()
	if s, err := f.core.Verify(ctx, answer); err != nil || s.Token == "" {
		t.Errorf("got %+v, %v", s, err)
	}
	refuses(t, f.core, answer, "nonce was used")
}

// TestASpentNonceStaysSpent: no token is issued until the spent nonce is synced, so that a
// power failure can't undo it.
func TestASpentNonceStaysSpent(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	for _, failure := range []error{nil, errors.New("the disk failed")} {
		answer, synced := challenge(t, f.extension), 0
		_, nonce, _ := strings.Cut(answer.Message, "Nonce: ")
		nonce, _, _ = strings.Cut(nonce, "\n")
		sync := func() error {
			synced++
			if kept, err := f.nonces.Get(t.Context(), nonce); err != nil || string(kept.Value()) != `{"spent":true}` {
				t.Errorf("when it is synced, the nonce is not spent: %v", err)
			}
			return failure
		}
		f.sync.Store(&sync)
		if failure == nil {
			verifies(t, f.extension, answer)
		} else {
			undecided(t, f.extension, answer)
		}
		if synced != 1 {
			t.Errorf("synced %d times", synced)
		}
		refuses(t, f.extension, answer, "nonce was used")
	}
}

// TestOneAtATime: while one attempt is recording a session, the same sign-in answer waits
// for the outcome. An attempt whose claim was taken over gets nothing.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wait, late bool
		fails      error
	}{
		"in time":    {wait: true},
		"in vain":    {wait: true, fails: eventlog.ErrUnavailable},
		"undecided":  {},
		"taken over": {late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFrontDesk(t)
			answer := challenge(t, f.extension)
			begun, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			f.log.once(func(ctx context.Context, a eventlog.Append) (uint64, error) {
				close(begun)
				<-goOn
				if test.fails != nil {
					return 0, test.fails
				}
				return f.log.Log.Append(ctx, a)
			})
			go func() {
				_, err := f.extension.Verify(t.Context(), answer)
				first <- err
			}()
			<-begun
			if test.wait {
				var once sync.Once
				outcome := func() {
					once.Do(func() {
						close(goOn)
						if err := <-first; !errors.Is(err, test.fails) {
							t.Errorf("the first got %v", err)
						}
					})
				}
				f.pause.Store(&outcome)
				if test.fails != nil {
					verifies(t, f.replica, answer)
				}
				refuses(t, f.replica, answer, "nonce was used")
				return
			}
			undecided(t, f.replica, answer)
			if test.late {
				f.now.Add(15_000)
				verifies(t, f.replica, answer)
			}
			close(goOn)
			if err := <-first; test.late != errors.Is(err, signin.ErrRefused) || !test.late && err != nil {
				t.Errorf("the first got %v", err)
			}
			refuses(t, f.replica, answer, "nonce was used")
		})
	}
}

// TestASignInAcrossAnErasure: the owner has all erased after the data key was looked after,
// and before the session is recorded. The session must have the key of after.
func TestASignInAcrossAnErasure(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	answer := challenge(t, f.core)
	elsewhere := command.NewExecutor(command.Config{Log: f.log.Log, Loader: command.NoReadModel{}, Source: "/test", NewID: rand.Text, CachedOwners: 9})
	f.log.once(func(ctx context.Context, a eventlog.Append) (uint64, error) {
		if err := elsewhere.Execute(ctx, answer.PublicKey, &command.EraseOwner{}); err != nil {
			t.Error(err)
		}
		return f.log.Log.Append(ctx, a)
	})
	verifies(t, f.core, answer)
	if before, after := <-f.keys, <-f.keys; before != 0 || after != 1 {
		t.Errorf("keys were asked for after %d and %d erasures", before, after)
	}
}
