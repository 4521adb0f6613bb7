package audit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/tree"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) { pgtest.Main(m) }

// storyLeaves is how many leaves a story's owner writes: more than one tile holds.
const storyLeaves = 300

// story returns messages that give every read model table rows, and every nullable
// column a value in some row, without breaking a rule.
func story(n int) []fixture.Message {
	a := fixture.NumberedActor(n)
	now := events.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	hash := func(s string) *events.Hash { h := fixture.Hash(s); return &h }
	said := []fixture.Message{}
	say := func(data ...events.Data) { said = append(said, a.Say(data...)) }

	session, key, spent, ended := fixture.UUID(), fixture.UUID(), fixture.UUID(), fixture.UUID()
	say(&events.OwnerRegistered{UserID: fixture.UUID()}, &events.SessionIssued{SessionID: fixture.UUID(), Audience: events.AudienceCore, ExpiresAt: now})
	say(&events.SessionIssued{SessionID: session, Audience: events.AudienceExtension, TokenHash: hash(session), ExpiresAt: now})
	say(&events.ApiKeyCreated{KeyID: key, KeyHash: fixture.Hash(key), Prefix: "svc_1234", Label: "a\x00label", Scopes: events.AllScopes, ExpiresAt: &now, CreatedBy: &events.Via{Kind: events.ViaSession, ID: session}, Namespaces: []string{"a\x00name"}, App: &events.App{Name: "an\x00app", RedirectHost: "app.example"}})
	say(&events.ApiKeyUsed{KeyID: key})
	say(&events.ApiKeyRevoked{KeyID: key})
	say(&events.GrantMinted{GrantID: spent, Kind: events.GrantDrop, TokenHash: fixture.Hash(spent), ExpiresAt: now, MaxUses: 1, By: &events.Via{Kind: events.ViaSession, ID: session}, Namespace: "a\x00name"})
	say(&events.GrantConsumed{GrantID: spent, Kind: events.GrantDrop, Use: 1, Remaining: 0}, a.Memory(`{"dropped":true}`))
	say(&events.GrantMinted{GrantID: ended, Kind: events.GrantCase, TokenHash: fixture.Hash(ended), ExpiresAt: now, MaxUses: 3})
	say(&events.GrantConsumed{GrantID: ended, Kind: events.GrantCase, Use: 1, Remaining: 2})
	next := fixture.UUID()
	say(&events.GrantRevoked{GrantID: ended, Kind: events.GrantCase, Reason: events.Superseded},
		&events.GrantMinted{GrantID: next, Kind: events.GrantCase, TokenHash: fixture.Hash(next), ExpiresAt: now, MaxUses: 3})
	say(&events.SessionRevoked{SessionID: session})

	var leaves []events.Hash
	leaves = append(leaves, fixture.LeafHash(a.Owner, 0))
	for i := 1; i < storyLeaves; i++ {
		m := a.Memory(fmt.Sprintf(`{"n":%d}`, i))
		m.IdempotencyKeyHash = hash(fmt.Sprint("key", i))
		if i == 120 {
			m.Supersedes = []uint64{7, 3}
		}
		leaves = append(leaves, m.LeafHash)
		if i == 130 {
			first := events.At(time.Date(0, 2, 29, 0, 0, 0, 1e6, time.UTC)) // the year 0, which PostgreSQL calls 1 BC
			before := &events.Imported{ID: fixture.UUID(), CreatedAt: first, Via: &events.Via{Kind: events.ViaKey, ID: key}}
			m.Imported, m.Salt = before, events.SaltNone
			say(&events.ImportStarted{Root: m.LeafHash, Size: 200, Leaves: 130}, m, &events.ImportFinished{Root: m.LeafHash, Reason: events.ImportGivenUp, Leaves: 131})
			continue
		}
		say(m)
		if i == 100 {
			say(&events.MemoryRetracted{MemoryID: m.MemoryID, LeafIndex: 100, Leaves: 101})
		}
		if i == 110 {
			say(&events.MemoryForgotten{MemoryID: m.MemoryID, LeafIndex: 110, Leaves: 111})
		}
	}
	commit := func(size uint64, confirm bool) {
		id, root := fixture.UUID(), tree.RootOf(leaves[:size])
		say(&events.BatchCut{BatchID: id, FromSize: 0, Size: size, Root: root})
		first := &events.BatchSubmitted{BatchID: id, Size: size, Root: root, Signature: "first" + id, Blockhash: "hash", LastValidBlockHeight: 7, Transaction: []byte("tx")}
		say(first)
		say(&events.BatchFailed{BatchID: id, Signature: first.Signature, Reason: "expired\x00"})
		second := *first
		second.Signature = "second" + id
		say(&second)
		if confirm {
			say(&events.BatchConfirmed{BatchID: id, Size: size, Root: root, Signature: second.Signature, Slot: 9, Cluster: "cluster", ProgramID: "program", Account: "account"})
		}
	}
	commit(10, true)
	commit(storyLeaves-1, false)
	say(&events.StakeDeposited{Mint: "mint", Vault: "vault", Amount: "18446744073709551615", Signature: fmt.Sprint("deposit", n), Slot: 5, BlockTime: now})
	say(&events.StakeWithdrawn{Mint: "mint", Vault: "vault", Amount: "5", Signature: fmt.Sprint("withdraw", n), Slot: 6, BlockTime: now})
	return said
}

// TestTheStoryHasEveryType: else the audit would agree with a rule that keeps nothing of
// an event. An erasure would end the story, so a test that needs one adds it.
func TestTheStoryHasEveryType(t *testing.T) {
	t.Parallel()
	told := map[events.Type]bool{events.TypeOwnerErased: true}
	for _, m := range story(1) {
		for _, e := range m.Events {
			told[e.Type()] = true
		}
	}
	for _, d := range events.Catalogue() {
		if !told[d.Type] {
			t.Errorf("story has no %s", d.Type)
		}
	}
}

// projected returns a log and the read models that a projector made from it.
func projected(t testing.TB, messages ...fixture.Message) (*pgxpool.Pool, *fixture.Log) {
	t.Helper()
	_, pool := fixture.Database(t)
	log := fixture.NewLog(t)
	log.Publish(t, messages...)
	r := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log})
	stop := fixture.Running(t, r.Run)
	must(t, fence.New(pool, log, fence.Options{Timeout: time.Minute}).WaitAll(t.Context()))
	must(t, stop())
	return pool, log
}

// verify runs an audit and returns what it found.
func verify(t *testing.T, cfg audit.Config) ([]audit.Finding, audit.Summary) {
	t.Helper()
	var found []audit.Finding
	cfg.Report = func(f audit.Finding) { found = append(found, f) }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	summary, err := audit.Run(ctx, cfg)
	must(t, err)
	if int(summary.Findings) != len(found) {
		t.Errorf("%d findings counted, %d reported", summary.Findings, len(found))
	}
	return found, summary
}

func TestWhatIsGoodIsFoundGood(t *testing.T) {
	t.Parallel()
	pool, log := projected(t, slices.Concat(story(1), story(2))...)
	second, replica := fixture.NumberedActor(2).Owner, audit.Replica{Node: "a", Log: log.Replayed().Replica("a")}
	for _, cfg := range []audit.Config{{}, {Owner: second}, {Owner: second, Replicas: []audit.Replica{replica}}} {
		cfg.Log, cfg.Pool = log.Replayed(), pool
		found, summary := verify(t, cfg)
		owners := 2
		if cfg.Owner != "" {
			owners = 1
		}
		if len(found) != 0 || summary.Leaves != uint64(storyLeaves*owners) || summary.Rows["memories"] != storyLeaves*owners || summary.Rows["tiles"] != owners ||
			summary.BatchRoots != uint64(2*owners) || summary.Rows["grants"] != 3*owners || len(summary.NotChecked) != 2 {
			t.Errorf("%v, %+v", found, summary)
		}
	}
	found, summary := verify(t, audit.Config{Log: log.Replayed()})
	if len(found) != 0 || len(summary.NotChecked) != 3 || !strings.Contains(fmt.Sprint(summary.NotChecked), "read models") {
		t.Errorf("%v, %+v", found, summary)
	}
	// A message that stopped the projector is named, although the read models end before it.
	bad := log.PublishRaw(t, story(1)[0].Subject(), []byte("[]"))
	found, summary = verify(t, audit.Config{Log: log.Replayed(), Pool: pool, Patience: time.Millisecond})
	if len(found) != 1 || found[0].Seq != bad || summary.Through != bad || len(summary.Incomplete) != 1 {
		t.Errorf("%v, %+v", found, summary)
	}
}
