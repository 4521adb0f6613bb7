// Package chainview caches the contents of commitment accounts, for responses that must
// not wait for the chain.
//
// A request for an account returns the cached contents. If they are not fresh, the
// account is read in the background: many accounts in one call, one call at a time, with
// a bounded queue. While the chain can't be reached, the contents of the last read stay.
package chainview

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
)

// queued bounds the accounts that wait to be read. If the queue is full, an account is
// dropped, and queued again by the next request for it.
const queued = 4 * chain.MaxAccounts

// Reader reads accounts. *chain.Client implements it.
type Reader interface {
	Accounts(ctx context.Context, keys []solana.PublicKey, commitment chain.Commitment) ([]*chain.Account, uint64, error)
}

// Account names a commitment account: its address, the program that must own it, and the
// owner whose log it must commit to.
type Account struct {
	Address, Program string
	Owner            events.Owner
}

// Seen is the contents of an account at a read.
type Seen struct {
	Size uint64
	Root events.Hash
	At   time.Time // when it was read
}

// entry is the cached state of an account.
type entry struct {
	seen   *Seen // nil: no valid commitment was ever read
	looked time.Time
	asked  bool // it is in the queue
}

// View is a cache of commitment accounts. It is safe for concurrent use.
type View struct {
	reader Reader // nil: nothing is read
	fresh  time.Duration
	now    func() time.Time
	log    *slog.Logger
	queue  chan Account

	mu      sync.Mutex
	entries map[Account]*entry
}

// New returns a view of what a reader reads, or of nothing if it is nil. If a requested
// account was read longer ago than fresh, it is read again.
func New(reader Reader, fresh time.Duration, now func() time.Time, log *slog.Logger) *View {
	return &View{reader: reader, fresh: fresh, now: now, log: log, queue: make(chan Account, queued), entries: map[Account]*entry{}}
}

// Last returns the contents of the account at its last read, or nil if no valid
// commitment was ever read. It never blocks.
func (v *View) Last(a Account) *Seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.entries[a]
	if e == nil {
		if len(v.entries) >= 50_000 { // all are read again
			clear(v.entries)
		}
		e = &entry{}
		v.entries[a] = e
	}
	fresh := !e.looked.IsZero() && v.now().Sub(e.looked) < v.fresh
	if v.reader != nil && !e.asked && !fresh {
		select {
		case v.queue <- a:
			e.asked = true
		default: // full; the next request tries again
		}
	}
	return e.seen
}

// Run reads the requested accounts until ctx ends.
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
		case <-time.After(2 * time.Second):
		}
	}
}

// gather takes the other queued accounts too, up to the limit of one call.
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
	accounts, _, err := v.reader.Accounts(ctx, keys, chain.Confirmed)
	if err != nil {
		v.log.Debug("read commitment accounts", "err", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for _, a := range wanted {
		if e := v.entries[a]; e != nil {
			e.asked, e.looked = false, now
		}
	}
	if err != nil {
		return err
	}
	for i, a := range known {
		e, ok := v.entries[a]
		if held := a.understood(accounts[i]); ok && held != nil {
			e.seen = &Seen{held.Size, held.Root, now}
		}
	}
	return nil
}

// understood returns the commitment in an account, or nil if it is not a commitment of
// this program to this owner's log. Nothing else may count as a root.
func (a Account) understood(read *chain.Account) *commitment.Account {
	if read == nil || read.Owner.String() != a.Program {
		return nil
	}
	held, err := verify.DecodeAccount(read.Data)
	if err != nil || held.Owner != solana.PublicKey(a.Owner.Bytes()) {
		return nil
	}
	return &held
}
