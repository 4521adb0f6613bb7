package anchorer

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// tablesTimeout bounds the statements on the tables. Without it, a database that went
// silent would hold the anchorer until the kernel gives up the connection.
const tablesTimeout = time.Minute

// tablesVersion is raised when the tables change. Older tables are dropped and filled
// again from the log.
const tablesVersion = 10

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
    owner      text COLLATE "C" PRIMARY KEY,
    -- What the queries look for: when something is signed, never what.
    first      boolean NOT NULL, -- the owner's next commit creates its account
    unanchored bigint  NOT NULL, -- leaves
    waiting    timestamptz,      -- when the oldest leaf was written that no batch covers
    oldest     timestamptz,      -- when the open batch's oldest leaf was written; NULL: none is open
    signed     boolean NOT NULL, -- the open batch has a transaction
    state      bytea   NOT NULL, -- JSON of type saved
    code       bytea   NOT NULL  -- see rowKey
);
CREATE INDEX owners_waiting ON ledger_anchor.owners (first, waiting) WHERE oldest IS NULL AND waiting IS NOT NULL;
CREATE INDEX owners_many ON ledger_anchor.owners (first, unanchored) WHERE oldest IS NULL AND waiting IS NOT NULL;
CREATE INDEX owners_open ON ledger_anchor.owners (oldest) WHERE oldest IS NOT NULL;
CREATE TABLE ledger_anchor.spending (day date PRIMARY KEY, lamports bigint NOT NULL);
SET LOCAL search_path = ledger_anchor;
`

type tables struct{}

// errTables says that the tables are missing or belong to another build.
var errTables = errors.New("the anchorer's tables are not of this build")

// Have implements projector.Tables. It drops tables of another build and creates them again.
func (t tables) Have(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	err := t.Check(ctx, conn)
	if errors.Is(err, errTables) {
		err = makeTables(ctx, conn)
	}
	return err
}

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
	rows := make([][]any, 0, len(owners))
	for _, o := range owners {
		rows = append(rows, s.row(o))
	}
	w.ExecRows(upsertSQL, rows)
}

// row returns the values of an owner's row, in the order of upsertSQL.
func (s *store) row(o *owner) []any {
	var waiting, oldest *time.Time
	if !o.Waiting.IsZero() {
		waiting = &o.Waiting
	}
	signed := false
	if b := o.Batch; b != nil {
		oldest, signed = &b.Oldest, b.Tried != nil
	}
	state := encode(o)
	return []any{string(o.key), !o.Created, o.size() - min(o.size(), o.ConfirmedSize), waiting, oldest, signed, state, s.key.code(o.key, state)}
}

const upsertSQL = `INSERT INTO ledger_anchor.owners (owner, first, unanchored, waiting, oldest, signed, state, code)
	SELECT * FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::boolean[], $7::bytea[], $8::bytea[])
	ON CONFLICT (owner) DO UPDATE SET (first, unanchored, waiting, oldest, signed, state, code) =
		(excluded.first, excluded.unanchored, excluded.waiting, excluded.oldest, excluded.signed, excluded.state, excluded.code)`

// load returns those of the owners that have a row.
func (s *store) load(ctx context.Context, keys []events.Owner) ([]*owner, error) {
	return s.list(ctx, `SELECT owner, state, code FROM ledger_anchor.owners WHERE owner = ANY($1)`, texts(keys))
}

// recordedOwners returns owners whose open batch has a signed transaction, oldest first.
func (s *store) recordedOwners(ctx context.Context, except []events.Owner, limit int) ([]*owner, error) {
	return s.list(ctx, `SELECT owner, state, code FROM ledger_anchor.owners WHERE oldest IS NOT NULL AND signed AND owner <> ALL($1)
		ORDER BY oldest LIMIT $2`, texts(except), limit)
}

// search selects the owners that unsignedOwners returns.
type search struct {
	// A batch is due for owners whose oldest waiting leaf was written no later than
	// before, or that have at least maxLeaves unanchored leaves.
	before    time.Time
	maxLeaves uint64
	except    []events.Owner
	limit     int
}

// unsignedOwners returns owners that need a signed transaction: their batch was cut and
// not submitted, or is due. The longest waiting come first. If first is true it returns
// only owners whose commit creates an account, else only the others. So it need not read
// many owners of one kind to find the other kind.
func (s *store) unsignedOwners(ctx context.Context, w search, first bool) ([]*owner, error) {
	from := `(SELECT * FROM ledger_anchor.owners WHERE first = $5 AND owner <> ALL($3) AND `
	due := from + `oldest IS NULL AND `
	return s.list(ctx, `SELECT owner, state, code FROM (
		`+from+`oldest IS NOT NULL AND NOT signed ORDER BY oldest LIMIT $4)
		UNION
		`+due+`waiting <= $1 ORDER BY waiting LIMIT $4)
		UNION
		`+due+`waiting IS NOT NULL AND unanchored >= $2 ORDER BY unanchored DESC LIMIT $4)
		) unsigned ORDER BY coalesce(oldest, waiting) LIMIT $4`,
		w.before, w.maxLeaves, texts(w.except), w.limit, first)
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
		(SELECT count(*) FROM ledger_anchor.owners WHERE oldest IS NULL AND waiting IS NOT NULL),
		(SELECT count(*) FROM ledger_anchor.owners WHERE oldest IS NOT NULL AND NOT signed),
		(SELECT count(*) FROM ledger_anchor.owners WHERE oldest IS NOT NULL AND signed),
		least((SELECT min(waiting) FROM ledger_anchor.owners WHERE oldest IS NULL AND waiting IS NOT NULL AND first),
		      (SELECT min(waiting) FROM ledger_anchor.owners WHERE oldest IS NULL AND waiting IS NOT NULL AND NOT first),
		      (SELECT min(oldest) FROM ledger_anchor.owners WHERE oldest IS NOT NULL))`).Scan(&c.Waiting, &c.Cut, &c.Submitted, &oldest)
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
	var key events.Owner
	var state, code []byte
	if err := row.Scan((*string)(&key), &state, &code); err != nil {
		return nil, err
	}
	if !hmac.Equal(code, s.key.code(key, state)) {
		return nil, fmt.Errorf("%w: that of %s", errAltered, key)
	}
	o, err := decode(key, state)
	if err != nil {
		return nil, fmt.Errorf("%w: that of %s: %w", errAltered, key, err)
	}
	return o, nil
}

// saved is an owner as its row keeps it. The key is a column of its own.
type saved struct {
	*owner
	Size     uint64
	Frontier []events.Hash // largest subtree first
}

func encode(o *owner) []byte {
	text, err := json.Marshal(saved{o, o.size(), o.frontier.Hashes()})
	if err != nil {
		panic(err) // every field has a form in JSON
	}
	return text
}

func decode(key events.Owner, state []byte) (*owner, error) {
	s := saved{owner: newOwner(key)}
	err := json.Unmarshal(state, &s)
	if err == nil {
		s.frontier, err = verify.TreeOf(s.Size, s.Frontier)
	}
	return s.owner, err
}

func texts(keys []events.Owner) []string {
	out := make([]string, len(keys)) // never nil: ALL of NULL is NULL
	for i, k := range keys {
		out[i] = string(k)
	}
	return out
}

// errAltered says that an anchorer with this authority and program did not write this row.
var errAltered = errors.New("a row of the anchorer's state was altered, or is of another authority or program")

// rowKey makes the codes (MACs) of the owners' rows. The owner's row decides what is
// signed for the owner. An attacker who can write to the database can write that row, and
// also the tree cache that it is compared with. A code needs the authority's key:
//
//	key  = HKDF-SHA256(the authority's seed, no salt, info "memory-ledger/anchorer-row/v3 " and the program), 32 bytes
//	code = HMAC-SHA256(key, owner, a zero byte, state)
//
// If an attacker restores an older row, its code is valid. That row holds the state of
// the log at an earlier time: its root is a true root, and the fold does not continue
// from it.
type rowKey [sha256.Size]byte

func newRowKey(authority solana.PrivateKey, program solana.PublicKey) rowKey {
	const seed = 32
	raw, err := hkdf.Key(sha256.New, authority[:seed], nil, "memory-ledger/anchorer-row/v3 "+program.String(), sha256.Size)
	if err != nil {
		panic(err) // only for more than 255 hashes of output
	}
	return rowKey(raw)
}

func (k rowKey) code(key events.Owner, state []byte) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte(key))
	mac.Write([]byte{0})
	mac.Write(state)
	return mac.Sum(nil)
}
