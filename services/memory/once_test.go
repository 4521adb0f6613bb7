package memory

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/command"
)

// TestOnceAcrossTheHour: a batch that is written again within an hour has the first key,
// also on the other side of the full hour. Later, or by another credential, or after a
// retraction, the key is another one.
func TestOnceAcrossTheHour(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "kept")
	written := w.written[0].CreatedAt.Time()
	s := New(Config{Keys: h.keys, Pool: h.pool})
	by := func(credential string) *command.WriteBatch {
		return &command.WriteBatch{
			Memories: []*command.WriteMemory{{LeafHash: w.written[0].LeafHash}}, Credential: command.Credential{Kind: command.CredentialKey, ID: credential},
		}
	}
	key := func(batch *command.WriteBatch, retracted string, after time.Duration) events.Hash {
		t.Helper()
		k, err := s.onceKey(t.Context(), w.owner, batch, retracted, written.Add(after))
		must(t, err)
		return k
	}
	first := key(by("a"), "", 0)
	if _, err := h.pool.Exec(t.Context(), `UPDATE memories SET idempotency_key_hash = $1`, first[:]); err != nil {
		t.Fatal(err)
	}
	// The memory was written 1 ms after a full hour: the third repeat is across the next one.
	for after, same := range map[time.Duration]bool{
		0: true, 59 * time.Minute: true, time.Hour - time.Millisecond: true, time.Hour: false, 90 * time.Minute: false, 3 * time.Hour: false,
	} {
		if got := key(by("a"), "", after); (got == first) != same {
			t.Errorf("after %v the key is the same: %v, want %v", after, got == first, same)
		}
	}
	if key(by("b"), "", 0) == first || key(by("a"), w.written[0].ID, 0) == first {
		t.Error("another credential, or a retraction, has the same key")
	}
}
