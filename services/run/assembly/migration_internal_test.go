package assembly

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/run/config"
)

// TestAMigrationOutlastsTheStart: a migration may take longer than a start waits for its
// servers. Here another service holds the lock of the migration, and this service waits
// for it.
func TestAMigrationOutlastsTheStart(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer schema.Disconnect(other)
	key := schema.LockKey("migrate", schema.Live)
	if _, err := other.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, key); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	starting, end := context.WithCancel(ctx)
	b := &Base{Config: config.Config{DatabaseURL: url}, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
	opened := make(chan error, 1)
	go func() { opened <- b.openDatabase(ctx, starting) }()
	for waits := false; !waits; {
		if err := other.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND wait_event = 'advisory')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if _, err := other.Exec(ctx, `SELECT pg_advisory_unlock($1)`, key); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer b.Pool.Close()
	if err := schema.Known(ctx, b.Pool); err != nil {
		t.Error(err)
	}
}
