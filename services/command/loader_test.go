package command_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/command"
)

var must = testkit.Must

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestNothingOfAVoidReadIsLeft: if the tables are swapped while an owner's state is read,
// it is read again. A key revoked in between is not in the state, although it was alive at
// the first read.
func TestNothingOfAVoidReadIsLeft(t *testing.T) {
	t.Parallel()
	database := pgtest.Database(t)
	const live, fresh = "ledger", "ledger_fresh"
	var pool *pgxpool.Pool
	for _, name := range []string{fresh, live} {
		var err error
		pool, err = schema.OpenPool(t.Context(), database, name, 2)
		must(t, err)
		t.Cleanup(pool.Close)
		must(t, schema.Migrate(t.Context(), pool))
	}
	owner, kept, revoked := logtest.Owner(), uuid.NewString(), uuid.NewString()
	for _, name := range []string{live, fresh} {
		must(t, testkit.ErrorOf(pool.Exec(t.Context(), `INSERT INTO `+name+`.owners (owner, others, last_seq, chain_version, chain_last_seq) VALUES ($1, 2, 2, 0, 0)`, owner)))
		must(t, testkit.ErrorOf(pool.Exec(t.Context(), `INSERT INTO `+name+`.api_keys (id, owner, hash, prefix, label, created_at, seq)
			SELECT id, $1, sha256(id::text::bytea), 'svc_', '', now(), 1 FROM unnest($2::uuid[]) AS id`, owner, []string{kept, revoked})))
	}
	reads := 0
	now := func() time.Time { // called after the snapshot is taken and before the keys are read
		if reads++; reads == 1 {
			if _, err := pool.Exec(t.Context(), `BEGIN; ALTER SCHEMA `+live+` RENAME TO ledger_old; ALTER SCHEMA `+fresh+` RENAME TO `+live+`;
				UPDATE `+live+`.api_keys SET revoked_at = now() WHERE id = '`+revoked+`'; UPDATE `+live+`.owners SET others = 3, last_seq = 3; COMMIT`); err != nil {
				t.Error(err)
			}
		}
		return time.Now()
	}
	state, err := command.ReadModel{Pool: pool, Now: now}.Load(t.Context(), owner)
	must(t, err)
	if reads != 2 || state.Seq != 3 || state.Version != 3 {
		t.Errorf("read %d times, at sequence %d and version %d", reads, state.Seq, state.Version)
	}
	if _, ok := state.Keys[kept]; !ok || len(state.Keys) != 1 {
		t.Errorf("the keys are %v, of which only %s is not revoked", state.Keys, kept)
	}
}
