package staking

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events"
)

// many is a store of many owners, who all have nothing recorded.
type many struct {
	Store
	owners []events.Owner
	listed map[events.Owner]bool
}

func (m many) Owners(_ context.Context, after events.Owner, limit int) ([]events.Owner, error) {
	from := 0
	if after != "" {
		from = slices.Index(m.owners, after) + 1
	}
	page := m.owners[from:min(len(m.owners), from+limit)]
	for _, o := range page {
		m.listed[o] = true
	}
	return page, nil
}

// TestASweepGoesOnWhereItFailed: the node answers only a few calls for each sweep. All
// owners are looked at all the same.
func TestASweepGoesOnWhereItFailed(t *testing.T) {
	t.Parallel()
	allowed := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if allowed--; allowed < 0 {
			http.Error(w, `{"error":{"code":429,"message":"slow down"}}`, http.StatusTooManyRequests)
			return
		}
		var ask struct{ Params []json.RawMessage }
		var keys []string
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(ask.Params[0], &keys); err != nil {
			t.Error(err)
		}
		none := strings.TrimSuffix(strings.Repeat("null,", len(keys)), ",")
		_, _ = w.Write([]byte(`{"result":{"context":{"slot":1},"value":[` + none + `]}}`))
	}))
	t.Cleanup(server.Close)
	client, err := chain.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	store := many{listed: map[events.Owner]bool{}}
	for i := range 5 * chain.MaxAccounts {
		store.owners = append(store.owners, events.Owner(solana.PublicKey{1, byte(i >> 8), byte(i)}.String()))
	}
	w := NewWatcher(WatcherConfig{
		Chain: NewChain(client, solana.PublicKey{1}, solana.PublicKey{2}), Store: store, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Sweep: time.Minute,
	})
	for range 3 {
		allowed = 2
		w.sweep(t.Context())
	}
	if len(store.listed) != len(store.owners) {
		t.Errorf("%d of %d owners were looked at", len(store.listed), len(store.owners))
	}
}
