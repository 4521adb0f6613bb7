package signin

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/events"
)

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

func (s *SignedTokens) Seal(kind Kind, claims jwt.Claims) (string, error) {
	key, err := s.keyOf(kind)
	if err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	token.Header["typ"] = string(kind)
	text, err := token.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return text, nil
}

// Open verifies a token of the kind and decodes its claims. It returns ErrToken for any
// other text, and for a token that has expired.
func (s *SignedTokens) Open(kind Kind, token string, claims jwt.Claims) error {
	if !HasKind(token, kind) {
		return ErrToken
	}
	if _, err := s.sealed.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return s.keyOf(kind) }); err != nil {
		return fmt.Errorf("%w: %w", ErrToken, err)
	}
	return nil
}

// HasKind reports whether a text begins as Seal's tokens of the kind do.
func HasKind(token string, kind Kind) bool {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"` + kind + `"}`))
	return strings.HasPrefix(token, header+".")
}

func (s *SignedTokens) keyOf(kind Kind) ([]byte, error) {
	return hkdf.Key(sha256.New, s.secret, nil, "memory-ledger/token/v1/"+string(kind), sha256.Size)
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
