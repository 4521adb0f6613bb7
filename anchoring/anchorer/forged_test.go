package anchorer

import (
	"crypto/sha256"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/tree"
)

// TestAlteredRowsAreNotSigned: an attacker who can write to the database can write to the
// tree cache and to the anchorer's own rows. The anchorer does not sign a false root,
// even if both hold the same one. It rebuilds the rows from the log.
func TestAlteredRowsAreNotSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	told := newLines()
	waiting := w.start(nil, func(c *Config) { c.MaxWait, c.Logger = time.Hour, slog.New(told) })
	key := newOwnerKey()
	w.write(key, 2)
	pool := w.pool()
	awaitFolded(t, pool, key, 2)

	first, second := sha256.Sum256([]byte("forged")), sha256.Sum256([]byte("forged, too"))
	w.mu.Lock()
	genuine, forged := w.leaves[key], []events.Hash{first, second}
	w.leaves[key] = forged
	w.mu.Unlock()
	o := newOwner(key)
	for i := range forged {
		w.must(o.leaf(&events.MemoryWritten{LeafIndex: uint64(i), LeafHash: forged[i]}, time.Unix(0, 0)))
	}
	_, err := pool.Exec(t.Context(), `UPDATE ledger_anchor.owners SET state = $2, waiting = 'epoch' WHERE owner = $1`, string(key), encode(o))
	w.must(err)
	eventually(t, "the row is found altered", func() bool {
		if held := w.held(key); held != nil {
			t.Fatalf("%x at %d leaves was signed, the log has %s", held.Root, held.Size, tree.RootOf(genuine))
		}
		return len(told.of(slog.LevelError, "the state is rebuilt")) > 0
	})
	waiting.stop()

	w.mu.Lock()
	w.leaves[key] = genuine
	w.mu.Unlock()
	w.start(nil, nil)
	w.allAnchored()
}

// awaitFolded waits until the anchorer has saved that many leaves of an owner.
func awaitFolded(t *testing.T, pool *pgxpool.Pool, key events.Owner, leaves int) {
	t.Helper()
	eventually(t, "the leaves are folded", func() bool {
		var size int
		_ = pool.QueryRow(t.Context(), `SELECT unanchored FROM ledger_anchor.owners WHERE owner = $1`, string(key)).Scan(&size)
		return size == leaves
	})
}

func eventually(t *testing.T, what string, happens func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happens(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
