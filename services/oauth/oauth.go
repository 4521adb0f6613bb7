// Package oauth connects apps by OAuth 2.1. An app becomes an API key of its user: the key's
// state decides what the app may do, and revoking the key ends the app.
//
// Codes, refresh tokens and client ids are signed, and any replica verifies them. Only one
// entry an app is stored beside the log: see entries.
package oauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// Error is a refusal in the form of RFC 6749. Its text shows nothing of the request.
type Error struct{ Code, Description string }

func (e *Error) Error() string { return e.Description }

var (
	// ErrBusy: too many metadata documents are being fetched, or the bucket of apps can't be
	// reached.
	ErrBusy = errors.New("apps can't be connected now")

	errClient   = &Error{"invalid_client", "client_id is not one of this service, and not the address of a metadata document"}
	errRedirect = &Error{"invalid_request", "redirect_uri is not one that the app registered"}
	errCode     = &Error{"invalid_grant", "the code is unknown, used or expired, or is of another app"}
	errRefresh  = &Error{"invalid_grant", "the refresh token is unknown or used, or its app was ended"}
	errTarget   = &Error{"invalid_target", "resource must be this service's URL, or that of its /mcp"}
)

const (
	codeLifetime   = time.Minute
	accessLifetime = time.Hour
)

// Server is the authorization server of the core API.
type Server struct {
	Config
	entries   entries
	documents *documents
}

type Config struct {
	Tokens   *signin.SignedTokens
	Access   *access.Authenticator
	Commands *command.Executor
	Quotas   *quota.Quotas // of keys; nil: no quotas
	Apps     jetstream.KeyValue
	// SyncApps makes an entry durable, for a server that acknowledges before it syncs; may be nil.
	SyncApps func(context.Context) error
	BaseURL  string // the core API's public URL, without a slash at the end; the issuer
	Now      func() time.Time
	NewID    func() string
}

func New(cfg Config) *Server {
	return &Server{cfg, entries{cfg.Apps, cfg.SyncApps}, newDocuments(cfg.Now)}
}

type Request struct {
	Name     string // what the app calls itself; may be empty
	Document string // the host of the app's metadata document; empty for a registered app
	Host     string // where the answer goes
	Scopes   []events.Scope
	client   string
	redirect redirect
	state    string
	// challenge is the PKCE challenge, and resource what the tokens are for.
	challenge, resource string
}

var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// Parse checks an authorization request, from its parameters. A refusal does not go to the
// redirect URI: anyone may register an app, and this service would redirect to any site.
func (s *Server) Parse(ctx context.Context, parameter func(string) string) (*Request, error) {
	client := parameter("client_id")
	m, err := s.clientOf(ctx, client)
	if err != nil {
		return nil, err
	}
	r, ok := parseRedirect(parameter("redirect_uri"))
	if !ok || !slices.ContainsFunc(m.RedirectURIs, r.is) {
		return nil, errRedirect
	}
	q := &Request{
		Name: m.Name, Host: r.host, client: client, redirect: r, state: parameter("state"), challenge: parameter("code_challenge"), resource: parameter("resource"),
	}
	if strings.HasPrefix(client, "https://") {
		q.Document = hostOf(client)
	}
	q.resource = plain(q.resource)
	switch {
	case parameter("response_type") == "":
		return nil, &Error{"invalid_request", "response_type is missing"}
	case parameter("response_type") != "code":
		return nil, &Error{"unsupported_response_type", `response_type must be "code"`}
	case parameter("code_challenge_method") != "S256" || !challengeForm.MatchString(q.challenge):
		return nil, &Error{"invalid_request", "PKCE is required: code_challenge with code_challenge_method S256"}
	case !s.isResource(q.resource):
		return nil, errTarget
	case len(q.state) > 2048:
		return nil, &Error{"invalid_request", "state is longer than 2,048 bytes"}
	}
	q.Scopes, err = scopesOf(parameter("scope"))
	return q, err
}

// isResource reports whether a plain resource is this service (RFC 8707).
func (s *Server) isResource(resource string) bool {
	return resource == s.BaseURL || resource == s.BaseURL+"/mcp"
}

// plain returns a resource without the slash at its end, which some clients add.
func plain(resource string) string { return strings.TrimSuffix(resource, "/") }

// scopesOf returns the scopes of a request, in the order of events.AllScopes. Unknown ones
// are left out (RFC 6749, section 3.3).
func scopesOf(text string) ([]events.Scope, error) {
	if text == "" {
		return []events.Scope{events.ScopeRead, events.ScopeWrite}, nil
	}
	asked := strings.Fields(text)
	scopes := slices.DeleteFunc(slices.Clone(events.AllScopes), func(s events.Scope) bool { return !slices.Contains(asked, string(s)) })
	if len(scopes) == 0 {
		return nil, &Error{"invalid_scope", "the scopes are read, write, retract and share"}
	}
	return scopes, nil
}

// Denied returns where the browser goes if the user refuses.
func (s *Server) Denied(q *Request) string { return s.answer(q, "error", "access_denied") }

// answer returns the redirect URI with an answer. It names the issuer, so that an app that
// knows several can't be made to confuse them (RFC 9207).
func (s *Server) answer(q *Request, name, value string) string {
	values := url.Values{name: {value}, "iss": {s.BaseURL}}
	if q.state != "" {
		values.Set("state", q.state)
	}
	return q.redirect.with(values)
}

// Terms are what the user allows an app.
type Terms struct {
	Scopes     []events.Scope    `json:"scopes"`
	Namespaces []string          `json:"namespaces,omitzero"` // nil: no limit
	ExpiresAt  *events.Timestamp `json:"expiresAt,omitzero"`  // nil: never
}

// sealedCode is a code: what the user allowed. Subject is the owner, and ID the key to be.
type sealedCode struct {
	jwt.RegisteredClaims

	Client    string     `json:"client"`   // hashOf the client id
	Redirect  string     `json:"redirect"` // hashOf the redirect URI: bounds the code's length
	Challenge string     `json:"challenge"`
	Resource  string     `json:"resource"`
	Session   string     `json:"session"`
	Terms     Terms      `json:"terms"`
	App       events.App `json:"app"`
}

// Consent seals what the owner of a session allows into a code, and returns where the browser
// goes with it. Nothing is stored: codes that are never exchanged would stay forever. The
// app's key is made when the code is exchanged, if the session is still alive.
func (s *Server) Consent(caller access.Caller, q *Request, terms Terms) (string, error) {
	if err := s.Quotas.Take(quota.Keys, caller.Owner, 1); err != nil {
		return "", err
	}
	return s.answer(q, "code", s.Tokens.Seal(signin.KindCode, &sealedCode{
		RegisteredClaims: jwt.RegisteredClaims{Subject: string(caller.Owner), ID: s.NewID(), ExpiresAt: jwt.NewNumericDate(s.Now().Add(codeLifetime))},
		Client:           hashOf(q.client), Redirect: hashOf(q.redirect.url), Challenge: q.challenge, Resource: q.resource,
		Session: caller.Credential.ID, Terms: terms, App: events.App{Name: cmp.Or(q.Name, q.Host), RedirectHost: q.Host},
	})), nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Granted is the answer of the token endpoint.
type Granted struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
}

// Exchange turns a code into tokens, once. A second use of a code ends the app: one of the
// two users stole it.
func (s *Server) Exchange(ctx context.Context, parameter func(string) string) (Granted, error) {
	var p sealedCode
	if err := s.Tokens.Open(signin.KindCode, parameter("code"), &p); err != nil {
		return Granted{}, errCode
	}
	owner, keyID := events.Owner(p.Subject), p.ID
	_, used, err := s.entries.get(ctx, keyID)
	switch {
	case err != nil:
		return Granted{}, err
	case !s.isClient(parameter("client_id")):
		return Granted{}, errClient
	case used > 0:
		return Granted{}, s.replayed(ctx, owner, keyID, errCode)
	}
	verifier := sha256.Sum256([]byte(parameter("code_verifier")))
	switch {
	case p.Client != hashOf(parameter("client_id")), parameter("redirect_uri") != "" && hashOf(parameter("redirect_uri")) != p.Redirect:
		return Granted{}, errCode
	case subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(verifier[:])), []byte(p.Challenge)) != 1:
		return Granted{}, &Error{"invalid_grant", "code_verifier does not fit the code_challenge"}
	case parameter("resource") != "" && plain(parameter("resource")) != p.Resource:
		return Granted{}, errTarget
	case p.Terms.ExpiresAt != nil && !s.Now().Before(p.Terms.ExpiresAt.Time()):
		return Granted{}, errCode
	}
	// Making the key needs the owner's state. Load it before: the code is not used up while
	// the log or the database fails.
	if _, err := s.Commands.Standing(ctx, owner); err != nil {
		return Granted{}, err
	}
	// From here on the code is used. A crash leaves a code that is lost, and no key.
	now := entry{Generation: 1, Client: p.Client, Resource: p.Resource}
	if err := s.entries.replace(ctx, keyID, now, 0); errors.Is(err, errMoved) {
		return Granted{}, s.replayed(ctx, owner, keyID, errCode)
	} else if err != nil {
		return Granted{}, err
	}
	if err := s.createKey(ctx, owner, &p); err != nil {
		return Granted{}, err
	}
	// A second use may have ended the app before there was a key to revoke.
	if after, _, err := s.entries.get(ctx, keyID); err != nil || after.Ended {
		return Granted{}, s.replayed(ctx, owner, keyID, errCode)
	}
	// The read models may not have the key yet, so the answer comes from the terms.
	granted, issued := s.seal(owner, keyID, now)
	life := accessLifetime
	if end := p.Terms.ExpiresAt; end != nil {
		life = min(life, end.Time().Sub(issued))
	}
	return granted.within(life, p.Terms.Scopes), nil
}

// createKey makes the app's key. Its secret is thrown away: the app uses access tokens.
func (s *Server) createKey(ctx context.Context, owner events.Owner, p *sealedCode) error {
	unused, hash := signin.NewToken(access.APIKeyPrefix)
	err := s.Commands.Execute(ctx, owner, &command.CreateKey{
		KeyID: p.ID, KeyHash: hash, Prefix: unused[:len(access.APIKeyPrefix)+8], Label: p.App.Name, Scopes: p.Terms.Scopes, Namespaces: p.Terms.Namespaces, ExpiresAt: p.Terms.ExpiresAt, App: &p.App,
		Credential: command.Credential{Kind: command.CredentialCoreSession, ID: p.Session},
	})
	switch {
	case errors.Is(err, command.ErrCredentialDead):
		return &Error{"invalid_grant", "the user signed out before the app was connected"}
	case errors.Is(err, command.ErrTooManyKeys):
		return &Error{"invalid_grant", command.ErrTooManyKeys.Error()}
	}
	return err
}

// refreshToken is what a refresh token says. Subject is the owner, and ID the key.
type refreshToken struct {
	jwt.RegisteredClaims
	Generation int `json:"gen"`
}

// Refresh replaces a refresh token, and returns an access token with it. A refresh token of
// an older generation ends the app: the thief or the app has used it before.
func (s *Server) Refresh(ctx context.Context, parameter func(string) string) (Granted, error) {
	var claims refreshToken
	if err := s.Tokens.Open(signin.KindRefresh, parameter("refresh_token"), &claims); err != nil {
		return Granted{}, errRefresh
	}
	owner, err := events.ParseOwner(claims.Subject)
	if err != nil {
		return Granted{}, errRefresh
	}
	found, revision, err := s.entries.get(ctx, claims.ID)
	switch {
	case err != nil:
		return Granted{}, err
	case !s.isClient(parameter("client_id")):
		return Granted{}, errClient
	case found.Client != hashOf(parameter("client_id")):
		return Granted{}, errRefresh
	case parameter("resource") != "" && plain(parameter("resource")) != found.Resource:
		return Granted{}, errTarget
	case claims.Generation != found.Generation:
		return Granted{}, s.replayed(ctx, owner, claims.ID, errRefresh)
	}
	next := entry{Generation: found.Generation + 1, Client: found.Client, Resource: found.Resource}
	// Look at the key first: the refresh token of a dead key is not used up.
	granted, err := s.grant(ctx, owner, claims.ID, next)
	if err != nil {
		return Granted{}, err
	}
	// A crash after it leaves an app whose tokens were not delivered. It ends when it tries
	// again, and its user connects it once more.
	if err := s.entries.replace(ctx, claims.ID, next, revision); errors.Is(err, errMoved) {
		return Granted{}, s.replayed(ctx, owner, claims.ID, errRefresh)
	} else if err != nil {
		return Granted{}, err
	}
	return granted, nil
}

// grant returns tokens of an app whose key is alive.
func (s *Server) grant(ctx context.Context, owner events.Owner, keyID string, e entry) (Granted, error) {
	granted, issued := s.seal(owner, keyID, e)
	caller, err := s.Access.Read(ctx, "Bearer "+granted.AccessToken)
	if errors.Is(err, access.ErrUnauthenticated) {
		return Granted{}, errRefresh
	}
	if err != nil {
		return Granted{}, err
	}
	return granted.within(caller.Expires.Sub(issued), caller.Scopes), nil
}

// seal returns tokens of an app, and when they were issued.
func (s *Server) seal(owner events.Owner, keyID string, e entry) (g Granted, issued time.Time) {
	issued = s.Now().Truncate(time.Second) // the finest time that a token states
	claims := jwt.RegisteredClaims{Subject: string(owner), ID: keyID, IssuedAt: jwt.NewNumericDate(issued)}
	g = Granted{TokenType: "Bearer", RefreshToken: s.Tokens.Seal(signin.KindRefresh, &refreshToken{claims, e.Generation})}
	claims.Issuer, claims.Audience, claims.ExpiresAt = s.BaseURL, jwt.ClaimStrings{e.Resource}, jwt.NewNumericDate(issued.Add(accessLifetime))
	g.AccessToken = s.Tokens.Seal(signin.KindAccess, &signin.AccessToken{RegisteredClaims: claims, ClientID: e.Client})
	return g, issued
}

// within returns the answer with what the app's key allows.
func (g Granted) within(life time.Duration, scopes []events.Scope) Granted {
	g.ExpiresIn, g.Scope = int64(life/time.Second), strings.ReplaceAll(events.JoinScopes(scopes), ",", " ")
	return g
}

// Revoke ends the app of an access or refresh token (RFC 7009). It says nothing about a
// token that opens nothing. Of an app whose entry is lost, the key may still be alive, and
// any client that has the token may end it.
func (s *Server) Revoke(ctx context.Context, token, client string) error {
	var claims refreshToken // an access token has its members, too
	if s.Tokens.Open(signin.KindRefresh, token, &claims) != nil && s.Tokens.Open(signin.KindAccess, token, &claims) != nil {
		return nil
	}
	owner, err := events.ParseOwner(claims.Subject)
	if err != nil {
		return nil
	}
	found, _, err := s.entries.get(ctx, claims.ID)
	switch {
	case err != nil:
		return err
	case client != "" && found.Client != "" && found.Client != hashOf(client):
		return &Error{"invalid_client", "the token is of another app"}
	}
	return s.end(ctx, owner, claims.ID)
}

// replayed ends an app whose code or refresh token came a second time, and returns the
// refusal.
func (s *Server) replayed(ctx context.Context, owner events.Owner, keyID string, refusal error) error {
	if err := s.end(ctx, owner, keyID); err != nil {
		return err
	}
	return refusal
}

// end ends an app. A crash before the key is revoked leaves an app without a refresh token,
// whose access token lasts an hour at most.
func (s *Server) end(ctx context.Context, owner events.Owner, keyID string) error {
	if err := s.entries.end(ctx, keyID); err != nil {
		return err
	}
	err := s.Commands.Execute(ctx, owner, &command.RevokeKey{KeyID: keyID})
	if errors.Is(err, command.ErrKeyUnknown) {
		return nil // it was revoked before, or has expired
	}
	return err
}
