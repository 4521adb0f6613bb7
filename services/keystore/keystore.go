// Package keystore keeps each owner's keys, wrapped by the master key, in a key-value
// bucket that can forget, and seals and opens what the keys protect.
//
// Keys are not events. The log can't forget, so it never holds them. Erasing an owner's
// entry here ([Forget]) makes every body of that owner unreadable for good, in the log and
// in every copy of it, while all proofs still verify. [Store.DestroyLeaves] does the same to
// single memories: each is sealed under a key of its own, which a tree of keys gives.
//
// Durability: an entry is acknowledged only after the server has synced it. If a data key
// were used but never reached the disk, every memory sealed with it would be unreadable. So
// the key is created, and its write acknowledged, before the owner's first event is
// appended. A crash in between leaves a key that has sealed nothing; the next sign-in uses
// it.
package keystore

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// Bucket is the name of the key-value bucket, and Stream that of its stream, which
// infra/nats/streams configures. It keeps two revisions of an entry: the server would drop an
// older one without overwriting it, so the older one is erased once the newer one is stored. It
// allows messages to be erased, which the stream of a bucket made by CreateKeyValue never does.
const (
	Bucket = "ledger_keys"
	Stream = "KV_" + Bucket
)

// Subjects of the bucket's entries: an owner's subject is subjectPrefix and the owner.
const (
	subjectPrefix = "$KV." + Bucket + "."
	allSubjects   = subjectPrefix + ">"
)

// KeySize is the length of master and data keys in bytes.
const KeySize = 32

var (
	// ErrNoKey: the owner has no data key: it was never made, or it was destroyed.
	ErrNoKey = errors.New("owner has no data key")
	// ErrForgotten is ErrNoKey for an owner whose key the bucket marks as destroyed. If an
	// owner with leaves gets ErrNoKey without the mark, this is the wrong bucket, or the
	// bucket was lost.
	ErrForgotten = fmt.Errorf("%w: it was destroyed", ErrNoKey)
	// ErrErased: the key is from before the owner's last erasure. The bucket was restored
	// from an old backup, or an erasure did not finish. The key must be destroyed.
	ErrErased = errors.New("data key was erased")
	// ErrMasterKey: the entry was wrapped by a master key that we don't have.
	ErrMasterKey = errors.New("data key is wrapped by another master key")
	// ErrSealed: a sealed body does not open: it was altered, or belongs to
	// another owner or memory.
	ErrSealed = errors.New("sealed content does not open")
	// ErrLeafDestroyed: the key of this one memory was destroyed.
	ErrLeafDestroyed = fmt.Errorf("%w: the key of this memory was destroyed", ErrSealed)
	// ErrTooManyForgotten: the owner's entry has no room for what one more memory that is
	// forgotten adds.
	ErrTooManyForgotten = errors.New("too many single memories were forgotten; erase everything instead")
	// ErrUnavailable: the bucket could not be reached.
	ErrUnavailable = errors.New("keystore unavailable")
)

type Config struct {
	Masters []Master // the first one wraps; all of them unwrap
	Cached  int      // unwrapped keys kept in memory; 0 means 100,000
	// MaxAge is how long a cached key is used before it is read again, even if Watch saw no
	// change. 0 means a minute.
	MaxAge time.Duration
	Now    func() time.Time // nil means time.Now
	// Sync, if any, makes new entries durable, for a server that acknowledges before it
	// syncs.
	Sync func(context.Context) error
	// Ask, if any, puts a question to the server again until there is an answer; nil means
	// eventlog.Ask.
	Ask func(ctx context.Context, question func(context.Context) error) error
	// Stream is that of the bucket. A store that destroys no key, and need not tell a
	// destroyed one from one that never was, works without it.
	Stream jetstream.Stream
	// Forgotten, if any, is called when Watch sees that an owner's entry has changed, to drop
	// what was derived from the owner's texts: keys may have been destroyed. The empty owner
	// stands for all owners. It must not block.
	Forgotten func(events.Owner)
	// Pause waits, and returns false when the context ends; nil means eventlog.Pause.
	Pause func(ctx context.Context, d time.Duration) bool
}

type Store struct {
	cfg     Config // without zero fields, but for Sync and Stream
	bucket  jetstream.KeyValue
	masters map[string]Master // by their ids
	wrapID  string
	cache   *lru.Cache[events.Owner, cachedKey]
	watched atomic.Pointer[time.Time] // start of the last look that Watch finished
	forgets atomic.Uint64             // how many changed entries Watch has seen
	// Hits counts the lookups that found the key unwrapped in memory.
	Hits cachestats.Counter
}

// cachedKey is a key as the bucket held it when it was last read.
type cachedKey struct {
	*OwnerKey
	revision uint64
	seen     time.Time
}

// maxEntry bounds the bucket's messages, as its max_msg_size in infra/nats/streams does, and
// with a margin for decisions that other processes make at the same time, an owner's entry.
const maxEntry = 512 << 10

func Open(bucket jetstream.KeyValue, cfg Config) *Store {
	cfg.Cached = cmp.Or(cfg.Cached, 100_000)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, time.Minute)
	if cfg.Forgotten == nil {
		cfg.Forgotten = func(events.Owner) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Pause == nil {
		cfg.Pause = eventlog.Pause
	}
	if cfg.Ask == nil {
		cfg.Ask = eventlog.Ask
	}
	cache, err := lru.New[events.Owner, cachedKey](cfg.Cached)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	s := &Store{cfg: cfg, bucket: bucket, masters: map[string]Master{}, wrapID: cfg.Masters[0].ID(), cache: cache}
	for _, master := range cfg.Masters {
		s.masters[master.ID()] = master
	}
	return s
}

// Cached returns how many owners' keys are in memory.
func (s *Store) Cached() int { return s.cache.Len() }

// entryVersion is the version of an entry and of what it wraps: the data key, and the nodes
// of the tree of keys, as nodes.encode has them.
const entryVersion = 2

// entry is what the bucket holds for an owner.
type entry struct {
	Version int    `json:"v"`
	Master  string `json:"master"`  // Master.ID of the wrapping key
	Wrapped []byte `json:"wrapped"` // by Master.Wrap, bound to wrapContext
	// Erasures is how often the owner had erased everything when the key was made.
	Erasures int `json:"erasures,omitzero"`
}

func parse(owner events.Owner, value []byte) (e entry, err error) {
	if err := json.Unmarshal(value, &e); err != nil || e.Version != entryVersion {
		return e, fmt.Errorf("keystore entry of %s is damaged: %w", owner, ErrSealed)
	}
	return e, nil
}

func wrapContext(owner events.Owner) []byte {
	return []byte("memory-ledger/owner-keys/v2\x00" + string(owner))
}

// secrets are an owner's keys, in the clear.
type secrets struct {
	dataKey  [KeySize]byte
	nodes    nodes
	erasures int
}

// Find returns the owner's key. Errors: ErrNoKey, or ErrForgotten if marked finds a
// mark. A process that has a destroyed key in memory may still return it until Watch sees
// the mark, or for five seconds at most if Watch does not run.
func (s *Store) Find(ctx context.Context, owner events.Owner) (*OwnerKey, error) {
	key, err := s.find(ctx, owner)
	return key, s.explain(ctx, owner, err)
}

// Check is Find for a caller who does not use the key: the key stays out of the cache. A
// device is not asked: readiness looks for a hundred keys at each check, and would keep it
// busy. Then an entry counts as good if it names a known master key.
func (s *Store) Check(ctx context.Context, owner events.Owner) error {
	stored, err := s.explained(ctx, owner)
	if err != nil {
		return err
	}
	e, err := parse(owner, stored.Value())
	if err != nil {
		return err
	}
	if master, known := s.masters[e.Master]; known {
		if _, here := master.(MasterKey); !here {
			return nil
		}
	}
	_, err = s.unwrap(ctx, owner, stored.Value())
	return err
}

// explain adds to ErrNoKey why the owner has no key. It returns other errors as they are.
func (s *Store) explain(ctx context.Context, owner events.Owner, err error) error {
	if !errors.Is(err, ErrNoKey) {
		return err
	}
	mark, unread := s.marked(ctx, owner)
	switch {
	case unread != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, unread)
	case mark > 0:
		return fmt.Errorf("%w: %s", ErrForgotten, owner)
	}
	return fmt.Errorf("%w, nor the mark of one that was destroyed; is this the keystore that belongs to the log?", err)
}

// explained returns an owner's entry, or why there is none.
func (s *Store) explained(ctx context.Context, owner events.Owner) (jetstream.KeyValueEntry, error) {
	stored, err := s.stored(ctx, owner)
	return stored, s.explain(ctx, owner, err)
}

func (s *Store) stored(ctx context.Context, owner events.Owner) (entry jetstream.KeyValueEntry, err error) {
	// This is how long a lookup asks the bucket for a key.
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.cfg.Ask(asking, func(ctx context.Context) (err error) {
		entry, err = s.bucket.Get(ctx, string(owner))
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("%w: %s", ErrNoKey, owner)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return entry, nil
}

func (s *Store) find(ctx context.Context, owner events.Owner) (*OwnerKey, error) {
	now := s.cfg.Now()
	key, ok := s.cache.Get(owner)
	if s.Hits.Count(ok && s.trusted(key.seen, now)) {
		return key.OwnerKey, nil
	}
	forgets := s.forgets.Load()
	stored, err := s.stored(ctx, owner)
	if errors.Is(err, ErrNoKey) {
		s.cache.Remove(owner)
	}
	if err != nil {
		return nil, err
	}
	if !ok || key.revision != stored.Revision() {
		x, err := s.unwrap(ctx, owner, stored.Value())
		if err != nil {
			return nil, err
		}
		key.OwnerKey = newOwnerKey(owner, x)
	}
	s.cache.Add(owner, cachedKey{key.OwnerKey, stored.Revision(), now})
	if s.forgets.Load() != forgets {
		s.cache.Remove(owner) // Watch may have dropped it before the Add
	}
	return key.OwnerKey, nil
}

// FindOrCreate returns the owner's key, and makes one if there is none. Call it only for an
// owner who has no leaf sealed under an earlier key: a new owner, or one without leaves
// since the last erasure. For every other owner a missing key must stay ErrNoKey. erasures
// is how often the owner has erased everything. ErrErased: the key is from before the last
// erasure.
//
// It makes a key only if valid, unless nil, returns nil after the pause: meanwhile the owner
// may have erased everything again. Only a service that destroys keys could get rid of a key
// that was made for an earlier erasure.
func (s *Store) FindOrCreate(ctx context.Context, owner events.Owner, erasures int, valid func(context.Context) error) (*OwnerKey, error) {
	key, err := s.find(ctx, owner)
	for tries := 0; errors.Is(err, ErrNoKey) && tries < maxTries; tries++ {
		if err = s.create(ctx, owner, erasures, valid); err == nil || eventlog.IsWrongSequence(err) || errors.Is(err, errFound) {
			key, err = s.find(ctx, owner)
		}
	}
	if err != nil {
		return nil, err
	}
	// Also sync a key that existed already: the process that made it may not have synced it
	// yet.
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	key.durable.Store(true)
	if key.erasures < erasures {
		return nil, fmt.Errorf("%w: %s", ErrErased, owner)
	}
	return key, nil
}

// settle makes what was stored durable.
func (s *Store) settle(ctx context.Context) error {
	if s.cfg.Sync == nil {
		return nil
	}
	if err := s.cfg.Sync(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// maxTries bounds how often making or destroying a key starts over because the entry has
// changed.
const maxTries = 20

// create makes a key. If the entry has changed meanwhile, the error satisfies
// eventlog.IsWrongSequence, and the caller reads the entry again. If an acknowledgement got
// lost, the next read finds the stored key.
//
// If an earlier key was destroyed, create first waits until no process has it in memory:
// nothing may be sealed with the old key, and nothing sealed with the new key may be opened
// with the old one. If another key is made and destroyed during the wait, the mark has
// another revision, the update fails, and the caller starts over. An owner who has erased
// had a key even if a crash prevented its mark.
func (s *Store) create(ctx context.Context, owner events.Owner, erasures int, valid func(context.Context) error) error {
	mark, err := s.marked(ctx, owner)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if (mark > 0 || erasures > 0) && !s.cfg.Pause(ctx, maxUnwatched) {
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if valid != nil {
		if err := valid(ctx); err != nil {
			return err
		}
	}
	fresh := secrets{nodes: make(nodes, 1), erasures: erasures} // a tree's root
	for _, key := range [][]byte{fresh.dataKey[:], fresh.nodes[0].key[:]} {
		rand.Read(key) // never fails: it ends the program instead
	}
	value, err := s.wrap(ctx, owner, fresh)
	if err != nil {
		return err
	}
	if _, err := s.bucket.Update(ctx, string(owner), value, mark); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func (s *Store) wrap(ctx context.Context, owner events.Owner, x secrets) ([]byte, error) {
	wrapped, err := s.masters[s.wrapID].Wrap(ctx, x.nodes.encode(x.dataKey[:]), wrapContext(owner))
	if err != nil {
		return nil, fmt.Errorf("wrap an owner's keys: %w", err)
	}
	value, err := json.Marshal(entry{Version: entryVersion, Master: s.wrapID, Wrapped: wrapped, Erasures: x.erasures})
	if err != nil {
		return nil, fmt.Errorf("encode keystore entry: %w", err)
	}
	return value, nil
}

func (s *Store) unwrap(ctx context.Context, owner events.Owner, value []byte) (x secrets, err error) {
	e, err := parse(owner, value)
	if err != nil {
		return x, err
	}
	master, ok := s.masters[e.Master]
	if !ok {
		return x, fmt.Errorf("%w: entry of %s names master key %s", ErrMasterKey, owner, e.Master)
	}
	plain, err := master.Unwrap(ctx, e.Wrapped, wrapContext(owner))
	if errors.Is(err, ErrUnavailable) {
		return x, fmt.Errorf("unwrap an owner's keys: %w", err) // readiness shows it, and is public
	}
	if err == nil && len(plain) >= KeySize {
		x.dataKey, x.erasures = [KeySize]byte(plain), e.Erasures
		x.nodes, err = decodeNodes(plain[KeySize:])
	}
	if err != nil || len(plain) < KeySize {
		return x, fmt.Errorf("keystore entry of %s: %w", owner, ErrSealed)
	}
	return x, nil
}

func newAEAD(key [KeySize]byte) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only for keys of another size
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for blocks of another size
	}
	return aead
}

func seal(aead cipher.AEAD, plain, context []byte) []byte {
	out := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(out) // never fails
	return aead.Seal(out, out, plain, context)
}

func open(aead cipher.AEAD, sealed, context []byte) ([]byte, error) {
	if len(sealed) < aead.NonceSize()+aead.Overhead() {
		return nil, ErrSealed
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], context)
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}
