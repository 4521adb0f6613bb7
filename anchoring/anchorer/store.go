package anchorer

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

// tablesTimeout bounds the statements on the tables. Without it, a database that went
// silent would hold the anchorer until the kernel gives up the connection.
const tablesTimeout = time.Minute

// tablesVersion is raised when the tables change. Older tables are dropped and filled
// again from the log.
const tablesVersion = 8

// schemaName is the schema of the anchorer's tables.
const schemaName = "ledger_anchor"

// store keeps the folded owners. Its tables can be dropped at any time: the log fills
// them again.
type store struct {
	pool *pgxpool.Pool
	key  rowKey // for the rows' codes
}

const createTables = `
DROP SCHEMA IF EXISTS ledger_anchor CASCADE;
CREATE SCHEMA ledger_anchor;
CREATE TABLE ledger_anchor.about (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL
);
-- Genesis hash of the chain that the newest confirmed batch is on.
CREATE TABLE ledger_anchor.clusters (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    genesis text    NOT NULL
);
CREATE TABLE ledger_anchor.owners (
    owner          text COLLATE "C" PRIMARY KEY,
    size           bigint  NOT NULL,
    frontier       bytea   NOT NULL, -- hashes side by side, largest subtree first
    chain_seq      bigint  NOT NULL,
    chain_version  integer NOT NULL,
    confirmed_size bigint  NOT NULL,
    confirmed_root bytea   NOT NULL,
    waiting        timestamptz,
    batch_id       text,
    batch_from     bigint,
    batch_size     bigint,
    batch_root     bytea,
    batch_oldest   timestamptz,
    -- Of the leaves that wait and of the open batch: see trace.go.
    origins        text    NOT NULL,
    batch_trace    text,
    signature      text COLLATE "C",
    blockhash      text,
    last_valid     bigint,
    transaction    bytea,
    code           bytea   NOT NULL -- see rowcode.go
);
CREATE INDEX owners_waiting_first ON ledger_anchor.owners (waiting) WHERE batch_id IS NULL AND waiting IS NOT NULL AND confirmed_size = 0;
CREATE INDEX owners_waiting_again ON ledger_anchor.owners (waiting) WHERE batch_id IS NULL AND waiting IS NOT NULL AND confirmed_size > 0;
CREATE INDEX owners_many ON ledger_anchor.owners ((size - confirmed_size)) WHERE batch_id IS NULL AND waiting IS NOT NULL;
CREATE INDEX owners_open ON ledger_anchor.owners (batch_oldest) WHERE batch_id IS NOT NULL;
CREATE TABLE ledger_anchor.spending (day date PRIMARY KEY, lamports bigint NOT NULL);
SET LOCAL search_path = ledger_anchor;
`

// tables creates the anchorer's tables.
type tables struct{}

// errTables says that the tables are missing or belong to another build.
var errTables = errors.New("the anchorer's tables are not of this build")

// Have implements projector.Tables. It drops tables of another build and creates them
// again once no other anchorer works on them: it takes the lock on projector.AloneKey
// exclusively.
func (t tables) Have(ctx context.Context, conn *pgx.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	if err := t.Check(ctx, conn); !errors.Is(err, errTables) {
		return err == nil, err
	}
	var alone bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, projector.AloneKey(schemaName)).Scan(&alone); err != nil || !alone {
		return false, err
	}
	if err := makeTables(ctx, conn); err != nil {
		return false, err
	}
	_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, projector.AloneKey(schemaName))
	return err == nil, err
}

// Check implements projector.Tables.
func (tables) Check(ctx context.Context, q schema.Querier) error {
	var exists bool
	version := 0
	err := q.QueryRow(ctx, `SELECT to_regclass('ledger_anchor.about') IS NOT NULL`).Scan(&exists)
	if err == nil && exists {
		err = q.QueryRow(ctx, `SELECT version FROM ledger_anchor.about`).Scan(&version)
	}
	if err == nil && version != tablesVersion {
		err = errTables
	}
	if err != nil {
		return fmt.Errorf("look at the anchorer's tables: %w", err)
	}
	return nil
}

// makeTables drops the tables and creates them again, empty.
func makeTables(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, createTables+projector.CheckpointSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO ledger_anchor.about (version) VALUES ($1)`, tablesVersion)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the anchorer's tables: %w", err)
	}
	return nil
}

// empty returns the steps that delete the rows. The spending counts
// stay, and the fold counts the same spending again if the log still has it. Until the
// day ends, that errs on the safe side.
func (s *store) empty() []projector.Step {
	return []projector.Step{{SQL: `DELETE FROM ledger_anchor.owners`}, {SQL: `DELETE FROM ledger_anchor.clusters`}}
}

// cluster returns the genesis hash of the chain that holds the newest confirmed batch, or
// "" if there is none.
func (s *store) cluster(ctx context.Context) (genesis string, err error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT coalesce((SELECT genesis FROM ledger_anchor.clusters), '')`).Scan(&genesis)
	if err != nil {
		return "", fmt.Errorf("read which chain is anchored to: %w", err)
	}
	return genesis, nil
}

// write queues the changes of a slice.
func (s *store) write(w *projector.Writer, owners map[events.Owner]*owner, spent map[string]uint64, genesis string) {
	for day, lamports := range spent {
		w.Exec(`INSERT INTO ledger_anchor.spending AS s (day, lamports) VALUES ($1::text::date, $2)
			ON CONFLICT (day) DO UPDATE SET lamports = s.lamports + excluded.lamports`, day, lamports)
	}
	if genesis != "" {
		w.Exec(`INSERT INTO ledger_anchor.clusters (genesis) VALUES ($1) ON CONFLICT (single) DO UPDATE SET genesis = excluded.genesis`, genesis)
	}
	w.Exec(upsertSQL, s.fields(slices.Collect(maps.Values(owners)))...)
}

// fields returns the arguments of upsertSQL for some owners.
func (s *store) fields(owners []*owner) []any {
	n := len(owners)
	var (
		key                            = make([]string, n)
		size, chainSeq, confirmedSize  = make([]uint64, n), make([]uint64, n), make([]uint64, n)
		chainVersion                   = make([]int, n)
		frontier, confirmedRoot, root  = make([][]byte, n), make([][]byte, n), make([][]byte, n)
		waiting, oldest                = make([]*time.Time, n), make([]*time.Time, n)
		batchID, signature, blockhash  = make([]*string, n), make([]*string, n), make([]*string, n)
		batchFrom, batchSize, lastGood = make([]*uint64, n), make([]*uint64, n), make([]*uint64, n)
		transaction, code              = make([][]byte, n), make([][]byte, n)
		origins, batchTrace            = make([]string, n), make([]*string, n)
	)
	for i, o := range owners {
		key[i], size[i], chainSeq[i], chainVersion[i] = string(o.key), o.size(), o.chainSeq, o.chainVersion
		frontier[i], origins[i] = tree.Pack(o.frontier.Hashes()), encodeOrigins(o.origins)
		confirmedSize[i], confirmedRoot[i], code[i] = o.confirmedSize, o.confirmedRoot[:], s.key.code(o)
		if !o.waiting.IsZero() {
			waiting[i] = &o.waiting
		}
		b := o.batch
		if b == nil {
			continue
		}
		batchID[i], batchFrom[i], batchSize[i], root[i], oldest[i] = &b.id, &b.from, &b.size, b.root[:], &b.oldest
		batchTrace[i] = &b.traceparent
		if a := b.tried; a != nil {
			signature[i], blockhash[i], lastGood[i], transaction[i] = &a.signature, &a.blockhash, &a.lastValid, a.transaction
		}
	}
	return []any{key, size, frontier, chainSeq, chainVersion, confirmedSize, confirmedRoot, waiting,
		batchID, batchFrom, batchSize, root, oldest, signature, blockhash, lastGood, transaction, origins, batchTrace, code}
}

const (
	columns = `owner, size, frontier, chain_seq, chain_version, confirmed_size, confirmed_root, waiting,
	batch_id, batch_from, batch_size, batch_root, batch_oldest, signature, blockhash, last_valid, transaction,
	origins, batch_trace, code`
	excluded = `excluded.owner, excluded.size, excluded.frontier, excluded.chain_seq, excluded.chain_version,
	excluded.confirmed_size, excluded.confirmed_root, excluded.waiting,
	excluded.batch_id, excluded.batch_from, excluded.batch_size, excluded.batch_root, excluded.batch_oldest,
	excluded.signature, excluded.blockhash, excluded.last_valid, excluded.transaction,
	excluded.origins, excluded.batch_trace, excluded.code`
	upsertSQL = `INSERT INTO ledger_anchor.owners (` + columns + `)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::integer[], $6::bigint[], $7::bytea[], $8::timestamptz[],
			$9::text[], $10::bigint[], $11::bigint[], $12::bytea[], $13::timestamptz[], $14::text[], $15::text[], $16::bigint[], $17::bytea[],
			$18::text[], $19::text[], $20::bytea[])
		ON CONFLICT (owner) DO UPDATE SET (` + columns + `) = (` + excluded + `)`
)

// load returns those of the owners that have a row.
func (s *store) load(ctx context.Context, keys []events.Owner) ([]*owner, error) {
	return s.list(ctx, `SELECT `+columns+` FROM ledger_anchor.owners WHERE owner = ANY($1)`, texts(keys))
}

// recordedOwners returns owners whose open batch has a signed transaction, oldest first.
func (s *store) recordedOwners(ctx context.Context, except []events.Owner, limit int) ([]*owner, error) {
	return s.list(ctx, `SELECT `+columns+` FROM ledger_anchor.owners WHERE batch_id IS NOT NULL AND signature IS NOT NULL AND owner <> ALL($1)
		ORDER BY batch_oldest LIMIT $2`, texts(except), limit)
}

// search selects the owners that unsignedOwners returns.
type search struct {
	// A batch is due for owners whose oldest waiting leaf was written no later than
	// before, or that have at least maxLeaves unanchored leaves.
	before    time.Time
	maxLeaves uint64
	except    []events.Owner
	only      []events.Owner // nil: all
	limit     int
}

// unsignedOwners returns owners that need a signed transaction: their batch was cut and
// not submitted, or is due. The longest waiting come first. If first is true it returns
// only owners that were never anchored, else only owners that were. So it need not read
// many owners of one kind to find the other kind.
func (s *store) unsignedOwners(ctx context.Context, w search, first bool) ([]*owner, error) {
	var only []string // NULL
	if w.only != nil {
		only = texts(w.only)
	}
	kind := `confirmed_size > 0`
	if first {
		kind = `confirmed_size = 0`
	}
	from := `(SELECT ` + columns + ` FROM ledger_anchor.owners WHERE ` + kind + ` AND owner <> ALL($3) AND ($5::text[] IS NULL OR owner = ANY($5)) AND `
	due := from + `batch_id IS NULL AND `
	return s.list(ctx, `SELECT * FROM (
		`+from+`batch_id IS NOT NULL AND signature IS NULL ORDER BY batch_oldest LIMIT $4)
		UNION
		`+due+`waiting <= $1 ORDER BY waiting LIMIT $4)
		UNION
		`+due+`waiting IS NOT NULL AND size - confirmed_size >= $2 ORDER BY size - confirmed_size DESC LIMIT $4)
		) unsigned ORDER BY coalesce(batch_oldest, waiting) LIMIT $4`,
		w.before, w.maxLeaves, texts(w.except), w.limit, only)
}

// spentOn returns the maximum cost of a day's transactions, in lamports.
func (s *store) spentOn(ctx context.Context, day string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	var lamports uint64
	err := s.pool.QueryRow(ctx, `SELECT coalesce((SELECT lamports FROM ledger_anchor.spending WHERE day = $1::text::date), 0)`, day).Scan(&lamports)
	if err != nil {
		return 0, fmt.Errorf("read what was spent: %w", err)
	}
	return lamports, nil
}

// counts are the numbers of waiting owners, by state.
type counts struct {
	Waiting, Cut, Submitted int
	Oldest                  time.Time // oldest unanchored leaf; zero if all are anchored
}

func (s *store) count(ctx context.Context) (counts, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	var c counts
	var oldest *time.Time
	err := s.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM ledger_anchor.owners WHERE batch_id IS NULL AND waiting IS NOT NULL),
		(SELECT count(*) FROM ledger_anchor.owners WHERE batch_id IS NOT NULL AND signature IS NULL),
		(SELECT count(*) FROM ledger_anchor.owners WHERE batch_id IS NOT NULL AND signature IS NOT NULL),
		least((SELECT min(waiting) FROM ledger_anchor.owners WHERE batch_id IS NULL AND waiting IS NOT NULL AND confirmed_size = 0),
		      (SELECT min(waiting) FROM ledger_anchor.owners WHERE batch_id IS NULL AND waiting IS NOT NULL AND confirmed_size > 0),
		      (SELECT min(batch_oldest) FROM ledger_anchor.owners WHERE batch_id IS NOT NULL))`).Scan(&c.Waiting, &c.Cut, &c.Submitted, &oldest)
	if err != nil {
		return counts{}, fmt.Errorf("count what waits: %w", err)
	}
	if oldest != nil {
		c.Oldest = *oldest
	}
	return c, nil
}

func (s *store) list(ctx context.Context, sql string, args ...any) ([]*owner, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	owners, err := pgx.CollectRows(rows, s.scan)
	if err != nil {
		return nil, fmt.Errorf("read owners: %w", err)
	}
	return owners, nil
}

// scan reads a row. It fails with errAltered if the anchorer did not write the row.
func (s *store) scan(row pgx.CollectableRow) (*owner, error) {
	o, code, err := scanOwner(row)
	if err != nil { // a value that is never written, such as a negative size
		return nil, fmt.Errorf("%w: %w", errAltered, err)
	}
	if !hmac.Equal(code, s.key.code(o)) {
		return nil, fmt.Errorf("%w: that of %s", errAltered, o.key)
	}
	return o, nil
}

func scanOwner(row pgx.CollectableRow) (_ *owner, code []byte, err error) {
	var (
		o                              owner
		b                              batch
		a                              attempt
		size                           uint64
		frontier, confirmed, root      []byte
		waiting, oldest                *time.Time
		id, signature, blockhash       *string
		origins                        string
		batchTrace                     *string
		batchFrom, batchSize, lastGood *uint64
	)
	err = row.Scan((*string)(&o.key), &size, &frontier, &o.chainSeq, &o.chainVersion, &o.confirmedSize, &confirmed, &waiting,
		&id, &batchFrom, &batchSize, &root, &oldest, &signature, &blockhash, &lastGood, &a.transaction,
		&origins, &batchTrace, &code)
	if err != nil {
		return nil, nil, err
	}
	if o.frontier, err = tree.NewFrontier(size, tree.Split(frontier)); err != nil {
		return nil, nil, fmt.Errorf("frontier of %s: %w", o.key, err)
	}
	copy(o.confirmedRoot[:], confirmed)
	o.origins = decodeOrigins(origins)
	if waiting != nil {
		o.waiting = *waiting
	}
	if id == nil {
		return &o, code, nil
	}
	if batchFrom == nil || batchSize == nil || oldest == nil || signature != nil && (blockhash == nil || lastGood == nil) {
		return nil, nil, fmt.Errorf("batch of %s: a part of it is missing", o.key)
	}
	b.id, b.from, b.size, b.oldest = *id, *batchFrom, *batchSize, *oldest
	copy(b.root[:], root)
	if batchTrace != nil {
		b.traceparent = *batchTrace
	}
	if signature != nil {
		a.signature, a.blockhash, a.lastValid = *signature, *blockhash, *lastGood
		b.tried = &a
	}
	o.batch = &b
	return &o, code, nil
}

func texts(keys []events.Owner) []string {
	out := make([]string, len(keys)) // never nil: ALL of NULL is NULL
	for i, k := range keys {
		out[i] = string(k)
	}
	return out
}
