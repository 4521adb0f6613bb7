// Package access finds out who is calling: it turns a bearer credential into
// an owner, and never says "no" before it has caught up with the log.
//
// A credential that is looked up (API key, extension session, grant) is found
// by the SHA-256 of its text. To whom a hash belongs never changes, so that
// much is cached; whether it is still alive is asked anew for every request.
// Reads ask the read model behind the fence; writes carry the credential into
// the decision, where the owner's expected version guards it.
package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/apikeys"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/sessions"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/signin"
)

// ErrUnauthenticated: there is no credential, or a dead or foreign one.
var ErrUnauthenticated = errors.New("missing or invalid credential")

// APIKeyPrefix begins every API key.
const APIKeyPrefix = "svc_"

// Caller is who is calling, and by what right.
type Caller struct {
	Owner      events.Owner
	Credential command.Credential
	// Head is what fence.WaitOwnerHead returned for a read, 0 for a write.
	Head uint64
}

const (
	// maxCredential bounds the text before it is hashed or verified.
	maxCredential = 4096
	cachedHashes  = 100_000
)

// identity is to whom a hash belongs.
type identity struct {
	owner   events.Owner
	id      string
	expires time.Time // sessions; zero for keys
}

// lookups caches identities of one kind of credential.
type lookups struct {
	cache *lru.Cache[events.Hash, identity]
	fence *fence.Fence
	find  func(context.Context, events.Hash) (who identity, alive, found bool, err error)
}

func newLookups(f *fence.Fence, find func(context.Context, events.Hash) (identity, bool, bool, error)) *lookups {
	cache, err := lru.New[events.Hash, identity](cachedHashes)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &lookups{cache: cache, fence: f, find: find}
}

// identify says to whom a credential belongs, alive or not.
func (l *lookups) identify(ctx context.Context, hash events.Hash) (identity, error) {
	if who, ok := l.cache.Get(hash); ok {
		return who, nil
	}
	who, _, found, err := l.find(ctx, hash)
	if err == nil && !found {
		if err = l.fence.WaitAll(ctx); err == nil {
			who, _, found, err = l.find(ctx, hash)
		}
	}
	switch {
	case err != nil:
		return identity{}, fmt.Errorf("look up credential: %w", err)
	case !found:
		return identity{}, ErrUnauthenticated
	}
	l.cache.Add(hash, who)
	return who, nil
}

// alive catches up with the owner and looks whether the credential still is.
func (l *lookups) alive(ctx context.Context, hash events.Hash, owner events.Owner) (head uint64, err error) {
	head, err = l.fence.WaitOwnerHead(ctx, owner)
	if err != nil {
		return 0, err
	}
	_, alive, found, err := l.find(ctx, hash)
	if err != nil {
		return 0, fmt.Errorf("look up credential: %w", err)
	}
	if !found || !alive {
		return 0, ErrUnauthenticated
	}
	return head, nil
}

// Door is the access control of one API.
type Door struct {
	fence    *fence.Fence
	jwt      *signin.SignedTokens // core; nil on the extension API
	keys     *lookups             // core
	sessions *lookups             // extension; nil on core
	now      func() time.Time
}

// NewCore accepts signed sessions and API keys.
func NewCore(q schema.Querier, f *fence.Fence, jwt *signin.SignedTokens, now func() time.Time) *Door {
	return &Door{fence: f, jwt: jwt, now: now, keys: newLookups(f,
		func(ctx context.Context, hash events.Hash) (identity, bool, bool, error) {
			key, found, err := apikeys.ByHash(ctx, q, hash)
			return identity{owner: key.Owner, id: key.ID}, key.RevokedAt == nil, found, err
		})}
}

// NewExtension accepts extension sessions.
func NewExtension(q schema.Querier, f *fence.Fence, now func() time.Time) *Door {
	return &Door{fence: f, now: now, sessions: newLookups(f,
		func(ctx context.Context, hash events.Hash) (identity, bool, bool, error) {
			s, found, err := sessions.ByTokenHash(ctx, q, hash)
			return identity{owner: s.Owner, id: s.ID, expires: s.ExpiresAt.Time()}, s.RevokedAt == nil, found, err
		})}
}

// Read authenticates a request that reads. When it returns, the projection
// has caught up with everything the caller's owner did before the request.
func (d *Door) Read(ctx context.Context, header string) (Caller, error) {
	return d.authenticate(ctx, header, true)
}

// Write authenticates a request that ends in a command. The command must carry
// the credential: its decision is what refuses one that was revoked.
func (d *Door) Write(ctx context.Context, header string) (Caller, error) {
	return d.authenticate(ctx, header, false)
}

func (d *Door) authenticate(ctx context.Context, header string, read bool) (Caller, error) {
	token, err := bearer(header)
	if err != nil {
		return Caller{}, err
	}
	switch {
	case d.sessions != nil:
		return d.lookedUp(ctx, d.sessions, command.CredentialExtensionSession, token, read)
	case strings.HasPrefix(token, APIKeyPrefix):
		return d.lookedUp(ctx, d.keys, command.CredentialKey, token, read)
	}
	owner, id, err := d.jwt.Verify(token)
	if err != nil {
		return Caller{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	var head uint64
	if read {
		if head, err = d.fence.WaitOwnerHead(ctx, owner); err != nil {
			return Caller{}, err
		}
	}
	return Caller{owner, command.Credential{Kind: command.CredentialCoreSession, ID: id}, head}, nil
}

func (d *Door) lookedUp(ctx context.Context, l *lookups, kind command.CredentialKind, token string, read bool) (Caller, error) {
	hash := signin.HashToken(token)
	who, err := l.identify(ctx, hash)
	if err != nil {
		return Caller{}, err
	}
	if !who.expires.IsZero() && !d.now().Before(who.expires) {
		return Caller{}, ErrUnauthenticated
	}
	var head uint64
	if read {
		if head, err = l.alive(ctx, hash, who.owner); err != nil {
			return Caller{}, err
		}
	}
	return Caller{who.owner, command.Credential{Kind: kind, ID: who.id}, head}, nil
}

// bearer takes the credential out of an Authorization header.
func bearer(header string) (string, error) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxCredential {
		return "", ErrUnauthenticated
	}
	return token, nil
}
