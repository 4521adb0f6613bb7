package rebuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// compare compares the new tables with the live ones at exactly the same position. It
// takes the position from a snapshot of the live tables, and replays the new tables up to
// it. The new tables stay there until everything is compared.
func (r *rebuild) compare(ctx context.Context) error {
	live, err := r.connect(ctx, r.live)
	if err != nil {
		return err
	}
	defer schema.Disconnect(live)
	tx, err := live.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was written
	at, wrong, err := r.position(ctx, tx)
	if err != nil {
		return err
	}
	if wrong != "" {
		r.differ("checkpoint", "%s, the log ends at %d", wrong, at.Seq)
	}
	if err := r.replayer.To(ctx, at.Seq); err != nil {
		return err
	}
	r.result.Compared = at.Seq
	r.say("comparing at sequence %d", at.Seq)
	rows := map[string]bool{} // tables with rows that differ, and can be read
	for _, name := range tables() {
		if rows[name], err = r.compareTable(ctx, tx, name); err != nil {
			return fmt.Errorf("compare %s: %w", name, err)
		}
	}
	if r.cfg.Force || !slices.Contains(slices.Collect(maps.Values(rows)), true) {
		return nil
	}
	return r.explain(ctx, rows)
}

// explain lets the audit compare the live tables with the log, and reports what it finds in
// the tables that differ: at most 100 findings each. Without a checkpoint there is no
// audit.
func (r *rebuild) explain(ctx context.Context, rows map[string]bool) error {
	r.say("looking for the rows that differ")
	shown := map[string]int{}
	_, err := audit.Run(ctx, audit.Config{Log: r.cfg.Log, Pool: r.cfg.Pool, Patience: time.Millisecond, Report: func(f audit.Finding) {
		if !rows[f.Table] {
			return
		}
		r.result.Differences++
		if shown[f.Table]++; shown[f.Table] <= 100 && r.cfg.Report != nil {
			r.cfg.Report(f)
		}
	}})
	if err != nil && !unusable(err) {
		return fmt.Errorf("look for the rows that differ: %w", err)
	}
	return nil
}

func unreadable(err error) string { return "it can't be read (" + err.Error() + ")" }

// unusable reports whether an error means that the checkpoint can't be used, or a table.
func unusable(err error) bool { return errors.Is(err, pgx.ErrNoRows) || lost(err) }

// lost reports whether an error means that a table can't be read, or that it is not there
// (42P01) or lacks a column (42703).
func lost(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "42P01" || pg.Code == "42703") || schema.Damaged(err)
}

// differ reports a table that differs as a whole.
func (r *rebuild) differ(table, format string, args ...any) {
	r.result.Differences++
	if r.cfg.Report != nil {
		r.cfg.Report(audit.Finding{Check: audit.CheckReadRow, Table: table, Detail: fmt.Sprintf(format, args...)})
	}
}

// compareTable compares counts and checksums over all columns. It returns true if the live
// table has rows, and they differ. Live rows that can't be read are a difference, because a
// forced rebuild cures that too.
func (r *rebuild) compareTable(ctx context.Context, live pgx.Tx, name string) (bool, error) {
	sum, err := checksum(ctx, r.control, r.fresh, name)
	if err != nil {
		return false, err
	}
	var (
		counts [2]uint64
		sums   [2]string
		group  errgroup.Group
		failed error // of the live table
	)
	group.Go(func() error {
		failed = pgx.BeginFunc(ctx, live, func(tx pgx.Tx) error { return tx.QueryRow(ctx, sum).Scan(&counts[0], &sums[0]) })
		return nil
	})
	group.Go(func() error { return r.replayer.Conn.QueryRow(ctx, sum).Scan(&counts[1], &sums[1]) })
	if err := group.Wait(); err != nil {
		return false, err
	}
	r.result.Rows += counts[1]
	switch {
	case lost(failed):
		r.differ(name, "%s", unreadable(failed))
		return false, nil
	case failed != nil:
		return false, failed
	case counts[0] == counts[1] && sums[0] == sums[1]:
		return false, nil
	}
	r.differ(name, "it has %d rows with the checksum %s, the log gives %d rows with %s", counts[0], sums[0], counts[1], sums[1])
	return counts[0] > 0, nil
}

// checksum returns a statement that counts the rows of a table and adds up their hashes
// over all columns. It takes the columns from the table in inSchema; the statement also
// works for the same table in another schema. Hashing stored values takes a quarter of
// the time of hashing a row's text. It is used for types whose values are equal only if
// their bytes are. Other types are hashed as text: numeric may have trailing zeros, and
// arrays may hold such numbers.
func checksum(ctx context.Context, q schema.Querier, inSchema, name string) (string, error) {
	columns, err := column.All(ctx, q, "list columns", column.Value[string], `SELECT CASE WHEN a.atttypid IN ('text'::regtype, 'bytea'::regtype, 'uuid'::regtype, 'boolean'::regtype,
			'smallint'::regtype, 'integer'::regtype, 'bigint'::regtype, 'timestamptz'::regtype)
			THEN quote_ident(a.attname) ELSE quote_ident(a.attname) || '::text' END
		FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, inSchema+"."+name)
	if err != nil {
		return "", err
	}
	return `SELECT count(*), coalesce(sum(hash_record_extended(ROW(` + strings.Join(columns, ", ") + `), 0)), 0)::text FROM ` + name, nil
}
