package rebuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Difference is one place where the live tables differ from the tables that the log
// gives.
type Difference struct {
	Table, Row, Column string // Column is empty if the whole row is missing or extra
	Live, Rebuilt      string
}

// String returns the difference for logs.
func (d Difference) String() string {
	where := d.Table
	if d.Row != "" {
		where += " " + d.Row
	}
	if d.Column != "" {
		where += " " + d.Column
	}
	return fmt.Sprintf("%s: live %s, rebuilt %s", where, d.Live, d.Rebuilt)
}

const (
	// maxShown is how many differences per table are reported in full.
	maxShown = 100
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
	head, err := r.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	at, err := readCheckpoint(ctx, tx)
	if err != nil && !unusable(err) {
		return err
	}
	newest, headErr := r.head(ctx, at)
	if headErr != nil {
		return headErr
	}
	if err != nil || at.Seq > newest {
		is := strconv.FormatUint(at.Seq, 10)
		if schema.Damaged(err) {
			is = unreadable(err)
		}
		r.differ(Difference{Table: "checkpoint", Live: is, Rebuilt: fmt.Sprintf("the log ends at %d", newest)})
		at.Seq = head
	}
	if err := r.replayer.To(ctx, at.Seq); err != nil {
		return err
	}
	r.result.Compared = at.Seq
	r.say("comparing at sequence %d", at.Seq)
	for _, name := range r.tables() {
		if err := r.attempt(ctx, tx, name, func(tx pgx.Tx) error { return r.compareTable(ctx, tx, name) }); err != nil {
			return fmt.Errorf("compare %s: %w", name, err)
		}
	}
	return r.attempt(ctx, tx, "roots", func(tx pgx.Tx) error { return r.compareRoots(ctx, tx) })
}

// attempt runs a comparison. If live data can't be read, it reports that as a difference,
// because a forced rebuild cures that too.
func (r *rebuild) attempt(ctx context.Context, live pgx.Tx, what string, compare func(pgx.Tx) error) error {
	liveFailed := false
	err := pgx.BeginFunc(ctx, live, func(tx pgx.Tx) error {
		err := compare(tx)
		liveFailed = tx.Conn().PgConn().TxStatus() == 'E'
		return err
	})
	if !liveFailed || !schema.Damaged(err) {
		return err
	}
	r.differ(Difference{Table: what, Live: unreadable(err), Rebuilt: "not compared"})
	return nil
}

func unreadable(err error) string { return "can't be read (" + err.Error() + ")" }

// unusable reports whether an error means that the checkpoint can't be used.
func unusable(err error) bool { return errors.Is(err, pgx.ErrNoRows) || schema.Damaged(err) }

// readCheckpoint reads the checkpoint in a nested transaction, so that tx stays usable if
// the checkpoint is damaged.
func readCheckpoint(ctx context.Context, tx pgx.Tx) (at projector.Checkpoint, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) {
		at, err = projector.ReadCheckpoint(ctx, tx)
		return err
	})
	return at, err
}

func (r *rebuild) differ(d Difference) {
	r.result.Differences++
	if r.cfg.Report != nil {
		r.cfg.Report(d)
	}
}

// compareTable compares counts and checksums over all columns. It compares rows if those
// differ, or if Config.Rows is set.
func (r *rebuild) compareTable(ctx context.Context, live pgx.Tx, name string) error {
	fresh := r.replayer.Conn
	sum, err := checksum(ctx, r.control, r.fresh, name)
	if err != nil {
		return err
	}
	var (
		counts [2]uint64
		sums   [2]string
		group  errgroup.Group
	)
	group.Go(func() error { return live.QueryRow(ctx, sum).Scan(&counts[0], &sums[0]) })
	group.Go(func() error { return fresh.QueryRow(ctx, sum).Scan(&counts[1], &sums[1]) })
	if err := group.Wait(); err != nil {
		return err
	}
	r.result.Rows += counts[1]
	same := counts[0] == counts[1] && sums[0] == sums[1]
	if same && !r.cfg.Rows {
		return nil
	}
	if counts[0] == 0 || counts[1] == 0 {
		// Every row is a difference: the first few are enough.
		shown, err := r.compareRows(ctx, live, name, maxShown)
		r.result.Differences += counts[0] + counts[1] - uint64(shown)
		return err
	}
	found, err := r.compareRows(ctx, live, name, 0)
	if err == nil && !same && found == 0 {
		r.differ(Difference{Table: name, Live: fmt.Sprintf("%d rows, checksum %s", counts[0], sums[0]), Rebuilt: fmt.Sprintf("%d rows, checksum %s", counts[1], sums[1])})
	}
	return err
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

// compareRows reads both tables side by side, in the order of their keys. If limit is not
// 0, it reads at most limit rows of each.
func (r *rebuild) compareRows(ctx context.Context, live pgx.Tx, name string, limit int) (found int, err error) {
	key, columns, err := r.columns(ctx, name)
	if err != nil {
		return 0, err
	}
	query := `SELECT concat_ws(' ', ` + strings.Join(key, ", ") + `) COLLATE "C" AS key, ` + strings.Join(columns, ", ") + ` FROM ` + name + ` ORDER BY 1`
	if limit > 0 {
		query += fmt.Sprintf(` LIMIT %d`, limit)
	}
	old, err := openRows(ctx, live, query)
	if err != nil {
		return 0, err
	}
	defer old.rows.Close()
	fresh, err := openRows(ctx, r.replayer.Conn, query)
	if err != nil {
		return 0, err
	}
	defer fresh.rows.Close()
	report := func(d Difference) {
		d.Table = name
		if found++; found <= maxShown {
			r.differ(d)
		} else {
			r.result.Differences++
		}
	}
	for old.values != nil || fresh.values != nil {
		order := 0
		switch {
		case old.values == nil:
			order = 1
		case fresh.values == nil:
			order = -1
		default:
			order = bytes.Compare(old.values[0], fresh.values[0])
		}
		switch {
		case order < 0:
			report(Difference{Row: string(old.values[0]), Live: "has the row", Rebuilt: "has not"})
		case order > 0:
			report(Difference{Row: string(fresh.values[0]), Live: "has not", Rebuilt: "has the row"})
		default:
			for i, column := range columns {
				if a, b := old.values[i+1], fresh.values[i+1]; !bytes.Equal(a, b) || (a == nil) != (b == nil) {
					report(Difference{Row: string(old.values[0]), Column: column, Live: shown(a), Rebuilt: shown(b)})
				}
			}
		}
		if order <= 0 {
			err = old.next()
		}
		if order >= 0 && err == nil {
			err = fresh.next()
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// shown shortens a long value for the report.
func shown(v []byte) string {
	const longest = 80
	switch {
	case v == nil:
		return "NULL"
	case len(v) > longest:
		return fmt.Sprintf("%q… (%d characters)", v[:longest], len(v))
	}
	return fmt.Sprintf("%q", v)
}

// textRows reads rows in PostgreSQL's text format.
type textRows struct {
	rows   pgx.Rows
	values [][]byte
}

func openRows(ctx context.Context, q interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, query string) (*textRows, error) {
	rows, err := q.Query(ctx, query, pgx.QueryResultFormats{pgx.TextFormatCode})
	if err != nil {
		return nil, err
	}
	t := &textRows{rows: rows}
	return t, t.next()
}

func (t *textRows) next() error {
	t.values = nil
	if t.rows.Next() {
		t.values = t.rows.RawValues()
	}
	return t.rows.Err()
}

// columns returns the primary key of a table, and all its columns.
func (r *rebuild) columns(ctx context.Context, name string) (key, columns []string, err error) {
	rows, err := r.control.Query(ctx, `SELECT quote_ident(a.attname), EXISTS (
			SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'p' AND a.attnum = ANY (k.conkey))
		FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, r.fresh+"."+name)
	if err != nil {
		return nil, nil, err
	}
	var column string
	var primary bool
	_, err = pgx.ForEachRow(rows, []any{&column, &primary}, func() error {
		columns = append(columns, column)
		if primary {
			key = append(key, column)
		}
		return nil
	})
	return key, columns, err
}

// compareRoots computes every owner's root from both sets of tables, as a proof would,
// and compares the roots.
func (r *rebuild) compareRoots(ctx context.Context, live pgx.Tx) error {
	if r.alone() && r.cfg.Projection != (tree.Projection{}).Name() && r.cfg.Projection != "memories" {
		return nil
	}
	var sizesFrom schema.Querier = r.replayer.Conn
	if r.alone() {
		// The new schema has no owners, and the current live owners are ahead of it. So
		// read the sizes from the snapshot.
		sizesFrom = live
	}
	for after := ""; ; {
		sizes, err := ownersAfter(ctx, sizesFrom, after)
		if err != nil {
			return err
		}
		if len(sizes) == 0 {
			return nil
		}
		after = string(sizes[len(sizes)-1].Owner)
		r.result.Owners += uint64(len(sizes))
		var (
			old, fresh []tree.Sized
			group      errgroup.Group
		)
		group.Go(func() (err error) { old, err = tree.Roots(ctx, live, sizes); return err })
		group.Go(func() (err error) { fresh, err = tree.Roots(ctx, r.replayer.Conn, sizes); return err })
		if err := group.Wait(); err != nil {
			return err
		}
		for i, o := range sizes {
			switch {
			case fresh[i].Err != nil:
				return fmt.Errorf("root of %s in the rebuilt tables: %w", o.Owner, fresh[i].Err)
			case old[i].Err != nil:
				r.differ(Difference{Table: "root of", Row: string(o.Owner), Live: old[i].Err.Error(), Rebuilt: fresh[i].Root.String()})
			case old[i].Root != fresh[i].Root:
				r.differ(Difference{Table: "root of", Row: string(o.Owner), Live: old[i].Root.String(), Rebuilt: fresh[i].Root.String()})
			}
		}
	}
}

// ownersAfter returns a page of the owners that have leaves.
func ownersAfter(ctx context.Context, q schema.Querier, after string) ([]tree.Size, error) {
	size := func(row pgx.Row) (s tree.Size, err error) {
		err = row.Scan((*string)(&s.Owner), &s.Leaves)
		return s, err
	}
	return column.All(ctx, q, "list owners", size, `SELECT owner, leaves FROM owners o CROSS JOIN LATERAL (
			SELECT leaf_index + 1 AS leaves FROM memories m WHERE m.owner = o.owner ORDER BY leaf_index DESC LIMIT 1) AS newest
		WHERE owner > $1 ORDER BY owner LIMIT 1000`, after)
}
