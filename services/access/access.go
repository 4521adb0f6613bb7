// Package access identifies callers: it turns a bearer credential into an owner. It
// refuses a credential only after it has caught up with the log.
//
// A core session is a signed token, which names its owner and its end. Other credentials
// (API keys, extension sessions) are looked up by the SHA-256 of their text. The owner of
// a hash never changes, so the owner is remembered until a look-up finds the credential
// dead. Each request checks again whether the credential is alive. A read asks the read
// model behind the fence, unless the log still ends where it did at the last look-up. A
// write leaves the check to the decision, where the owner's expected version guards it.
//
// A refusal of a key or an extension session costs the same whatever is wrong. Unknown,
// expired and revoked credentials take one wait for the whole log and one look-up, and get
// the same answer; none of them is remembered. Some refusals take a different time, but
// tell a guesser nothing: a text without the form of a credential, and a token with a wrong
// signature or past its end, are refused without a look-up. The first refusal by a replica
// that last saw the credential alive takes another path. [Authenticator.StillAlive]
// explains the rest.
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

// ErrScope: the API key lacks the scope for the request.
var ErrScope = errors.New("the API key does not have the scope")

// APIKeyPrefix begins every API key.
const APIKeyPrefix = "svc_"

// Caller is an authenticated caller and its credential.
type Caller struct {
	Owner      events.Owner
	Credential command.Credential
	// Head is what the fence returned for a read. It is unknown for a write, and for a
	// read whose credential was not remembered as alive.
	Head fence.Head
	// Expires is when the credential expires, zero for never.
	Expires time.Time

	hash   events.Hash    // set for a credential that is looked up
	scopes []events.Scope // the scopes of an API key
}

// Require returns ErrScope for an API key without the scope. A session may do everything
// that its API does.
func (c Caller) Require(scope events.Scope) error {
	if c.Credential.Kind == command.CredentialKey && !slices.Contains(c.scopes, scope) {
		return fmt.Errorf("%w %q", ErrScope, scope)
	}
	return nil
}

const (
	// maxCredential bounds the text before it is hashed or verified.
	maxCredential = 4096
	cachedHashes  = 100_000
)

// identity is the owner of a hash, and the credential's data.
type identity struct {
	owner   events.Owner
	id      string
	expires time.Time // zero: never
	scopes  []events.Scope
	// head is what the fence returned before the last look-up. While the fence returns
	// the same known head, the credential was not revoked.
	head fence.Head
}

func (i identity) expired(now time.Time) bool {
	return !i.expires.IsZero() && !now.Before(i.expires)
}

// lookups are the credentials of one kind.
type lookups struct {
	prefix string
	kind   command.CredentialKind
	// live holds the credentials that were alive at their last look-up.
	live  *lru.Cache[events.Hash, identity]
	hits  *cachestats.Counter
	fence *fence.Fence
	now   func() time.Time
	find  func(context.Context, events.Hash) (who identity, revoked, found bool, err error)
}

func newLookups(l lookups) *lookups {
	live, err := lru.New[events.Hash, identity](cachedHashes)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	l.live = live
	return &l
}

// identify returns the identity of a live credential. If read is set, it also catches up
// with everything that the owner did before the call, and returns the fence's head if
// there is one.
func (l *lookups) identify(ctx context.Context, hash events.Hash, read bool) (who identity, head fence.Head, err error) {
	who, known := l.live.Get(hash)
	known = known && who.head.Tables == l.fence.Tables() // exchanged tables may name another owner
	switch {
	case !l.hits.Count(known && !who.expired(l.now())):
		if head, err = l.fence.WaitAllHead(ctx); err == nil {
			who, err = l.lookUp(ctx, hash, head)
		}
	case read:
		head, err = l.fence.WaitOwnerHead(ctx, who.owner)
		if err == nil && (!head.Known() || head != who.head || who.expired(l.now())) {
			who, err = l.lookUp(ctx, hash, head)
		}
	}
	return who, head, err
}

// lookUp asks the read model, which the caller has waited for. head is what the fence
// returned; it may be unknown.
func (l *lookups) lookUp(ctx context.Context, hash events.Hash, head fence.Head) (identity, error) {
	who, revoked, found, err := l.find(ctx, hash)
	if err != nil {
		return identity{}, fmt.Errorf("look up credential: %w", err)
	}
	if !found || revoked || who.expired(l.now()) {
		l.live.Remove(hash)
		return identity{}, ErrUnauthenticated
	}
	who.head = head
	l.live.Add(hash, who)
	return who, nil
}

// Authenticator is the access control of one API.
type Authenticator struct {
	fence    *fence.Fence
	signed   *signedSessions // core; nil on the extension API
	keys     *lookups        // core
	sessions *lookups        // extension; nil on core
	// Hits counts look-ups of keys and extension sessions by whether the credential was
	// remembered as alive.
	Hits *cachestats.Counter
}

// NewCore accepts signed sessions and API keys.
func NewCore(q schema.Querier, f *fence.Fence, jwt *signin.SignedTokens, now func() time.Time) *Authenticator {
	h := &cachestats.Counter{}
	return &Authenticator{fence: f, signed: newSignedSessions(q, f, jwt), Hits: h, keys: newLookups(lookups{
		hits: h, prefix: APIKeyPrefix, kind: command.CredentialKey, fence: f, now: now,
		find: func(ctx context.Context, hash events.Hash) (identity, bool, bool, error) {
			key, found, err := apikeys.ByHash(ctx, q, hash)
			return identity{owner: key.Owner, id: key.ID, expires: key.ExpiresAt.TimeOrZero(), scopes: key.Scopes}, key.RevokedAt != nil, found, err
		},
	})}
}

// NewExtension accepts extension sessions.
func NewExtension(q schema.Querier, f *fence.Fence, now func() time.Time) *Authenticator {
	h := &cachestats.Counter{}
	return &Authenticator{fence: f, Hits: h, sessions: newLookups(lookups{
		hits: h, prefix: signin.ExtensionTokenPrefix, kind: command.CredentialExtensionSession, fence: f, now: now,
		find: func(ctx context.Context, hash events.Hash) (identity, bool, bool, error) {
			s, found, err := sessions.ByTokenHash(ctx, q, hash)
			return identity{owner: s.Owner, id: s.ID, expires: s.ExpiresAt.Time()}, s.RevokedAt != nil, found, err
		},
	})}
}

// Read authenticates a request that reads. When it returns, the projection has caught up
// with everything that the caller's owner did before the request.
func (d *Authenticator) Read(ctx context.Context, header string) (Caller, error) {
	return d.authenticate(ctx, header, true)
}

// Write authenticates a request that ends in a command. It accepts a credential that was
// alive at its last look-up without asking again. The command must carry the credential:
// its decision refuses a revoked one. Call StillAlive before the caller is refused for
// any other reason.
func (d *Authenticator) Write(ctx context.Context, header string) (Caller, error) {
	return d.authenticate(ctx, header, false)
}

// StillAlive returns ErrUnauthenticated for a caller of Write whose credential has died.
// Call it before a request is refused for another reason. Otherwise a message about a
// wrong body would tell which dead credentials were alive once.
func (d *Authenticator) StillAlive(ctx context.Context, caller Caller) error {
	l := d.sessions
	switch caller.Credential.Kind {
	case command.CredentialCoreSession:
		_, err := d.signed.alive(ctx, caller.Owner, caller.Credential.ID)
		return err
	case command.CredentialKey:
		l = d.keys
	case command.CredentialExtensionSession, command.CredentialNone:
	}
	head, err := d.fence.WaitAllHead(ctx)
	if err != nil {
		return err
	}
	_, err = l.lookUp(ctx, caller.hash, head)
	return err
}

func (d *Authenticator) authenticate(ctx context.Context, header string, read bool) (Caller, error) {
	token, err := bearer(header)
	if err != nil {
		return Caller{}, err
	}
	switch {
	case d.sessions != nil:
		return d.sessions.caller(ctx, token, read)
	case strings.HasPrefix(token, APIKeyPrefix):
		return d.keys.caller(ctx, token, read)
	}
	return d.signed.caller(ctx, token, read)
}

func (l *lookups) caller(ctx context.Context, token string, read bool) (Caller, error) {
	if !signin.HasTokenForm(token, l.prefix) {
		return Caller{}, ErrUnauthenticated
	}
	hash := signin.HashToken(token)
	who, head, err := l.identify(ctx, hash, read)
	if err != nil {
		return Caller{}, err
	}
	credential := command.Credential{Kind: l.kind, ID: who.id}
	credential.Guest = l.kind == command.CredentialKey && !slices.Contains(who.scopes, events.ScopeRead)
	return Caller{Owner: who.owner, Credential: credential, Head: head, Expires: who.expires, hash: hash, scopes: who.scopes}, nil
}

// bearer takes the credential out of an Authorization header. A gateway counts requests by
// the credential, so bearer must find none where the gateway finds none: only spaces and
// tabs may surround it, not those of Unicode.
func bearer(header string) (string, error) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.Trim(token, " \t")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxCredential || strings.ContainsFunc(token, notVisible) {
		return "", ErrUnauthenticated
	}
	return token, nil
}

func notVisible(r rune) bool { return r <= ' ' || r > '~' }
