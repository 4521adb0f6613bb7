package signin

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/events"
)

// CoreSessionLifetime is how long a core session lasts, less a fraction of a second.
const CoreSessionLifetime = time.Hour

const (
	jwtIssuer   = "memory-ledger"
	jwtAudience = "memory-ledger/core"
)

// ErrToken: the token is not a session that this service issued, or it has expired.
var ErrToken = errors.New("session token is invalid or expired")

// SignedTokens issues and verifies core sessions: JSON Web Tokens, HS256.
type SignedTokens struct {
	secret []byte
	parser *jwt.Parser
	sealed *jwt.Parser // of tokens beside sessions
}

// NewSignedTokens returns SignedTokens with a secret of at least 32 bytes.
func NewSignedTokens(secret []byte, now func() time.Time) *SignedTokens {
	common := []jwt.ParserOption{
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithTimeFunc(now), jwt.WithStrictDecoding(),
	}
	return &SignedTokens{secret: secret, sealed: jwt.NewParser(common...), parser: jwt.NewParser(append(common,
		jwt.WithIssuer(jwtIssuer), jwt.WithAudience(jwtAudience), jwt.WithExpirationRequired())...)}
}

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

func (*SignedTokens) Audience() events.Audience { return events.AudienceCore }

// Expiry implements Issuer. It returns a whole second, the finest time that a token states:
// a session must not end before the time that its holder was told.
func (*SignedTokens) Expiry(issued events.Timestamp) events.Timestamp {
	return events.At(issued.Time().Add(CoreSessionLifetime).Truncate(time.Second))
}

func (s *SignedTokens) Verify(token string) (owner events.Owner, sessionID string, expires time.Time, err error) {
	var claims jwt.RegisteredClaims
	if _, err := s.parser.ParseWithClaims(token, &claims, s.secretFor); err != nil {
		return "", "", time.Time{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if owner, err = events.ParseOwner(claims.Subject); err != nil || claims.ID == "" {
		return "", "", time.Time{}, ErrToken
	}
	return owner, claims.ID, claims.ExpiresAt.Time, nil
}

// secretFor returns the secret that a token must be signed with. It refuses a token whose
// header has crit, a list of extensions: a recipient that does not know them must refuse the
// token (RFC 7515, section 4.1.11). This service knows none, and the parser ignores crit.
func (s *SignedTokens) secretFor(token *jwt.Token) (any, error) {
	if _, critical := token.Header["crit"]; critical {
		return nil, errors.New("crit names an extension that is not understood")
	}
	return s.secret, nil
}
