package signin

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/events"
)

// TestTokensOfOthers: a token is a session only if all of its claims say so, even if our
// secret signed it for another purpose. One that requires an extension is refused.
func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	secret, now := make([]byte, 32), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	owner := events.OwnerFromBytes([32]byte{1})
	tokens := NewSignedTokens(secret, func() time.Time { return now })
	for name, c := range map[string]struct {
		method jwt.SigningMethod
		key    any
		header map[string]any
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
		"unknown member":    {header: map[string]any{"exp": 1}, good: true},
		"an extension":      {header: map[string]any{"crit": []string{"x"}, "x": 1}},
		"no extensions":     {header: map[string]any{"crit": []string{}}},
		"null extensions":   {header: map[string]any{"crit": nil}},
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
		token := jwt.NewWithClaims(c.method, claims)
		maps.Copy(token.Header, c.header)
		text, err := token.SignedString(c.key)
		must(t, err)
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
