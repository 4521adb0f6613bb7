package oauth

import (
	"context"
	"net/url"
	"regexp"
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
	id := s.Tokens.Seal(signin.KindClient, &sealedClient{jwt.RegisteredClaims{IssuedAt: jwt.NewNumericDate(now)}, m})
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

// Characters of a path and a query in RFC 3986, but for the apostrophe, which could end a
// quotation. A fragment is refused (RFC 6749, section 3.1.2).
const tail = `(/([A-Za-z0-9._~!$&()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?(\?([A-Za-z0-9._~!$&()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$`

// The forms of redirect URIs. None has a user, so what stands before the path is the host.
var (
	webRedirect = regexp.MustCompile(`^https://(([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)` + tail)
	// loopbackRedirect is of a program on the user's own computer, which listens on a port
	// that it does not know beforehand (RFC 8252, section 7.3).
	loopbackRedirect = regexp.MustCompile(`^http://((127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{1,5})?)` + tail)
	// appRedirect has a scheme that an installed app registered. A scheme that is a reversed
	// domain name has an owner (RFC 8252, section 7.1). The other schemes are those of known
	// editors. All else, such as javascript and data, is refused.
	appRedirect = regexp.MustCompile(`^((cursor|vscode|vscode-insiders|windsurf|[a-z][a-z0-9-]*(\.[a-z0-9-]+)+):(//[A-Za-z0-9.-]*)?)` + tail)
)

// maxRedirect bounds a redirect URI, in bytes.
const maxRedirect = 512

type redirect struct {
	url  string
	host string // host and port, or an app's scheme and host: for people
	// loopback is the origin without its port of an address on the user's own computer.
	loopback string
}

// parseRedirect checks the form of a redirect URI.
func parseRedirect(text string) (redirect, bool) {
	if len(text) > maxRedirect {
		return redirect{}, false
	}
	r := redirect{url: text}
	if found := webRedirect.FindStringSubmatch(text); found != nil {
		r.host = found[1]
	} else if found := loopbackRedirect.FindStringSubmatch(text); found != nil {
		r.host, r.loopback = found[1], "http://"+found[2]
	} else if found := appRedirect.FindStringSubmatch(text); found != nil {
		r.host = found[1]
	} else {
		return redirect{}, false
	}
	u, err := url.Parse(text)
	if err != nil {
		return redirect{}, false
	}
	query, err := url.ParseQuery(u.RawQuery)
	for _, name := range []string{"code", "state", "iss", "error"} { // the answer's own
		if query.Has(name) {
			return redirect{}, false
		}
	}
	return r, err == nil
}

// is reports whether an app that registered a redirect URI may ask for this one. They must
// be equal, but for the port of a loopback address.
func (r redirect) is(registered string) bool {
	if r.url == registered {
		return true
	}
	other, ok := parseRedirect(registered)
	return ok && r.loopback != "" && r.withoutPort() == other.withoutPort()
}

func (r redirect) withoutPort() string {
	if r.loopback == "" {
		return r.url
	}
	return r.loopback + strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(r.url, r.loopback), ":"), "0123456789")
}

func (r redirect) with(answer url.Values) string {
	separator := "?"
	if strings.Contains(r.url, "?") {
		separator = "&"
	}
	return r.url + separator + answer.Encode()
}
