package signin

import (
	"errors"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/events"
)

// TestCriticalExtensions: a token that requires an unknown extension is refused, even if it
// is signed with our secret.
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
			if _, _, _, err := tokens.Verify(text); errors.Is(err, ErrToken) != critical {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestTokensOfOthers: a token is a session only if all of its claims say so, even if our
// secret signed it for another purpose.
func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	secret, now := make([]byte, 32), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	owner := events.OwnerFromBytes([32]byte{1})
	tokens := NewSignedTokens(secret, func() time.Time { return now })
	for name, c := range map[string]struct {
		method jwt.SigningMethod
		key    any
		change func(*jwt.RegisteredClaims)
		good   bool
	}{
		"ours":              {good: true},
		"another secret":    {key: []byte("somebody else's, of 32 bytes also")},
		"another algorithm": {method: jwt.SigningMethodHS512},
		"no algorithm":      {method: jwt.SigningMethodNone, key: jwt.UnsafeAllowNoneSignatureType},
		"another issuer":    {change: func(c *jwt.RegisteredClaims) { c.Issuer = "somebody" }},
		"no issuer":         {change: func(c *jwt.RegisteredClaims) { c.Issuer = "" }},
		"another audience":  {change: func(c *jwt.RegisteredClaims) { c.Audience = jwt.ClaimStrings{"memory-ledger/extension"} }},
		"no audience":       {change: func(c *jwt.RegisteredClaims) { c.Audience = nil }},
		"no end":            {change: func(c *jwt.RegisteredClaims) { c.ExpiresAt = nil }},
		"over":              {change: func(c *jwt.RegisteredClaims) { c.ExpiresAt = jwt.NewNumericDate(now) }},
		"not yet":           {change: func(c *jwt.RegisteredClaims) { c.NotBefore = jwt.NewNumericDate(now.Add(time.Second)) }},
		"nobody's":          {change: func(c *jwt.RegisteredClaims) { c.Subject = "nobody" }},
		"of no session":     {change: func(c *jwt.RegisteredClaims) { c.ID = "" }},
	} {
		claims := jwt.RegisteredClaims{
			Issuer: jwtIssuer, Audience: jwt.ClaimStrings{jwtAudience}, Subject: string(owner), ID: "session",
			ExpiresAt: jwt.NewNumericDate(now.Add(time.Minute)),
		}
		if c.change != nil {
			c.change(&claims)
		}
		if c.method == nil {
			c.method = jwt.SigningMethodHS256
		}
		if c.key == nil {
			c.key = secret
		}
		text, err := jwt.NewWithClaims(c.method, claims).SignedString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			of, id, _, err := tokens.Verify(text)
			switch {
			case c.good && (err != nil || of != owner || id != "session"):
				t.Errorf("%s: %s, %s, %v", name, of, id, err)
			case !c.good && !errors.Is(err, ErrToken):
				t.Errorf("%s: %s, %s, %v", name, of, id, err)
			}
		}
	}
}
