package signin

import (
	"errors"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/events"
)

// TestCriticalExtensions: a token that must not be accepted by those who don't
// understand it is not, though it is signed with our secret.
func TestCriticalExtensions(t *testing.T) {
	t.Parallel()
	secret := make([]byte, 32)
	tokens := NewSignedTokens(secret, time.Now)
	claims := jwt.RegisteredClaims{
		Issuer: jwtIssuer, Audience: jwt.ClaimStrings{jwtAudience}, ID: "session",
		Subject:   string(events.OwnerFromBytes([32]byte{1})),
		ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Minute)),
	}
	for name, header := range map[string]map[string]any{
		"none":         {},
		"unknown":      {"exp": 1},
		"b64":          {"crit": []string{"b64"}, "b64": true},
		"an extension": {"crit": []string{"x"}, "x": 1},
		"empty":        {"crit": []string{}},
		"null":         {"crit": nil},
	} {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
		for member, value := range header {
			token.Header[member] = value
		}
		text, err := token.SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		_, critical := header["crit"]
		for range 2 { // verified, and remembered
			if _, _, err := tokens.Verify(text); errors.Is(err, ErrToken) != critical {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
