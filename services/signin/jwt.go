package signin

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/cachestats"
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
//
// Verified tokens are remembered until they expire: looking one up is cheaper than checking
// its signature again, and a valid signature stays valid.
type SignedTokens struct {
	secret   []byte
	parser   *jwt.Parser
	now      func() time.Time
	verified *lru.Cache[events.Hash, verifiedToken]
	// Hits counts the tokens that were already verified.
	Hits cachestats.Counter
}

type verifiedToken struct {
	owner     events.Owner
	sessionID string
	expires   time.Time
}

// NewSignedTokens returns SignedTokens with a secret of at least 32 bytes.
func NewSignedTokens(secret []byte, now func() time.Time) *SignedTokens {
	// This bounds the cache of verified tokens, about 200 bytes each.
	verified, err := lru.New[events.Hash, verifiedToken](100_000)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &SignedTokens{secret: secret, now: now, verified: verified, parser: jwt.NewParser(
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

// Expiry implements Issuer. It returns a whole second, the finest time that a token states:
// a session must not end before the time that its holder was told.
func (*SignedTokens) Expiry(issued events.Timestamp) events.Timestamp {
	return events.At(issued.Time().Add(CoreSessionLifetime).Truncate(time.Second))
}

// Verify returns the owner, the session and the expiry of a token.
func (s *SignedTokens) Verify(token string) (owner events.Owner, sessionID string, expires time.Time, err error) {
	hash := HashToken(token)
	known, ok := s.verified.Get(hash)
	if !s.Hits.Count(ok) {
		if known, err = s.verify(token); err != nil {
			return "", "", time.Time{}, err
		}
		s.verified.Add(hash, known)
	}
	if !s.now().Before(known.expires) {
		s.verified.Remove(hash)
		return "", "", time.Time{}, ErrToken
	}
	return known.owner, known.sessionID, known.expires, nil
}

func (s *SignedTokens) verify(token string) (verifiedToken, error) {
	var claims jwt.RegisteredClaims
	if _, err := s.parser.ParseWithClaims(token, &claims, s.secretFor); err != nil {
		return verifiedToken{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	owner, err := events.ParseOwner(claims.Subject)
	if err != nil || claims.ID == "" {
		return verifiedToken{}, ErrToken
	}
	return verifiedToken{owner, claims.ID, claims.ExpiresAt.Time}, nil
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
