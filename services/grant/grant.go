// Package grant handles the two capabilities an owner can hand out: an agent
// case, which reads, and a memory drop, which writes. The token in the path is
// the whole credential; only its SHA-256 is kept.
//
//	minted --use, some left--> minted
//	minted --last use--------> spent
//	minted --revoke----------> revoked   (by the owner, or by minting another of its kind)
//	minted --time------------> expired
//
// The state lives in the owner's events and moves by appends with the owner's
// expected version, so no number of holders and replicas spends a use twice.
//
// A token that opens nothing is refused at the same price whatever is wrong
// with it: one wait for the whole log, one look-up. Only a text that no token
// could be is refused without either; who sends one learns nothing by that.
package grant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// Terms are the defaults and bounds of a kind of grant.
type Terms struct {
	TokenPrefix                            string
	DefaultMinutes, MinMinutes, MaxMinutes int
	DefaultUses, MinUses, MaxUses          int
	UsesField                              string // name of the uses in requests: "maxReads" or "maxWrites"
	Path                                   string // where the token is presented
}

// Kinds of grants and their terms.
var (
	CaseTerms = Terms{"svc_case_", 15, 1, 1440, 1, 1, 10, "maxReads", "/agent-cases/"}
	DropTerms = Terms{"svc_drop_", 15, 1, 1440, 1, 1, 5, "maxWrites", "/memory-drops/"}
)

// TermsOf returns the terms of a kind.
func TermsOf(kind events.GrantKind) Terms {
	if kind == events.GrantCase {
		return CaseTerms
	}
	return DropTerms
}

// ErrNotFound: the owner has no such grant.
var ErrNotFound = errors.New("grant not found")

// ErrDead is what every token gets that is unknown, spent, revoked or expired.
var ErrDead = command.ErrGrantDead

// Config of a Service.
type Config struct {
	Commands *command.Executor
	Memories *memory.Service
	Query    schema.Querier
	Fence    *fence.Fence
	BaseURL  string // public base URL of the extension API, without a slash at the end
	Now      func() time.Time
	NewID    func() string
	Rand     io.Reader     // nil means crypto/rand
	Quotas   *quota.Quotas // of mints; nil: there are none
}

// Service mints, shows, revokes and spends grants.
type Service struct {
	Config
	limiter   caseLimiter
	documents documentCache
}

// Opened is a grant that was alive when its token was presented.
type Opened struct {
	owner events.Owner
	id    string
	left  int          // uses
	key   *events.Hash // of the write through a drop, scoped to it; nil without one
}

// New returns a Service.
func New(cfg Config) *Service { return &Service{Config: cfg} }

// Minted is a fresh grant with its token, which is told only once.
type Minted struct {
	ID              string
	URL             string
	ExpiresAt       events.Timestamp
	MaxUses         int
	RevokedPrevious int
}

// Mint hands out a grant and revokes the owner's others of the kind.
func (s *Service) Mint(ctx context.Context, owner events.Owner, by command.Credential, kind events.GrantKind, lifetime time.Duration, uses int) (Minted, error) {
	if err := s.Quotas.Take(quota.Mints, owner, 1); err != nil {
		return Minted{}, err
	}
	terms := TermsOf(kind)
	token, hash, err := signin.NewToken(s.Rand, terms.TokenPrefix)
	if err != nil {
		return Minted{}, err
	}
	mint := &command.MintGrant{
		GrantID: s.NewID(), Kind: kind, TokenHash: hash,
		ExpiresAt: events.At(s.Now().Add(lifetime)), MaxUses: uses, Credential: by,
	}
	if err := s.Commands.Execute(ctx, owner, mint); err != nil {
		return Minted{}, err
	}
	return Minted{
		ID: mint.GrantID, URL: s.BaseURL + terms.Path + token, ExpiresAt: mint.ExpiresAt,
		MaxUses: uses, RevokedPrevious: mint.RevokedPrevious,
	}, nil
}

// Status is what an owner sees of a grant.
type Status struct {
	Used, Remaining  int
	Revoked, Expired bool
}

// Status returns the state of an owner's grant. The caller has passed the
// fence.
func (s *Service) Status(ctx context.Context, owner events.Owner, kind events.GrantKind, id string) (Status, error) {
	g, found, err := grants.ByID(ctx, s.Query, owner, id)
	if err != nil {
		return Status{}, fmt.Errorf("find grant: %w", err)
	}
	if !found || g.Kind != kind {
		return Status{}, ErrNotFound
	}
	return Status{
		Used: g.Used, Remaining: g.MaxUses - g.Used,
		Revoked: g.RevokedAt != nil, Expired: !s.Now().Before(g.ExpiresAt.Time()),
	}, nil
}

// Revoke ends an owner's grant and reports whether it is revoked now, by this call
// or an earlier one: false for a grant that was spent or expired first. A repetition
// gets the same answer. The caller has passed the fence.
func (s *Service) Revoke(ctx context.Context, owner events.Owner, by command.Credential, kind events.GrantKind, id string) (bool, error) {
	g, found, err := grants.ByID(ctx, s.Query, owner, id)
	if err != nil {
		return false, fmt.Errorf("find grant: %w", err)
	}
	if !found || g.Kind != kind {
		return false, ErrNotFound
	}
	revoke := &command.RevokeGrant{GrantID: g.ID, Kind: kind, Credential: by}
	if err := s.Commands.Execute(ctx, owner, revoke); err != nil {
		return false, err
	}
	if !revoke.Revoked && g.Live(s.Now()) { // ended since it was read
		if err := s.Fence.WaitAll(ctx); err != nil {
			return false, err
		}
		if g, _, err = grants.ByID(ctx, s.Query, owner, id); err != nil {
			return false, fmt.Errorf("find grant: %w", err)
		}
	}
	return revoke.Revoked || g.RevokedAt != nil, nil
}

// Open finds the grant of a token. ErrDead says that it opens nothing, and is
// never said before the projection has caught up with the whole log. Whether
// it still opens something when it is used is up to the decision that uses it.
//
// Every dead token takes this way, and no live one a shorter: nothing is
// remembered about tokens, which are used ten times at the most.
func (s *Service) Open(ctx context.Context, token string, kind events.GrantKind) (Opened, error) {
	g, err := s.find(ctx, token, kind)
	if err != nil {
		return Opened{}, err
	}
	if !g.Live(s.Now()) {
		return Opened{}, ErrDead
	}
	return Opened{owner: g.Owner, id: g.ID, left: g.MaxUses - g.Used}, nil
}

// OpenDrop is Open for a write through a drop. key is the SHA-256 of the request's
// Idempotency-Key, nil without one. A dead drop opens for a key that it was used
// with: a retry gets the first answer again, also where the first attempt used the
// last write.
//
// With a key, every dead token costs one look-up more, unknown ones included.
func (s *Service) OpenDrop(ctx context.Context, token string, key *events.Hash) (Opened, error) {
	if key == nil {
		return s.Open(ctx, token, events.GrantDrop)
	}
	g, err := s.find(ctx, token, events.GrantDrop)
	if err != nil {
		return Opened{}, err
	}
	scoped := dropKey(g.ID, *key)
	drop := Opened{owner: g.Owner, id: g.ID, left: g.MaxUses - g.Used, key: &scoped}
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

// find waits for the whole log and returns the grant of a token, live or dead; for a
// token that never was, the zero one, which is dead. A text that no token could be is
// ErrDead at once.
func (s *Service) find(ctx context.Context, token string, kind events.GrantKind) (grants.Grant, error) {
	if !signin.HasTokenForm(token, TermsOf(kind).TokenPrefix) {
		return grants.Grant{}, ErrDead
	}
	if err := s.Fence.WaitAll(ctx); err != nil {
		return grants.Grant{}, err
	}
	g, found, err := grants.ByTokenHash(ctx, s.Query, signin.HashToken(token))
	if err != nil {
		return grants.Grant{}, fmt.Errorf("look up token: %w", err)
	}
	if !found || g.Kind != kind {
		return grants.Grant{}, nil
	}
	return g, nil
}

// dropKey makes a holder's Idempotency-Key one of the drop's own: it never meets a
// key of the owner or of another drop's holder.
func dropKey(grantID string, key events.Hash) events.Hash {
	return sha256.Sum256(append([]byte("memory-ledger/drop-key/v1\x00"+grantID+"\x00"), key[:]...))
}

// Deposit spends one write of a drop on a memory, as one message.
//
// Errors: ErrDead, command.ErrIdempotencyMismatch, and those of memory.Prepare and
// command.Execute.
func (s *Service) Deposit(ctx context.Context, drop Opened, content string, metadata canonical.Object) (command.Written, error) {
	write, err := s.Memories.Prepare(ctx, memory.Draft{
		Owner: drop.owner, Content: content, Metadata: metadata, IdempotencyKey: drop.key,
	})
	if err != nil {
		return command.Written{}, err
	}
	consume := &command.ConsumeDrop{GrantID: drop.id, Memory: *write}
	if err := s.Commands.Execute(ctx, drop.owner, consume); err != nil {
		return command.Written{}, err
	}
	return consume.Memory.Written, nil
}

// Read makes the owner's document and then spends one read of the case. The
// document comes first: a read is never spent on an answer that could not be
// made. A crash after the append spends the read, but the answer does not reach
// the client.
//
// size is -1 for a long document. Such a document has been made once, to see that
// it can be, and is made again as it is read, so that a log does not have to fit
// in memory. Any other document has to be closed. gone, if not nil, reports that
// the client has hung up.
func (s *Service) Read(ctx context.Context, token string, gone func() bool) (document io.ReadCloser, size int, err error) {
	// A dead grant is refused before the work of rendering; and the wait for
	// the whole log is one for the owner's part of it, too.
	opened, err := s.Open(ctx, token, events.GrantCase)
	if err != nil {
		return nil, 0, err
	}
	leave, waited, err := s.limiter.enter(ctx, opened.id, opened.left)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if waited { // those who came first may have had the last read
		if opened, err = s.Open(ctx, token, events.GrantCase); err != nil {
			return nil, 0, err
		}
	}
	document, size, err = s.render(ctx, opened.owner, gone)
	if err != nil {
		return nil, 0, err
	}
	// With time of its own, as the document had.
	if err := s.Commands.Execute(context.WithoutCancel(ctx), opened.owner, &command.ConsumeCase{GrantID: opened.id}); err != nil {
		return nil, 0, errors.Join(err, document.Close())
	}
	return document, size, nil
}
