package staking_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/staking"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// afterOwner is called when a connection has read an owner's row.
type afterOwner func()

type queryKey struct{}

func (afterOwner) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, queryKey{}, query.SQL)
}

func (f afterOwner) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if sql, _ := ctx.Value(queryKey{}).(string); strings.Contains(sql, "FROM owners") {
		f()
	}
}

// TestARecordIsOfOneMoment: if the tables are swapped while a record is read, the record
// still has the movements that its sequence covers. Without them, the watcher would take
// every movement on the chain for a new one.
func TestARecordIsOfOneMoment(t *testing.T) {
	t.Parallel()
	log, pool := projected(t)
	owner := events.OwnerFromBytes([32]byte{1})
	seq := deposit(t, log, owner)
	load := func(pool *pgxpool.Pool) (seq uint64, signatures []string) {
		record, err := staking.ReadModel{Pool: pool}.Load(t.Context(), owner, "vault")
		must(t, err)
		for _, m := range record.Movements {
			signatures = append(signatures, m.Signature)
		}
		return record.Seq, signatures
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if at, _ := load(pool); at == seq {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the deposit is not projected")
		}
	}
	generation := func() (g string) {
		must(t, pool.QueryRow(t.Context(), `SELECT generation::text FROM checkpoint LIMIT 1`).Scan(&g))
		return g
	}
	// Wait only for the swap: the rebuild ends only once the old tables have no reader.
	var (
		swap    sync.Once
		rebuilt sync.WaitGroup
	)
	cfg := pool.Config()
	cfg.ConnConfig.Tracer = afterOwner(func() {
		swap.Do(func() {
			before := generation()
			rebuilt.Go(func() {
				result, err := rebuild.Run(context.Background(), rebuild.Config{Pool: pool, Log: log})
				if err != nil || !result.Swapped {
					t.Errorf("rebuild: %+v, %v", result, err)
				}
			})
			for deadline := time.Now().Add(time.Minute); generation() == before; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("no swap")
					return
				}
			}
		})
	})
	defer rebuilt.Wait()
	slow, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	defer slow.Close()
	at, signatures := load(slow)
	if at != seq || !reflect.DeepEqual(signatures, []string{"signature"}) {
		t.Errorf("at sequence %d of %d: %v", at, seq, signatures)
	}
}

// projected returns a log and read models that follow it.
func projected(t *testing.T) (*eventlog.JetStream, *pgxpool.Pool) {
	t.Helper()
	nc, _ := natstest.Connect(t, natstest.Start(t).URL())
	log, err := eventlog.Create(t.Context(), nc, eventlog.Config{})
	must(t, err)
	url := pgtest.Database(t)
	must(t, schema.Migrate(t.Context(), url, schema.Live))
	pool, err := schema.OpenPool(t.Context(), url, schema.Live, 4)
	must(t, err)
	t.Cleanup(pool.Close)
	r, err := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return log, pool
}

func deposit(t *testing.T, log *eventlog.JetStream, owner events.Owner) (seq uint64) {
	t.Helper()
	command := uuid.Must(uuid.NewV7()).String()
	payload, err := events.EncodeBatch([]events.Event{{
		ID: uuid.Must(uuid.NewV7()).String(), Source: "/test", Owner: owner, Time: events.At(time.Now()), OwnerVersion: 1, CommandID: command,
		Data: &events.StakeDeposited{Mint: "mint", Vault: "vault", Amount: "5", Signature: "signature", Slot: 7, BlockTime: events.At(time.Now())},
	}})
	must(t, err)
	seq, err = log.Append(t.Context(), eventlog.Append{
		Family: events.FamilyChain, Owner: owner, Kind: events.KindStake, CommandID: command, Payload: payload,
	})
	must(t, err)
	return seq
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
