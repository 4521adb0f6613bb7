// Package access identifies callers: it turns a bearer credential into an owner. It
// refuses a credential only after it has caught up with the log.
//
// A credential is looked up once and remembered while it is alive: its owner never changes.
// Each request checks again whether it is alive. A read asks the read model behind the
// fence, unless the log still ends where it did at the last look-up. A write leaves the
// check to the decision, where the owner's expected version guards it.
//
// Unknown, expired and revoked credentials get the same answer.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/apikeys"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/cachestats"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/signin"
)

// ErrUnauthenticated: the request has no credential, or one that is dead or not ours.
var ErrUnauthenticated = errors.New("missing or invalid credential")

var ErrScope = errors.New("the API key does not have the scope")

// ErrLimited: the API key is limited to namespaces, and the request is about the whole log.
var ErrLimited = errors.New("the API key is limited to namespaces; this is about the whole log")

const APIKeyPrefix = "svc_"

type Caller struct {
	Owner      events.Owner
	Credential command.Credential
	// Head is what the fence returned for a read. It is unknown for a write, and for a
	// read whose credential was not remembered as alive.
	Head fence.Head
	// Expires is when the credential expires, zero for never.
	Expires time.Time
	// Namespaces are the namespaces that an API key is limited to; nil for no limit.
	Namespaces []string
	// Scopes are the scopes of an API key; nil for a session.
	Scopes []events.Scope
}

// Require returns ErrScope for an API key without the scope. A session may do everything
// that its API does.
func (c Caller) Require(scope events.Scope) error {
	if c.Credential.Kind == command.CredentialKey && !slices.Contains(c.Scopes, scope) {
		return fmt.Errorf("%w %q", ErrScope, scope)
	}
	return nil
}

// RequireWhole returns ErrLimited for an API key that is limited to namespaces.
func (c Caller) RequireWhole() error {
	if c.Namespaces != nil {
		return ErrLimited
	}
	return nil
}

// identity is the owner of a credential, and the credential's data.
type identity struct {
	owner   events.Owner
	id      string
	expires time.Time // zero: never
	scopes  []events.Scope
	limit   []string // namespaces
	// head is what the fence returned before the last look-up. While the fence returns
	// the same known head, the credential was not revoked.
	head fence.Head
}

func (i identity) expired(now time.Time) bool {
	return !i.expires.IsZero() && !now.Before(i.expires)
}

// lookups are the credentials of one kind.
type lookups struct {
	kind command.CredentialKind
	// valid reports whether a text has the form of a credential, without a question. Of a
	// signed token it also returns who it is.
	valid func(token string) (who identity, ok bool)
	// find asks the read model. told is what the token or an earlier look-up said.
	find func(ctx context.Context, hash events.Hash, told identity) (who identity, revoked, found bool, err error)
}

// Authenticator is the access control of one API.
type Authenticator struct {
	fence *fence.Fence
	now   func() time.Time
	kinds func(token string) *lookups
	// live holds the credentials that were alive at their last look-up, and signed sessions
	// that have only written: their signature is good, and each decision checks them.
	live *lru.Cache[events.Hash, identity]
	// Hits counts look-ups by whether the credential was remembered as alive.
	Hits *cachestats.Counter
}

func newAuthenticator(f *fence.Fence, now func() time.Time, kinds func(string) *lookups) *Authenticator {
	live, err := lru.New[events.Hash, identity](100_000)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Authenticator{fence: f, now: now, kinds: kinds, live: live, Hits: &cachestats.Counter{}}
}

// NewCore accepts signed sessions, API keys, and the access tokens of apps.
func NewCore(q schema.Querier, f *fence.Fence, jwt *signin.SignedTokens, now func() time.Time) *Authenticator {
	keys := &lookups{
		kind:  command.CredentialKey,
		valid: func(token string) (identity, bool) { return identity{}, signin.HasTokenForm(token, APIKeyPrefix) },
		find: func(ctx context.Context, hash events.Hash, _ identity) (identity, bool, bool, error) {
			key, found, err := apikeys.ByHash(ctx, q, hash)
			return identity{owner: key.Owner, id: key.ID, expires: key.ExpiresAt.TimeOrZero(), scopes: key.Scopes, limit: key.Namespaces}, key.RevokedAt != nil, found, err
		},
	}
	signed := &lookups{
		kind: command.CredentialCoreSession,
		valid: func(token string) (identity, bool) {
			owner, id, expires, err := jwt.Verify(token)
			return identity{owner: owner, id: id, expires: expires}, err == nil
		},
		find: func(ctx context.Context, _ events.Hash, told identity) (identity, bool, bool, error) {
			s, found, err := sessions.ByID(ctx, q, told.owner, told.id)
			return told, s.RevokedAt != nil, found, err
		},
	}
	// An app's access token names a key, whose state is checked as for any key. What the
	// token was issued for is not compared with this process's address: replicas may have
	// different ones, and only tokens of this service have the signature.
	apps := &lookups{
		kind: command.CredentialKey,
		valid: func(token string) (identity, bool) {
			owner, claims, err := jwt.VerifyAccess(token)
			if err != nil {
				return identity{}, false
			}
			return identity{owner: owner, id: claims.ID, expires: claims.ExpiresAt.Time}, true
		},
		find: func(ctx context.Context, _ events.Hash, told identity) (identity, bool, bool, error) {
			key, found, err := apikeys.ByID(ctx, q, told.owner, told.id)
			if end := key.ExpiresAt.TimeOrZero(); !end.IsZero() && end.Before(told.expires) {
				told.expires = end
			}
			told.scopes, told.limit = key.Scopes, key.Namespaces
			return told, key.RevokedAt != nil, found, err
		},
	}
	return newAuthenticator(f, now, func(token string) *lookups {
		switch {
		case strings.HasPrefix(token, APIKeyPrefix):
			return keys
		case signin.HasKind(token, signin.KindAccess):
			return apps
		}
		return signed
	})
}

func NewExtension(q schema.Querier, f *fence.Fence, now func() time.Time) *Authenticator {
	only := &lookups{
		kind: command.CredentialExtensionSession,
		valid: func(token string) (identity, bool) {
			return identity{}, signin.HasTokenForm(token, signin.ExtensionTokenPrefix)
		},
		find: func(ctx context.Context, hash events.Hash, _ identity) (identity, bool, bool, error) {
			s, found, err := sessions.ByTokenHash(ctx, q, hash)
			return identity{owner: s.Owner, id: s.ID, expires: s.ExpiresAt.Time()}, s.RevokedAt != nil, found, err
		},
	}
	return newAuthenticator(f, now, func(string) *lookups { return only })
}

// Read authenticates a request that reads. When it returns, the projection has caught up
// with everything that the caller's owner did before the request.
func (d *Authenticator) Read(ctx context.Context, header string) (Caller, error) {
	return d.authenticate(ctx, header, true)
}

// Write authenticates a request that ends in a command. It accepts a credential that was
// alive at its last look-up without asking again. The command must carry the credential:
// its decision refuses a revoked one. Call Read before the caller is refused for any other
// reason: a message about a wrong body would tell which dead credentials were alive once.
func (d *Authenticator) Write(ctx context.Context, header string) (Caller, error) {
	return d.authenticate(ctx, header, false)
}

func (d *Authenticator) authenticate(ctx context.Context, header string, read bool) (Caller, error) {
	token, err := bearer(header)
	if err != nil {
		return Caller{}, err
	}
	l, hash := d.kinds(token), signin.HashToken(token)
	who, head, err := d.identify(ctx, l, token, hash, read)
	if err != nil {
		return Caller{}, err
	}
	credential := command.Credential{Kind: l.kind, ID: who.id}
	credential.Guest = l.kind == command.CredentialKey && !slices.Contains(who.scopes, events.ScopeRead)
	credential.Limited = len(who.limit) > 0
	return Caller{Owner: who.owner, Credential: credential, Head: head, Expires: who.expires, Namespaces: who.limit, Scopes: who.scopes}, nil
}

// identify returns the identity of a live credential. If read is set, it also catches up
// with everything that the owner did before the call, and returns the fence's head if
// there is one.
func (d *Authenticator) identify(ctx context.Context, l *lookups, token string, hash events.Hash, read bool) (who identity, head fence.Head, err error) {
	who, known := d.live.Get(hash)
	known = known && who.head.Tables == d.fence.Tables() // exchanged tables may name another owner
	switch {
	case !d.Hits.Count(known && !who.expired(d.now())):
		told, valid := l.valid(token)
		if !valid {
			return identity{}, head, ErrUnauthenticated
		}
		if l.kind == command.CredentialCoreSession && !read {
			told.head.Tables = d.fence.Tables()
			d.live.Add(hash, told)
			return told, head, nil // the decision refuses a session that has ended
		}
		if head, err = d.fence.WaitOwner(ctx, ""); err == nil {
			who, err = d.lookUp(ctx, l, hash, told, head)
		}
	case read:
		head, err = d.fence.WaitOwner(ctx, who.owner)
		if err == nil && (!head.Known() || head != who.head || who.expired(d.now())) {
			who, err = d.lookUp(ctx, l, hash, who, head)
		}
	}
	return who, head, err
}

// lookUp asks the read model, which the caller has waited for. head is what the fence
// returned; it may be unknown.
func (d *Authenticator) lookUp(ctx context.Context, l *lookups, hash events.Hash, told identity, head fence.Head) (identity, error) {
	who, revoked, found, err := l.find(ctx, hash, told)
	if err != nil {
		return identity{}, fmt.Errorf("look up credential: %w", err)
	}
	if !found || revoked || who.expired(d.now()) {
		d.live.Remove(hash)
		return identity{}, ErrUnauthenticated
	}
	who.head = head
	d.live.Add(hash, who)
	return who, nil
}

// bearer takes the credential out of an Authorization header. A gateway counts requests by
// the credential, so bearer must find none where the gateway finds none: only spaces and
// tabs may surround it, not those of Unicode.
func bearer(header string) (string, error) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.Trim(token, " \t")
	// This bounds the text before it is hashed or verified.
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > 4096 || strings.ContainsFunc(token, notVisible) {
		return "", ErrUnauthenticated
	}
	return token, nil
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }
