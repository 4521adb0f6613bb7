package memories_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/tree"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// odd is metadata of kinds that have broken a store before.
var odd = map[string]string{
	"wide":             `{"k":[` + strings.Repeat("1,", 30_000) + `1]}`,
	"NUL":              `{"a\u0000b":"\u0000"}`,
	"control":          `{"c":"\u0001\u001f\b\t\n\f\r"}`,
	"beyond the plane": `{"e":"` + "\U0001F9E0\U0010FFFF\u2028\u2029\uFEFF" + `"}`,
	"quotes":           `{"q":"\"\\'; DROP TABLE memories; --","$1":"%s"}`,
	"numbers":          `{"n":[0,-1.5,1e+300,5e-324,9007199254740993]}`,
	"deep":             `{"d":` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `}`,
}

func TestOddMetadataComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]int{"insert": 1, "copy": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool := fixture.Database(t)
			a := fixture.NewActor()
			var messages []fixture.Message
			var want []string
			for len(messages) < many*len(odd) {
				for _, text := range odd {
					object, err := canonical.Canonicalize([]byte(text))
					testkit.Must(t, err)
					want = append(want, object.String())
					messages = append(messages, a.Write(object.String()))
				}
			}
			fixture.Apply(t, pool, fixture.Slice(1, messages...), memories.Projection{})
			got, err := memories.At(t.Context(), pool, a.Owner, run(0, len(want)+1))
			if err != nil || len(got) != len(want) {
				t.Fatalf("scanned %d of %d: %v", len(got), len(want), err)
			}
			for i, m := range got {
				if m.LeafIndex != uint64(i) || m.Metadata.String() != want[i] || string(m.Sealed) != "sealed \x00 "+string(a.Owner) {
					t.Errorf("memory %d came back otherwise", i)
				}
			}
		})
	}
}

// TestAMemorySupersedesVeryMany: a message that the log holds must not stop the projector, and
// its corrections must not slow down other owners.
func TestAMemorySupersedesVeryMany(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a, other := fixture.NewActor(), fixture.NewActor()
	first, last, theirs := a.Memory(`{}`), a.Memory(`{}`), other.Memory(`{}`)
	first.LeafIndex, last.LeafIndex = 39_999, 40_000
	last.Supersedes = append(run(0, 40_000), 7) // one of them twice
	fixture.Apply(t, pool, fixture.Slice(1, a.Say(first, last), other.Say(theirs)), memories.Projection{})
	got, err := memories.Corrections(t.Context(), pool, a.Owner, 40_001)
	if err != nil || len(got) != 40_000 {
		t.Errorf("%d corrections: %v", len(got), err)
	}
	if m, found, err := memories.ByID(t.Context(), pool, a.Owner, first.MemoryID); !found || len(m.SupersededBy) != 1 || m.SupersededBy[0].ID != last.MemoryID {
		t.Errorf("found %+v: %v", m, err)
	}
	read := 0
	tx, err := pool.Begin(t.Context())
	testkit.Must(t, err)
	defer func() { testkit.Must(t, tx.Rollback(t.Context())) }()
	testkit.Must(t, testkit.ErrorOf(tx.Exec(t.Context(), `ANALYZE corrections; SET LOCAL plan_cache_mode = force_generic_plan`)))
	_, found, err := memories.ByID(t.Context(), tx, other.Owner, theirs.MemoryID)
	testkit.Must(t, err)
	testkit.Must(t, testkit.ErrorOf(memories.Corrections(t.Context(), tx, other.Owner, 1)))
	testkit.Must(t, tx.QueryRow(t.Context(), `SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'corrections'::regclass`).Scan(&read))
	if !found || read > 0 {
		t.Errorf("a memory of another owner was found: %v; corrections read: %d", found, read)
	}
}

// TestEqualMemoriesOfALongLog: a correction, which holds up its owner's other commands, reads the
// rows of no memories but those whose tile is not full.
func TestEqualMemoriesOfALongLog(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a := fixture.NewActor()
	var all []events.Data
	want := []memories.Hashed{{Leaf: 3}, {Leaf: 256}, {Leaf: 511}, {Leaf: 515}, {Leaf: 517}}
	for i := range want {
		want[i].Hash = fixture.Hash(fmt.Sprint(i % 2))
	}
	for leaf, next := uint64(0), 0; leaf < 520; leaf++ {
		m := a.Memory(`{}`)
		if next < len(want) && want[next].Leaf == leaf {
			m.LeafHash = want[next].Hash
			next++
		}
		all = append(all, m)
	}
	fixture.Apply(t, pool, fixture.Slice(1, a.Say(all...), fixture.NewActor().Write(`{}`)), memories.Projection{}, tree.Projection{})
	tx, err := pool.Begin(t.Context())
	testkit.Must(t, err)
	defer func() { testkit.Must(t, tx.Rollback(t.Context())) }()
	if got, err := memories.WithHash(t.Context(), tx, a.Owner, []events.Hash{want[0].Hash, want[1].Hash}); err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, want %v: %v", got, want, err)
	}
	read := 0
	testkit.Must(t, tx.QueryRow(t.Context(), `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'memories'::regclass`).Scan(&read))
	if read > 8 {
		t.Errorf("read %d memories", read)
	}
}

func TestAMemoryIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a, other := fixture.NewActor(), fixture.NewActor()
	mine := a.Memory(`{"a":1}`)
	hash := fixture.Hash("key")
	mine.IdempotencyKeyHash = &hash
	theirs := other.Memory(`{}`)
	theirs.IdempotencyKeyHash = &hash
	said := a.Say(mine)
	fixture.Apply(t, pool, fixture.Slice(7, said, other.Say(theirs)), memories.Projection{})
	check := func(m *memories.Memory, found bool, err error) {
		t.Helper()
		if err != nil || !found || m.ID != mine.MemoryID || m.Owner != a.Owner || m.LeafIndex != 0 || m.LeafHash != mine.LeafHash ||
			m.Metadata.String() != `{"a":1}` || m.CreatedAt != said.Events[0].Time || m.Seq != 7 || m.BatchID != nil || m.Anchored {
			t.Errorf("%+v, %v, %v", m, found, err)
		}
	}
	check(memories.ByID(t.Context(), pool, a.Owner, mine.MemoryID))
	m, found, err := memories.ByIdempotencyKey(t.Context(), pool, a.Owner, hash)
	check(&m, found, err)
	for _, id := range []string{theirs.MemoryID, fixture.UUID(), "", "x", strings.ToUpper(mine.MemoryID), "{" + mine.MemoryID + "}",
		strings.ReplaceAll(mine.MemoryID, "-", ""), mine.MemoryID + " ", strings.Repeat("0", 200_000), "\x00"} {
		if _, found, err := memories.ByID(t.Context(), pool, a.Owner, id); found || err != nil {
			t.Errorf("id %.50q: %v, %v", id, found, err)
		}
	}
	if _, found, err := memories.ByIdempotencyKey(t.Context(), pool, a.Owner, fixture.Hash("another")); found || err != nil {
		t.Errorf("another key: %v, %v", found, err)
	}
}

// TestTheCoveringBatchIsTheSameEverywhere compares every query with the rule: the
// smallest confirmed batch that reaches the leaf, else the smallest open batch.
func TestTheCoveringBatchIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	chance := rand.New(rand.NewPCG(8, 8))
	for range 6 {
		a := fixture.NewActor()
		const leaves = 30
		messages := make([]fixture.Message, 0, leaves)
		for range leaves {
			messages = append(messages, a.Write(`{}`))
		}
		fixture.Apply(t, pool, fixture.Slice(1, messages...), memories.Projection{})
		want := make([]string, leaves) // "id anchored"
		made := someBatches(t, pool, a, chance, leaves)
		for leaf := range want {
			want[leaf] = rule(made, uint64(leaf))
		}
		checkCover(t, pool, a.Owner, want)
	}
}

type made struct {
	id    string
	size  uint64
	state string
}

func someBatches(t *testing.T, pool *pgxpool.Pool, a *fixture.Actor, chance *rand.Rand, leaves int) []made {
	t.Helper()
	var list []made
	var messages []fixture.Message
	for range chance.IntN(20) {
		b := made{fixture.UUID(), uint64(1 + chance.IntN(leaves)), "cut"}
		messages = append(messages, a.Say(&events.BatchCut{BatchID: b.id, Size: b.size}))
		switch chance.IntN(4) {
		case 0:
			b.state = "submitted"
			messages = append(messages, a.Say(&events.BatchSubmitted{BatchID: b.id, Size: b.size, Signature: b.id}))
		case 1:
			b.state = "confirmed"
			messages = append(messages, a.Say(&events.BatchConfirmed{BatchID: b.id, Size: b.size, Signature: b.id}))
		case 2:
			b.state = "failed"
			messages = append(messages, a.Say(&events.BatchFailed{BatchID: b.id}))
		}
		list = append(list, b)
	}
	if len(messages) > 0 {
		fixture.Apply(t, pool, fixture.Slice(1000, messages...), batches.Projection)
	}
	return list
}

// rule names the covering batch; of two batches with the same size, the older one wins.
func rule(list []made, leaf uint64) string {
	best := func(states ...string) (best made) {
		for _, b := range list {
			if slices.Contains(states, b.state) && b.size > leaf &&
				(best.id == "" || b.size < best.size || b.size == best.size && b.id < best.id) {
				best = b
			}
		}
		return best
	}
	if b := best("confirmed"); b.id != "" {
		return fmt.Sprint(b.id, true)
	}
	if b := best("cut", "submitted"); b.id != "" {
		return fmt.Sprint(b.id, false)
	}
	return "none"
}

func checkCover(t *testing.T, pool *pgxpool.Pool, owner events.Owner, want []string) {
	t.Helper()
	says := func(m *memories.Memory) string {
		if m.BatchID == nil {
			return "none"
		}
		return fmt.Sprint(*m.BatchID, m.Anchored)
	}
	for _, page := range []struct {
		from  uint64
		limit int
	}{{0, 100}, {0, 7}, {11, 5}, {29, 1}} {
		list, err := memories.At(t.Context(), pool, owner, run(page.from, page.limit))
		testkit.Must(t, err)
		checkAt(t, pool, owner, list)
		for _, m := range list {
			if got := says(m); got != want[m.LeafIndex] {
				t.Errorf("page %+v: leaf %d is covered by %s, want %s", page, m.LeafIndex, got, want[m.LeafIndex])
			}
			one, found, err := memories.ByID(t.Context(), pool, owner, m.ID)
			if !found || says(one) != want[m.LeafIndex] {
				t.Errorf("by id: leaf %d is not covered by %s: %+v, %v", m.LeafIndex, want[m.LeafIndex], one, err)
			}
		}
	}
}

// checkAt asks At for every step-th memory of a list, and for a leaf that does not exist.
// At must return the same memories as the list.
func checkAt(t *testing.T, pool *pgxpool.Pool, owner events.Owner, list []*memories.Memory) {
	t.Helper()
	for step := 1; step < 20; step++ {
		var leaves []uint64
		var want []*memories.Memory
		for i := 0; i < len(list); i += step {
			want, leaves = append(want, list[i]), append(leaves, list[i].LeafIndex)
		}
		leaves = append(leaves, 1_000_000)
		got, err := memories.At(t.Context(), pool, owner, leaves)
		if err != nil || len(got) != len(want) {
			t.Fatalf("at %v: %v, %d memories", leaves, err, len(got))
		}
		for i := range got {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("at %v:\n got %+v\nwant %+v", leaves, got[i], want[i])
			}
		}
	}
	for _, leaves := range [][]uint64{nil, {}, {math.MaxUint64}} {
		if got, err := memories.At(t.Context(), pool, owner, leaves); err != nil || len(got) != 0 {
			t.Errorf("at %v: %v, %v", leaves, got, err)
		}
	}
}

// run returns n leaves in a row.
func run(from uint64, n int) []uint64 {
	leaves := make([]uint64, n)
	for i := range leaves {
		leaves[i] = from + uint64(i)
	}
	return leaves
}
