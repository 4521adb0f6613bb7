// Package memory writes and reads memories for both APIs. A memory, and the answer to its
// reader, are the same through either API.
package memory

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/quota"
)

const (
	MaxContentBytes  = 262144 // UTF-8
	MaxMetadataBytes = 65536  // canonical
)

var (
	ErrNotFound  = errors.New("memory not found")
	ErrRetracted = errors.New("the memory was retracted, forgotten or erased")
	// ErrNotAlone: the memory has no key of its own.
	ErrNotAlone         = errors.New("this memory was written before memories had keys of their own, so its text can't be destroyed alone; retract it, or erase everything")
	ErrEmptyContent     = errors.New("content must not be empty")
	ErrContentTooLarge  = fmt.Errorf("content is longer than %d bytes of UTF-8", MaxContentBytes)
	ErrMetadataTooLarge = fmt.Errorf("metadata is longer than %d bytes in canonical form", MaxMetadataBytes)
)

type Config struct {
	Commands *command.Executor
	Keys     *keystore.Store
	Pool     *pgxpool.Pool
	Fence    *fence.Fence
	// LastSeen returns the last known content of an account, or nil if it was never seen. It
	// never waits for the chain.
	LastSeen func(chainview.Account) *chainview.Seen
	// DestroyKey destroys an owner's data key, on all replicas, if it was made before that
	// many erasures. Nil if the service is not allowed to.
	DestroyKey func(ctx context.Context, owner events.Owner, before int) error
	NewID      func() string
	Now        func() time.Time
	// AnchorMaxWait is how long a leaf waits for its batch to be cut.
	AnchorMaxWait time.Duration

	// Quotas bound an owner's writes; nil: no quotas.
	Quotas *quota.Quotas
	// BytesPerDay bounds the bytes of sealed content and metadata that an owner writes on a
	// UTC day; 0: no limit.
	BytesPerDay int64
	Logger      *slog.Logger
	// All services of a process share the following fields.

	Texts           *TextCache     // what was read lately
	Slots           *FairScheduler // takes turns between owners
	DamagedMemories *atomic.Uint64 // counts damaged memories that were read
}

// Service writes and reads memories.
type Service struct {
	Config
	spooled *semaphore.Weighted // bytes of exports that are being imported
}

func New(cfg Config) *Service {
	return &Service{cfg, semaphore.NewWeighted(MaxImport)}
}

// Draft is a memory to be written.
type Draft struct {
	Owner          events.Owner
	Content        string
	Metadata       canonical.Object
	Members        Members
	IdempotencyKey *events.Hash
	Credential     command.Credential
	Namespaces     []string // what the credential is limited to; nil: no limit
}

// Write stores a memory. When it returns without error, the memory is on stable storage.
func (s *Service) Write(ctx context.Context, d Draft) (*command.WriteMemory, error) {
	write, err := s.Prepare(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := s.Quotas.Take(quota.Writes, d.Owner, 1); err != nil { // refused input is not counted
		return nil, err
	}
	return write, s.execute(ctx, d.Owner, write, 1, &write.Replayed)
}

// execute decides a write of n memories. If it stored nothing, it gives back what the write
// took of the quota.
func (s *Service) execute(ctx context.Context, owner events.Owner, write command.Command, n int, replayed *bool) error {
	err := s.Commands.Execute(ctx, owner, write)
	if *replayed || err != nil && !errors.Is(err, eventlog.ErrUncertain) {
		s.Quotas.GiveBack(quota.Writes, owner, n)
	}
	return err
}

// MaxBatch is how many memories one request writes at most.
const MaxBatch = 256

var (
	ErrBatchCount    = fmt.Errorf("memories must be an array of 1 to %d memories", MaxBatch)
	ErrBatchTooLarge = errors.New("the memories are too long for one message of the log; write them in several batches")
)

// WriteBatch stores memories of one owner in one message: all of them, or none. The
// drafts share the first one's Idempotency-Key and credential.
func (s *Service) WriteBatch(ctx context.Context, drafts []Draft) (*command.WriteBatch, error) {
	write, err := s.prepareBatch(ctx, drafts)
	if err != nil {
		return nil, err
	}
	return write, s.execute(ctx, drafts[0].Owner, write, len(drafts), &write.Replayed)
}

func (s *Service) prepareBatch(ctx context.Context, drafts []Draft) (*command.WriteBatch, error) {
	if len(drafts) < 1 || len(drafts) > MaxBatch {
		return nil, ErrBatchCount
	}
	write := &command.WriteBatch{Credential: drafts[0].Credential}
	size := 0 // about 1 KiB beside metadata and text, each
	for i, d := range drafts {
		memory, err := s.Prepare(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("memories[%d]: %w", i, err)
		}
		memory.IdempotencyKey = nil
		size += 1<<10 + memory.Metadata.Len() + base64.StdEncoding.EncodedLen(memory.SealedBytes)
		write.Memories = append(write.Memories, memory)
	}
	if size > eventlog.MaxPayload {
		return nil, ErrBatchTooLarge
	}
	if err := s.Quotas.Take(quota.Writes, drafts[0].Owner, len(drafts)); err != nil {
		return nil, err
	}
	if key := write.Credential.Scoped(drafts[0].IdempotencyKey); key != nil {
		write.Memories[0].IdempotencyKey = new(batchKey(*key))
	}
	return write, nil
}

// batchKey derives a batch's Idempotency-Key, which differs from the keys of all single
// memories.
func batchKey(key events.Hash) events.Hash {
	return sha256.Sum256(append([]byte("memory-ledger/batch-key/v1\x00"), key[:]...))
}

// Prepare does the work that needs no turn: it completes the metadata and hashes. The
// decision seals.
func (s *Service) Prepare(ctx context.Context, d Draft) (*command.WriteMemory, error) {
	switch {
	case d.Content == "":
		return nil, ErrEmptyContent
	case len(d.Content) > MaxContentBytes:
		return nil, ErrContentTooLarge
	}
	superseded, err := s.complete(ctx, &d)
	if err != nil {
		return nil, err
	}
	if d.Metadata.Len() > MaxMetadataBytes {
		return nil, ErrMetadataTooLarge
	}
	key, err := s.Keys.FindToSeal(ctx, d.Owner)
	if err != nil {
		return nil, err
	}
	secret, err := key.LeafSecret(d.Credential.Salt(), new(d.Credential.Via()))
	if err != nil {
		return nil, err
	}
	hash, err := leaf.Commit(secret, leaf.Memory{Content: d.Content, Metadata: d.Metadata, Owner: d.Owner})
	if err != nil {
		return nil, err
	}
	id := s.NewID()
	return &command.WriteMemory{
		MemoryID: id, LeafHash: hash, Metadata: d.Metadata,
		Seal:           func(leaf uint64) ([]byte, int) { return key.Seal(leaf, id, d.Content) },
		SealedBytes:    len(d.Content) + keystore.Overhead,
		IdempotencyKey: d.Credential.Scoped(d.IdempotencyKey), Credential: d.Credential, KeyErasures: key.Erasures(),
		BytesPerDay: s.BytesPerDay, Supersedes: superseded,
	}, nil
}

// View is a memory as readers get it.
type View struct {
	ID        string           `json:"id"`
	Content   string           `json:"content"`
	Metadata  jsontext.Value   `json:"metadata"`
	LeafHash  events.Hash      `json:"leafHash"`
	LeafIndex uint64           `json:"leafIndex"`
	BatchID   *string          `json:"batchId"`
	Anchored  bool             `json:"anchored"`
	CreatedAt events.Timestamp `json:"createdAt"`
	Via       *events.Via      `json:"via"`              // null if the event does not say
	Score     *float64         `json:"score,omitzero"`   // of a ranked answer; higher is better
	Passage   *Passage         `json:"passage,omitzero"` // of a ranked answer, if the content is longer
	Damaged   bool             `json:"damaged,omitzero"` // the stored copy does not match the leaf
	// Supersedes and SupersededBy are the ids of memories that this one corrects, and of
	// those that correct it, newest first.
	Supersedes   []string `json:"supersedes,omitzero"`
	SupersededBy []string `json:"supersededBy,omitzero"`
	// Imported is what the memory was where it was imported from. CreatedAt is from there,
	// too.
	Imported *events.Imported `json:"imported,omitzero"`

	salt      events.Salt
	ownSalt   string // that was sealed with the content; empty if it derives from a secret
	retracted bool   // and therefore without content
}

// Passage is the part of a content that answers a question best.
type Passage struct {
	Text   string `json:"text"`
	Offset int    `json:"offset"` // where it begins, in characters
}

// Origin returns how the memory came in at first, here or where it was imported from: an
// import must not turn what a stranger left into the owner's own. nil: it is not recorded.
func (v *View) Origin() *events.Via {
	if v.Imported != nil {
		return v.Imported.Via
	}
	return v.Via
}

// Reader is who reads an owner's memories. Head is what the fence returned for the request: data that
// was cached at the same known head is still valid, and needs no query.
type Reader struct {
	Owner      events.Owner
	Head       fence.Head
	Namespaces []string // what the credential is limited to; nil: no limit
}

// sees reports whether the reader may know of a memory with this metadata.
func (r Reader) sees(metadata canonical.Object) bool {
	return r.Namespaces == nil || slices.Contains(r.Namespaces, memories.NamespaceOf(metadata))
}

// Get returns one of the reader's memories. ErrDamaged: it is damaged.
func (s *Service) Get(ctx context.Context, r Reader, id string) (View, error) {
	m, err := s.find(ctx, r, id)
	if err != nil {
		return View{}, err
	}
	_, v, err := s.openFound(ctx, r, m)
	if err != nil {
		return v, err
	}
	v.correct(m, func(other memories.Other) bool {
		if r.Namespaces == nil {
			return true
		}
		_, failed := s.find(ctx, r, other.ID)
		if failed != nil && !errors.Is(failed, ErrNotFound) {
			err = failed
		}
		return failed == nil
	})
	return v, err
}

// openFound opens a row. ErrRetracted, ErrDamaged: it has no text to show.
func (s *Service) openFound(ctx context.Context, r Reader, m *memories.Memory) (*keystore.OwnerKey, View, error) {
	if m.Retracted {
		return nil, View{}, ErrRetracted
	}
	key, err := s.Keys.Find(ctx, r.Owner)
	if err != nil {
		return nil, View{}, err
	}
	v, err := openRow(key, key.Opener(), m)
	if errors.Is(err, ErrDamaged) {
		s.tellDamaged(r, 1)
	}
	return key, v, err
}

// intact returns ErrDamaged for a row that does not match its leaf. The log keeps each fact
// about a memory for good, so a fact must not name another leaf. Without a text, a row can't
// be compared.
func (s *Service) intact(ctx context.Context, r Reader, m *memories.Memory) error {
	_, _, err := s.openFound(ctx, r, m)
	if errors.Is(err, ErrRetracted) {
		return nil
	}
	return err
}

// correct sets the ids of the memories that a memory supersedes, and that supersede it, as
// far as the reader may know of them.
func (v *View) correct(m *memories.Memory, visible func(memories.Other) bool) {
	for _, other := range m.Supersedes {
		if visible(other) {
			v.Supersedes = append(v.Supersedes, other.ID)
		}
	}
	for _, other := range m.SupersededBy {
		if visible(other) {
			v.SupersededBy = append(v.SupersededBy, other.ID)
		}
	}
}

// Retract retracts a memory of the owner: it leaves all lists, searches, and cases, while
// its leaf and its proof stay. Retracting it again changes nothing.
func (s *Service) Retract(ctx context.Context, r Reader, credential command.Credential, id string) error {
	m, err := s.find(ctx, r, id)
	if err == nil {
		err = s.intact(ctx, r, m)
	}
	if err != nil {
		return err
	}
	return s.Commands.Execute(ctx, r.Owner, &command.RetractMemory{MemoryID: m.ID, LeafIndex: m.LeafIndex, Credential: credential})
}

// find returns a row, from the cache if it holds a valid one.
func (s *Service) find(ctx context.Context, r Reader, id string) (*memories.Memory, error) {
	m := s.Texts.row(r, id)
	if m == nil {
		var found bool
		var err error
		if m, found, err = memories.ByID(ctx, s.Pool, r.Owner, id); err != nil {
			return nil, err
		} else if !found {
			return nil, ErrNotFound
		}
		s.Texts.putRow(r, m)
	}
	if !r.sees(m.Metadata) {
		return nil, ErrNotFound
	}
	return m, nil
}

// Length counts what the specification calls characters: Unicode code points.
func Length(s string) int { return utf8.RuneCountInString(s) }
