package oauth

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/golang-jwt/jwt/v5"

	"github.com/memory-ledger/ledger/services/signin"
)

// metadata is what an app says about itself. Nothing in it is verified but that it is the
// document at the app's address, if the client id is one.
type metadata struct {
	Name         string   `json:"client_name,omitzero"`
	RedirectURIs []string `json:"redirect_uris"`
}

// checked returns the metadata with a clean name.
func (m metadata) checked() (metadata, error) {
	if len(m.RedirectURIs) == 0 || len(m.RedirectURIs) > 8 { // they travel in the client id
		return metadata{}, &Error{Code: "invalid_redirect_uri", Description: "redirect_uris must have 1 to 8 entries"}
	}
	for _, text := range m.RedirectURIs {
		if _, ok := parseRedirect(text); !ok {
			return metadata{}, &Error{Code: "invalid_redirect_uri", Description: "a redirect URI is https, or http on 127.0.0.1, [::1] or localhost, or the scheme of an installed app; it has no user and no fragment"}
		}
	}
	m.Name = plainName(m.Name)
	return m, nil
}

// plainName cleans and shortens a name, so that it can't pose as other text.
func plainName(name string) string {
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.C, r) || unicode.Is(unicode.Z, r)
	}), " ")
	if letters := []rune(name); len(letters) > 60 {
		name = string(letters[:59]) + "…"
	}
	return name
}

// sealedClient is a client id: the registered metadata.
type sealedClient struct {
	jwt.RegisteredClaims
	metadata
}

// Registered is the answer to a registration (RFC 7591).
type Registered struct {
	ClientID      string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Name          string   `json:"client_name,omitzero"`
	RedirectURIs  []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
}

// Register gives an app a client id, and stores nothing: the id holds the metadata under a
// MAC. The app becomes a public client, even if it asks for a secret.
func (s *Server) Register(name string, redirectURIs []string) (Registered, error) {
	m, err := metadata{name, redirectURIs}.checked()
	if err != nil {
		return Registered{}, err
	}
	now := s.Now()
	id, err := s.Tokens.Seal(signin.KindClient, &sealedClient{jwt.RegisteredClaims{IssuedAt: jwt.NewNumericDate(now)}, m})
	if err != nil {
		return Registered{}, err
	}
	return Registered{id, now.Unix(), m.Name, m.RedirectURIs, grantTypes, []string{"code"}, "none"}, nil
}

var grantTypes = []string{"authorization_code", "refresh_token"}

// isClient reports whether a text has the form of a client id. An app whose id is not one of
// this service any more registers again.
func (s *Server) isClient(id string) bool {
	return strings.HasPrefix(id, "https://") || s.Tokens.Open(signin.KindClient, id, &sealedClient{}) == nil
}

// clientOf returns what the app with a client id says about itself.
func (s *Server) clientOf(ctx context.Context, id string) (metadata, error) {
	if strings.HasPrefix(id, "https://") {
		path := strings.Split(id, "/")
		if len(id) > maxRedirect || !documentURL.MatchString(id) || slices.Contains(path, ".") || slices.Contains(path, "..") {
			return metadata{}, errClient
		}
		return s.documents.get(ctx, id)
	}
	var sealed sealedClient
	if err := s.Tokens.Open(signin.KindClient, id, &sealed); err != nil {
		return metadata{}, errClient
	}
	return sealed.metadata, nil
}
