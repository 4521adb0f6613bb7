package signin

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/events"
)

// CoreSessionLifetime is how long a core session lasts.
const CoreSessionLifetime = time.Hour

const (
	jwtIssuer   = "memory-ledger"
	jwtAudience = "memory-ledger/core"
)

// ErrToken: the token is not a session that we issued, or it has expired.
var ErrToken = errors.New("session token is invalid or expired")

// SignedTokens issues and verifies core sessions: JSON Web Tokens, HS256.
type SignedTokens struct {
	secret []byte
	parser *jwt.Parser
}

// NewSignedTokens returns SignedTokens under a secret of at least 32 bytes.
func NewSignedTokens(secret []byte, now func() time.Time) *SignedTokens {
	return &SignedTokens{secret: secret, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithIssuer(jwtIssuer), jwt.WithAudience(jwtAudience),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(now), jwt.WithStrictDecoding(),
	)}
}

// Issue implements Issuer.
func (s *SignedTokens) Issue(owner events.Owner, sessionID string, issued, expires events.Timestamp) (string, *events.Hash, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer: jwtIssuer, Audience: jwt.ClaimStrings{jwtAudience}, Subject: string(owner), ID: sessionID,
		IssuedAt: jwt.NewNumericDate(issued.Time()), ExpiresAt: jwt.NewNumericDate(expires.Time()),
	}).SignedString(s.secret)
	if err != nil {
		return "", nil, fmt.Errorf("sign token: %w", err)
	}
	return token, nil, nil
}

// Audience implements Issuer.
func (*SignedTokens) Audience() events.Audience { return events.AudienceCore }

// Lifetime implements Issuer.
func (*SignedTokens) Lifetime() time.Duration { return CoreSessionLifetime }

// Verify returns whose session a token is.
func (s *SignedTokens) Verify(token string) (owner events.Owner, sessionID string, err error) {
	var claims jwt.RegisteredClaims
	if _, err := s.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return s.secret, nil }); err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	owner, err = events.ParseOwner(claims.Subject)
	if err != nil || claims.ID == "" {
		return "", "", ErrToken
	}
	return owner, claims.ID, nil
}
