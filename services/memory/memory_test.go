package memory

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
	"github.com/memory-ledger/ledger/services/command"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestOnceAcrossTheHour: a batch that is written again within an hour has the first key,
// also on the other side of the full hour. Later, or by another credential, or after a
// retraction, the key is another one.
func TestOnceAcrossTheHour(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "kept")
	written := w.written[0].CreatedAt.Time()
	s := h.service(0)
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
	must(t, errorOf(h.pool.Exec(t.Context(), `UPDATE memories SET idempotency_key_hash = $1`, first[:])))
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

// TestOnchainRoot: an account only grows, so a node that shows fewer leaves than were
// confirmed is behind.
func TestOnchainRoot(t *testing.T) {
	t.Parallel()
	confirmed := time.Unix(1_700_000_000, 0)
	at, root, seen := events.At(confirmed), events.Hash{1}, events.Hash{2}
	newest := &batches.Batch{Size: 8, Root: root, ConfirmedAt: &at}
	for name, c := range map[string]struct {
		seen *chainview.Seen
		want events.Hash
	}{
		"never":                    {nil, root},
		"later, with more":         {&chainview.Seen{Size: 9, Root: seen, At: confirmed.Add(time.Hour)}, seen},
		"later, with as many":      {&chainview.Seen{Size: 8, Root: seen, At: confirmed.Add(time.Hour)}, seen},
		"before":                   {&chainview.Seen{Size: 7, Root: seen, At: confirmed.Add(-time.Hour)}, root},
		"later, by a node behind":  {&chainview.Seen{Size: 7, Root: seen, At: confirmed.Add(time.Hour)}, root},
		"before, with more leaves": {&chainview.Seen{Size: 9, Root: seen, At: confirmed.Add(-time.Hour)}, seen},
	} {
		s := &Service{Config: Config{LastSeen: func(chainview.Account) *chainview.Seen { return c.seen }}}
		if got := s.onchainRoot("owner", newest); got == nil || *got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestHeadSaysWhatWaits: the head of a log says since when its oldest memory waits for the
// chain, and calls that delayed after three times the wait for a batch.
func TestHeadSaysWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	const wait = time.Minute
	now := time.UnixMilli(1_800_000_000_000)
	s := h.service(0)
	s.AnchorMaxWait, s.Now = wait, func() time.Time { return now }
	check := func(when string, since *events.Timestamp, delayed bool) {
		t.Helper()
		head, err := s.Head(t.Context(), Reader{Owner: w.owner})
		if err != nil || head.Memories != head.TreeSize || head.Delayed != delayed || (since == nil) != (head.WaitingSince == nil) || since != nil && *head.WaitingSince != *since {
			t.Errorf("%s: since %v, delayed %v, %v; want %v, %v", when, head.WaitingSince, head.Delayed, err, since, delayed)
		}
	}
	// The next leaf was written, and retracted, since the log's size was read.
	must(t, errorOf(h.pool.Exec(t.Context(), `INSERT INTO retractions (owner, leaf_index, forgotten, seq) VALUES ($1, 4, false, 9)`, w.owner)))
	check("an empty log", nil, false)
	h.write(t, w, "one", "two", "three")
	first := w.written[0].CreatedAt
	check("just written", &first, false)
	now = first.Time().Add(3 * wait)
	check("three times the wait", &first, false)
	now = now.Add(time.Millisecond)
	check("longer", &first, true)
	batch := h.cut(t, w)
	check("a batch that is not confirmed", &first, true)
	h.write(t, w, "four")
	h.confirm(t, w, batch, 3)
	fourth := w.written[3].CreatedAt
	now = fourth.Time().Add(wait)
	check("the rest of the log", &fourth, false)
	last := h.cut(t, w)
	h.confirm(t, w, last, 4)
	check("all anchored", nil, false)
}

// TestManyRetractions: a page reads a bit for each leaf that an owner retracted, and not half a
// megabyte for 50,000 of them. It counts this process's bytes, so it runs alone.
func TestManyRetractions(t *testing.T) {
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "one")
	const leaves = 50_000
	must(t, errorOf(h.pool.Exec(t.Context(), `INSERT INTO memories (owner, leaf_index, id, leaf_hash, metadata, sealed, created_at, seq)
		SELECT $1, leaf, gen_random_uuid(), '', '{}', '', now(), 9 FROM generate_series(1, $2::bigint - 1) AS leaf`, w.owner, leaves)))
	must(t, errorOf(h.pool.Exec(t.Context(), `INSERT INTO retractions (owner, leaf_index, forgotten, seq)
		SELECT $1, leaf, leaf % 3 = 0, 9 FROM generate_series(1, $2::bigint + 99) AS leaf WHERE leaf NOT IN (63, 64, 6463, $2 - 1)`, w.owner, leaves)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := h.service(0).Select(t.Context(), Reader{Owner: w.owner}, Selection{Order: Oldest, Limit: 10}, nil)
	must(t, err)
	runtime.ReadMemStats(&after)
	var found []uint64
	for _, hit := range p.hits {
		found = append(found, hit.Leaf)
	}
	if want := []uint64{0, 63, 64, 6463, leaves - 1}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<19 {
		t.Errorf("a page of %d memories took %d bytes", len(found), bytes)
	}
	_, forgotten, err := retractions.Leaves(t.Context(), h.pool, w.owner, leaves)
	if err != nil || forgotten.Count() != leaves/3-1 || !forgotten.Has(3) || forgotten.Has(63) {
		t.Errorf("%d forgotten, %v", forgotten.Count(), err)
	}
}

// TestMomentsOfARanking: a time that a ranking can't hold becomes the next one that it can.
func TestMomentsOfARanking(t *testing.T) {
	t.Parallel()
	for year, want := range map[int]uint32{0: 0, 1970: 0, 2106: 4291747200, 2107: math.MaxUint32, 9999: math.MaxUint32} {
		created := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if got := momentOf(memories.Body{Created: created}); got != want {
			t.Errorf("%v: %d, want %d", created, got, want)
		}
	}
}
