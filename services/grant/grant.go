// Package grant handles the two capabilities that an owner can give to others: an agent
// case, which reads, and a memory drop, which writes. The token in the path is the whole
// credential; only its SHA-256 is kept.
//
//	minted --use, some left--> minted
//	minted --last use--------> spent
//	minted --revoke----------> revoked   (by the owner, or by minting another of its kind)
//	minted --time------------> expired
//
// The state is in the owner's events and changes by appends with the owner's expected
// version. So a use is never spent twice, however many holders and replicas there are.
//
// Every invalid token costs the same to refuse, whatever makes it invalid: one wait for
// the whole log and one look-up. Only a text without a token's form is refused without
// them, which tells its sender nothing.
package grant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// Terms are the defaults and bounds of a kind of grant.
type Terms struct {
	TokenPrefix                            string
	DefaultMinutes, MinMinutes, MaxMinutes int
	DefaultUses, MinUses, MaxUses          int
	UsesField, UsedField, LeftField        string // names of the uses in requests and answers
	Path                                   string // where the token is presented
}

var (
	CaseTerms = Terms{"svc_case_", 15, 1, 1440, 1, 1, 10, "maxReads", "readCount", "remainingReads", "/agent-cases/"}
	DropTerms = Terms{"svc_drop_", 15, 1, 1440, 1, 1, 5, "maxWrites", "writeCount", "remainingWrites", "/memory-drops/"}
)

func TermsOf(kind events.GrantKind) Terms {
	if kind == events.GrantCase {
		return CaseTerms
	}
	return DropTerms
}

// ErrNotFound: the owner has no such grant.
var ErrNotFound = errors.New("grant not found")

// ErrDead is the error for every token that is unknown, spent, revoked or expired.
var ErrDead = command.ErrGrantDead

type Config struct {
	Commands *command.Executor
	Memories *memory.Service
	Query    schema.Querier
	Fence    *fence.Fence
	BaseURL  string // public base URL of the extension API, without a slash at the end
	Now      func() time.Time
	NewID    func() string
	Quotas   *quota.Quotas // limits mints; nil: no limits
}

// Service mints, shows, revokes and spends grants.
type Service struct {
	Config
	// readers work on the documents of cases, by the case's id.
	readers memory.Turns[string]
}

// Opened is a grant. It was alive when its token was presented, or a drop that
// [Service.OpenDrop] opened for a retry.
type Opened struct {
	Left, MaxUses int
	ExpiresAt     events.Timestamp

	owner events.Owner
	id    string
	limit []string     // namespaces; nil: no limit
	key   *events.Hash // the write's key, scoped to the drop; nil without one
}

func New(cfg Config) *Service { return &Service{Config: cfg} }

// Minted is a new grant. Its token is returned only here.
type Minted struct {
	ID              string
	URL             string
	ExpiresAt       events.Timestamp
	RevokedPrevious int
}

type Asked struct {
	Kind      events.GrantKind
	Lifetime  time.Duration
	Uses      int
	Namespace *string // nil: no limit, or that of the credential
}

// Mint creates a grant and revokes the owner's other grants of the kind.
func (s *Service) Mint(ctx context.Context, by access.Caller, asked Asked) (Minted, error) {
	owner, named := by.Owner, ""
	if asked.Namespace != nil {
		if err := memory.CheckNamespace(*asked.Namespace); err != nil {
			return Minted{}, err
		}
		named = *asked.Namespace
	}
	namespace, err := memory.Within(by.Namespaces, named)
	if err != nil {
		return Minted{}, err
	}
	if err := s.Quotas.Take(quota.Mints, owner, 1); err != nil {
		return Minted{}, err
	}
	terms := TermsOf(asked.Kind)
	token, hash := signin.NewToken(terms.TokenPrefix)
	mint := &command.MintGrant{
		GrantID: s.NewID(), Kind: asked.Kind, TokenHash: hash,
		ExpiresAt: events.At(s.Now().Add(asked.Lifetime)), MaxUses: asked.Uses, Namespace: namespace, Credential: by.Credential,
	}
	if err := s.Commands.Execute(ctx, owner, mint); err != nil {
		return Minted{}, err
	}
	return Minted{
		ID: mint.GrantID, URL: s.BaseURL + terms.Path + token, ExpiresAt: mint.ExpiresAt, RevokedPrevious: mint.RevokedPrevious,
	}, nil
}

// ByID returns an owner's grant, live or dead, of a kind; "" for either kind. The caller has
// passed the fence.
func (s *Service) ByID(ctx context.Context, owner events.Owner, kind events.GrantKind, id string) (grants.Grant, error) {
	g, found, err := grants.ByID(ctx, s.Query, owner, id)
	if err == nil && (!found || kind != "" && g.Kind != kind) {
		err = ErrNotFound
	}
	return g, err
}

// Revoke ends an owner's grant of a kind; "" for either kind. It reports whether the grant is
// now revoked, by this call or an earlier one: false if the grant was spent or expired first.
// A repetition gets the same answer. The caller has passed the fence.
func (s *Service) Revoke(ctx context.Context, owner events.Owner, by command.Credential, kind events.GrantKind, id string) (bool, error) {
	g, err := s.ByID(ctx, owner, kind, id)
	if err != nil {
		return false, err
	}
	revoke := &command.RevokeGrant{GrantID: g.ID, Kind: g.Kind, Credential: by}
	if err := s.Commands.Execute(ctx, owner, revoke); err != nil {
		return false, err
	}
	if !revoke.Revoked && g.Live(s.Now()) { // the grant ended after it was read
		if err := s.Fence.WaitAll(ctx); err != nil {
			return false, err
		}
		if g, err = s.ByID(ctx, owner, kind, id); err != nil {
			return false, err
		}
	}
	return revoke.Revoked || g.Revoked(s.Now()), nil
}

// Open finds the grant of a token. It returns ErrDead for a token that opens nothing, but
// only after the projection has caught up with the whole log. Whether the grant is still
// alive when it is used is up to the decision that uses it.
func (s *Service) Open(ctx context.Context, token string, kind events.GrantKind) (Opened, error) {
	g, err := s.find(ctx, token, kind)
	if err != nil {
		return Opened{}, err
	}
	if !g.Live(s.Now()) {
		return Opened{}, ErrDead
	}
	return opened(g), nil
}

func opened(g grants.Grant) Opened {
	o := Opened{Left: g.MaxUses - g.Used, MaxUses: g.MaxUses, ExpiresAt: g.ExpiresAt, owner: g.Owner, id: g.ID}
	if g.Namespace != "" {
		o.limit = []string{g.Namespace}
	}
	return o
}

// OpenDrop is Open for a write through a drop. key is the SHA-256 of the request's
// Idempotency-Key, nil without one. A dead drop still opens for a key that it was used
// with: a retry gets the first answer again, even if the first attempt used the last
// write.
func (s *Service) OpenDrop(ctx context.Context, token string, key *events.Hash) (Opened, error) {
	if key == nil {
		return s.Open(ctx, token, events.GrantDrop)
	}
	g, err := s.find(ctx, token, events.GrantDrop)
	if err != nil {
		return Opened{}, err
	}
	scoped := dropKey(g.ID, *key)
	drop := opened(g)
	drop.key = &scoped
	if g.Live(s.Now()) {
		return drop, nil
	}
	_, used, err := memories.ByIdempotencyKey(ctx, s.Query, g.Owner, scoped)
	if err != nil {
		return Opened{}, fmt.Errorf("look up Idempotency-Key: %w", err)
	}
	if !used {
		return Opened{}, ErrDead
	}
	return drop, nil
}

// find waits for the whole log and returns the grant of a token, live or dead. For an
// unknown token it returns ErrDead.
func (s *Service) find(ctx context.Context, token string, kind events.GrantKind) (grants.Grant, error) {
	if !signin.HasTokenForm(token, TermsOf(kind).TokenPrefix) {
		return grants.Grant{}, ErrDead
	}
	if err := s.Fence.WaitAll(ctx); err != nil {
		return grants.Grant{}, err
	}
	g, found, err := grants.ByTokenHash(ctx, s.Query, signin.HashToken(token))
	switch {
	case err != nil:
		return grants.Grant{}, fmt.Errorf("look up token: %w", err)
	case !found || g.Kind != kind:
		return grants.Grant{}, ErrDead
	}
	return g, nil
}

// dropKey scopes a holder's Idempotency-Key to the drop: it never collides with a key of
// the owner or of another drop's holder.
func dropKey(grantID string, key events.Hash) events.Hash {
	return sha256.Sum256(append([]byte("memory-ledger/drop-key/v1\x00"+grantID+"\x00"), key[:]...))
}

// Deposit spends one write of a drop and stores a memory, in one message.
//
// Errors: ErrDead, command.ErrIdempotencyMismatch, and those of memory.Prepare and
// command.Execute.
func (s *Service) Deposit(ctx context.Context, drop Opened, content string, metadata canonical.Object, members memory.Members) (command.Written, error) {
	write, err := s.Memories.Prepare(ctx, memory.Draft{
		Owner: drop.owner, Content: content, Metadata: metadata, Members: members, IdempotencyKey: drop.key, Namespaces: drop.limit,
	})
	if err != nil {
		return command.Written{}, s.unlessDead(ctx, drop, err)
	}
	consume := &command.ConsumeDrop{GrantID: drop.id, Memory: *write}
	if err := s.Commands.Execute(ctx, drop.owner, consume); err != nil {
		return command.Written{}, err
	}
	return consume.Memory.Written, nil
}

// unlessDead returns ErrDead instead of an error that says that the owner's key is
// destroyed, if the grant has ended. An erasure ends it, perhaps after it was found alive,
// and then a drop that opened for a retry gives no answer again either.
func (s *Service) unlessDead(ctx context.Context, o Opened, err error) error {
	if !errors.Is(err, keystore.ErrForgotten) {
		return err
	}
	if behind := s.Fence.WaitAll(ctx); behind != nil {
		return behind
	}
	g, found, unread := grants.ByID(ctx, s.Query, o.owner, o.id)
	switch {
	case unread != nil:
		return unread
	case !found || !g.Live(s.Now()):
		return ErrDead
	}
	return err
}

// Read renders the owner's document and then spends one read of the case. Rendering comes
// first, so that no read is spent on a document that can't be rendered. A crash after the
// append spends the read, but the answer does not reach the client.
//
// With a layout, the same memories come as a page, too, those that happened last first.
// gone, if not nil, reports that the client has hung up.
func (s *Service) Read(ctx context.Context, token string, page Layout, gone func() bool) (Rendered, error) {
	// Refuse a dead grant before rendering. This wait for the whole log also covers the
	// owner's part of it.
	opened, err := s.Open(ctx, token, events.GrantCase)
	if err != nil {
		return Rendered{}, err
	}
	// No more readers work at a time than reads are left. Further ones would render a document
	// for which no read is left, or get ErrBusy because of the cost of all the documents. So
	// they wait, and then find the case alive or dead.
	leave, waited, err := s.readers.Take(ctx, opened.id, opened.Left, 1024)
	if err != nil {
		return Rendered{}, err
	}
	defer leave()
	if waited { // an earlier reader may have used the last read
		if opened, err = s.Open(ctx, token, events.GrantCase); err != nil {
			return Rendered{}, err
		}
	}
	made, err := s.render(ctx, opened, page, gone)
	if err != nil {
		return Rendered{}, s.unlessDead(ctx, opened, err)
	}
	// Like the rendering, the append does not end with the request's deadline.
	if err := s.Commands.Execute(context.WithoutCancel(ctx), opened.owner, &command.ConsumeCase{GrantID: opened.id}); err != nil {
		return Rendered{}, err
	}
	return made, nil
}
