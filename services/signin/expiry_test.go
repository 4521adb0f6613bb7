package signin_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/signin"
)

// TestExpiredChallengeSaysSo: a valid signature that arrives too late is refused, and the
// message has the word that the sign-in page looks for.
func TestExpiredChallengeSaysSo(t *testing.T) {
	now := time.Now()
	signIn := signin.New(signin.Config{ // it has no bucket, because it must not need one
		Site:      signin.Site{Domain: "ledger.example", URI: "https://ledger.example", ChainID: "mainnet"},
		NonceKeys: []signin.NonceKey{{1}},
		Issuer:    signin.RandomTokens{TTL: time.Hour}, Now: func() time.Time { return now },
	})

	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	challenge, err := signIn.Challenge(base58.Encode(public), signin.PurposeSignIn)
	must(t, err)
	now = challenge.ExpiresAt.Time()
	_, err = signIn.Verify(t.Context(), signin.Answer{
		PublicKey: events.Owner(base58.Encode(public)), Message: challenge.Message,
		Signature: ed25519.Sign(private, []byte(challenge.Message)),
	})
	if !errors.Is(err, signin.ErrRefused) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a signature at the very end of the challenge's life: %v", err)
	}
}

// TestAFullBucketRefusesForAWhile: sign-ins above the bound get 503, spend nothing, and
// succeed once there is room. No remembered use is dropped for them.
func TestAFullBucketRefusesForAWhile(t *testing.T) {
	t.Parallel()
	f := newFrontDesk(t)
	first, second := challenge(t, f.core), challenge(t, f.core)
	verifies(t, f.core, first)
	was := natsconf.StreamConfig(signin.NonceStream, 1)
	bucket, err := f.js.Stream(t.Context(), signin.NonceStream)
	must(t, err)
	full := was
	full.MaxBytes = int64(bucket.CachedInfo().State.Bytes) + 16
	resize := func(cfg jetstream.StreamConfig) {
		must(t, errorOf(f.js.UpdateStream(t.Context(), cfg)))
	}
	resize(full)
	undecided(t, f.core, second)
	refuses(t, f.core, first, "nonce was used")
	resize(was)
	verifies(t, f.core, second)
}
