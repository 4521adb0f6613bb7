// Package chainview remembers what commitment accounts held when they were
// last read, for answers that must not wait for the chain.
//
// Asking for an account returns what is remembered and, where that is not
// fresh, has the account read in the background: many in one call, one call at
// a time, the queue bounded. A chain out of reach leaves what was read last.
package chainview

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gagliardetto/solana-go"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
)

const (
	// remembered bounds the accounts in memory.
	remembered = 50_000
	// queued bounds those that wait to be read; more are left out, and asked
	// for again with the next request.
	queued = 4 * chain.MaxAccounts
	// backoff is waited after a read failed.
	backoff = 2 * time.Second
)

// Reader reads accounts; *chain.Client does.
type Reader interface {
	Accounts(ctx context.Context, keys []solana.PublicKey, commitment chain.Commitment) ([]*chain.Account, uint64, error)
}

// Account names a commitment account: where it is, whose program it must
// belong to, and whose log it must commit to.
type Account struct {
	Address, Program string
	Owner            events.Owner
}

// Seen is what an account held.
type Seen struct {
	Size uint64
	Root events.Hash
	At   time.Time // when it was read
}

// entry is what is known of an account.
type entry struct {
	seen   *Seen // nil: never seen to exist
	looked time.Time
	asked  bool // it is in the queue
}

// View is safe for concurrent use.
type View struct {
	fresh time.Duration
	now   func() time.Time
	log   *slog.Logger
	queue chan Account

	mu      sync.Mutex
	reader  Reader // nil until Connect
	entries *lru.Cache[Account, *entry]

	hits, misses uint64
}

// New returns a view whose accounts are read again when they are asked for and
// were read longer ago than fresh.
func New(fresh time.Duration, now func() time.Time, log *slog.Logger) *View {
	entries, err := lru.New[Account, *entry](remembered)
	if err != nil {
		panic(err) // the size is positive
	}
	return &View{fresh: fresh, now: now, log: log, queue: make(chan Account, queued), entries: entries}
}

// Connect says where to read, once that is known.
func (v *View) Connect(r Reader) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reader = r
}

// Last returns what the account held when it was last read, nil if it was
// never seen. It returns at once.
func (v *View) Last(a Account) *Seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.entries.Get(a)
	if !ok {
		e = &entry{}
		v.entries.Add(a, e)
	}
	fresh := !e.looked.IsZero() && v.now().Sub(e.looked) < v.fresh
	if fresh {
		v.hits++
	} else {
		v.misses++
	}
	if v.reader != nil && !e.asked && !fresh {
		select {
		case v.queue <- a:
			e.asked = true
		default: // full; the next request asks again
		}
	}
	return e.seen
}

// Counts returns how often what was remembered was fresh, and how often it was
// old or missing.
func (v *View) Counts() (hits, misses uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hits, v.misses
}

// Run reads what is asked for until ctx ends.
func (v *View) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-v.queue:
			if v.read(ctx, v.gather(first)) == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
	}
}

// gather takes whatever else waits, up to one call's worth.
func (v *View) gather(first Account) []Account {
	wanted := []Account{first}
	for len(wanted) < chain.MaxAccounts {
		select {
		case a := <-v.queue:
			wanted = append(wanted, a)
		default:
			return wanted
		}
	}
	return wanted
}

func (v *View) read(ctx context.Context, wanted []Account) error {
	keys := make([]solana.PublicKey, 0, len(wanted))
	known := make([]Account, 0, len(wanted))
	for _, a := range wanted {
		if key, err := solana.PublicKeyFromBase58(a.Address[:min(len(a.Address), 44)]); err == nil {
			keys, known = append(keys, key), append(known, a)
		}
	}
	v.mu.Lock()
	reader := v.reader
	v.mu.Unlock()
	accounts, _, err := reader.Accounts(ctx, keys, chain.Confirmed)
	if err != nil {
		v.log.Debug("read commitment accounts", "err", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for _, a := range wanted {
		if e, ok := v.entries.Peek(a); ok {
			e.asked, e.looked = false, now
		}
	}
	if err != nil {
		return err
	}
	for i, a := range known {
		e, ok := v.entries.Peek(a)
		if held := a.understood(accounts[i]); ok && held != nil {
			e.seen = &Seen{held.Size, held.Root, now}
		}
	}
	return nil
}

// understood is the commitment in an account, nil where it holds none of this
// owner's: nothing else may pass for a root.
func (a Account) understood(read *chain.Account) *commitment.Account {
	if read == nil || read.Owner.String() != a.Program {
		return nil
	}
	held, err := commitment.DecodeAccount(read.Data)
	if err != nil || held.Owner != solana.PublicKey(a.Owner.Bytes()) {
		return nil
	}
	return &held
}
