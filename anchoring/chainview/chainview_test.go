package chainview

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
)

// node is a chain that gives the same answer to every call.
type node struct {
	account *chain.Account
	err     error
}

func (n *node) Accounts(_ context.Context, keys []solana.PublicKey, _ chain.Commitment) ([]*chain.Account, uint64, error) {
	accounts := make([]*chain.Account, len(keys))
	for i := range accounts {
		accounts[i] = n.account
	}
	return accounts, 1, n.err
}

func TestView(t *testing.T) {
	t.Parallel()
	program, owner := solana.PublicKey{1}, solana.PublicKey{3}
	account := Account{solana.PublicKey{2}.String(), program.String(), events.OwnerFromBytes(owner)}
	held := func(owner, program solana.PublicKey, size uint64) *node {
		data := commitment.Account{Owner: owner, Size: size, Root: [32]byte{byte(size)}, Slot: 1}.Encode()
		return &node{account: &chain.Account{Owner: program, Data: data}}
	}
	now := time.Unix(1000, 0)
	view := New(nil, time.Second, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if view.Last(account) != nil || len(view.queue) != 0 {
		t.Fatal("there is no chain to see or to ask")
	}
	for _, c := range []struct {
		what string
		node *node
		size uint64
	}{
		{"no account", &node{}, 0},
		{"another program's", held(owner, solana.PublicKey{8}, 7), 0},
		{"another owner's", held(solana.PublicKey{8}, program, 7), 0},
		{"ours", held(owner, program, 5), 5},
		{"gone again", &node{}, 5},
		{"moved on", held(owner, program, 6), 6},
		{"out of reach", &node{err: errors.New("down")}, 6},
	} {
		view.reader = c.node
		now = now.Add(time.Minute)
		view.Last(account)
		view.Last(account) // queued once
		if len(view.queue) != 1 {
			t.Fatalf("%s: %d in the queue", c.what, len(view.queue))
		}
		if err := view.read(t.Context(), view.gather(<-view.queue)); !errors.Is(err, c.node.err) {
			t.Errorf("%s: %v", c.what, err)
		}
		seen := view.Last(account)
		if len(view.queue) != 0 {
			t.Errorf("%s: asked again although it is fresh", c.what)
		}
		if c.size == 0 && seen != nil || c.size != 0 && (seen == nil || seen.Size != c.size || seen.Root != events.Hash{byte(c.size)}) {
			t.Errorf("%s: seen %+v, want size %d", c.what, seen, c.size)
		}
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	view := New(&node{}, time.Second, time.Now, slog.New(slog.DiscardHandler))
	for i := range 3 * queued {
		view.Last(Account{Address: solana.PublicKey{byte(i), byte(i >> 8), 1}.String()})
	}
	if len(view.queue) != queued {
		t.Errorf("%d in the queue", len(view.queue))
	}
}
