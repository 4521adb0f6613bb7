package signin

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
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

func (s *SignedTokens) Issue(owner events.Owner, sessionID string, issued, expires events.Timestamp) (string, *events.Hash) {
	return withMAC(s.secret, jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer: jwtIssuer, Audience: jwt.ClaimStrings{jwtAudience}, Subject: string(owner), ID: sessionID,
		IssuedAt: jwt.NewNumericDate(issued.Time()), ExpiresAt: jwt.NewNumericDate(expires.Time()),
	})), nil
}

func withMAC(key []byte, token *jwt.Token) string {
	text, err := token.SignedString(key)
	if err != nil {
		panic(err) // only for claims that JSON can't hold
	}
	return text
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

// Kind is a kind of signed token beside sessions. Each kind has a key of its own, so that
// no token passes for one of another kind.
type Kind string

const (
	KindAccess  Kind = "at+jwt" // RFC 9068
	KindRefresh Kind = "refresh+jwt"
	KindCode    Kind = "code+jwt"
	KindClient  Kind = "client+jwt"
)

// AccessToken is what an app's access token says. It names the key whose state decides what
// the app may do.
type AccessToken struct {
	jwt.RegisteredClaims // Subject is the owner, and ID the key

	ClientID string `json:"client_id"` // SHA-256 of the client id, in hexadecimal
}

func (s *SignedTokens) Seal(kind Kind, claims jwt.Claims) string {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	token.Header["typ"] = string(kind)
	return withMAC(s.keyOf(kind), token)
}

// Open verifies a token of the kind and decodes its claims. It returns ErrToken for any
// other text, and for a token that has expired.
func (s *SignedTokens) Open(kind Kind, token string, claims jwt.Claims) error {
	if !HasKind(token, kind) {
		return ErrToken
	}
	if _, err := s.sealed.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return s.keyOf(kind), nil }); err != nil {
		return fmt.Errorf("%w: %w", ErrToken, err)
	}
	return nil
}

// HasKind reports whether a text begins as Seal's tokens of the kind do.
func HasKind(token string, kind Kind) bool {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"` + kind + `"}`))
	return strings.HasPrefix(token, header+".")
}

func (s *SignedTokens) keyOf(kind Kind) []byte {
	key, err := hkdf.Key(sha256.New, s.secret, nil, "memory-ledger/token/v1/"+string(kind), sha256.Size)
	if err != nil {
		panic(err) // only for more than 255 hashes of output
	}
	return key
}

func (s *SignedTokens) VerifyAccess(token string) (owner events.Owner, claims AccessToken, err error) {
	if err = s.Open(KindAccess, token, &claims); err != nil {
		return "", claims, err
	}
	if owner, err = events.ParseOwner(claims.Subject); err != nil || claims.ID == "" || claims.ExpiresAt == nil {
		return "", claims, ErrToken
	}
	return owner, claims, nil
}
