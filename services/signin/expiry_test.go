package signin_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events"
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
