package anchorer

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/partition"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

// tablesVersion is raised when the tables change: older ones are dropped and
// filled again from the log.
const tablesVersion = 6

// errFenced says that somebody else moved the checkpoint.
var errFenced = errors.New("another anchorer moved the checkpoint")

// store keeps the folded owners of some partitions, in a schema that it shares
// with the stores of the others, with the sequence up to which the log is folded.
// Everything in it can be dropped at any time and comes back from the log. A
// slice's owners and the checkpoint are written in one transaction, so a crash
// leaves the state of the last whole slice.
type store struct {
	pool       *pgxpool.Pool
	partitions partition.Run
	key        rowKey                        // of the rows' codes
	marks      marks                         // the checkpoints, as they are saved
	around     func(save func() error) error // nil but in tests
}

const createTables = `
DROP SCHEMA IF EXISTS ledger_anchor CASCADE;
CREATE SCHEMA ledger_anchor;
CREATE TABLE ledger_anchor.about (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL
);
-- Up to which sequence runs of partitions are folded. Together they cover all.
CREATE TABLE ledger_anchor.checkpoints (
    first   integer PRIMARY KEY,
    last    integer NOT NULL CHECK (last >= first),
    seq     bigint  NOT NULL,
    -- When the log stored the message at seq; null where seq is 0.
    stored  timestamptz,
    -- Genesis hash of the chain that their newest confirmed batch is on.
    cluster text    NOT NULL DEFAULT ''
);
CREATE TABLE ledger_anchor.owners (
    owner          text COLLATE "C" PRIMARY KEY,
    partition      integer NOT NULL,
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
`

// isCurrent reports whether the tables are there, as this build makes them.
func isCurrent(ctx context.Context, q schema.Querier) (bool, error) {
	var exists bool
	version := 0
	err := q.QueryRow(ctx, `SELECT to_regclass('ledger_anchor.about') IS NOT NULL`).Scan(&exists)
	if err == nil && exists {
		err = q.QueryRow(ctx, `SELECT version FROM ledger_anchor.about`).Scan(&version)
	}
	if err != nil {
		return false, fmt.Errorf("look at the anchorer's tables: %w", err)
	}
	return version == tablesVersion, nil
}

// makeTables makes the tables anew, empty. The caller holds lockKey alone.
func makeTables(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, createTables); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO ledger_anchor.about (version) VALUES ($1)`, tablesVersion); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO ledger_anchor.checkpoints (first, last, seq) VALUES (0, $1, 0)`, partition.Count-1)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the anchorer's tables: %w", err)
	}
	return nil
}

// openStore returns the store of some partitions, whose locks the caller holds.
// It cuts the checkpoints where these begin and end, so that each belongs to
// one anchorer; a crash leaves them cut, which changes nothing that they say.
func openStore(ctx context.Context, pool *pgxpool.Pool, p partition.Run, key rowKey, around func(func() error) error) (*store, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	s := &store{pool: pool, partitions: p, key: key, around: around}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE ledger_anchor.checkpoints IN SHARE ROW EXCLUSIVE MODE`); err != nil {
			return err
		}
		for _, at := range []int{p.First, p.End} {
			for _, sql := range []string{
				`INSERT INTO ledger_anchor.checkpoints SELECT $1, last, seq, stored, cluster FROM ledger_anchor.checkpoints WHERE first < $1 AND last >= $1`,
				`UPDATE ledger_anchor.checkpoints SET last = $1 - 1 WHERE first < $1 AND last >= $1`,
			} {
				if _, err := tx.Exec(ctx, sql, at); err != nil {
					return err
				}
			}
		}
		rows, err := tx.Query(ctx, `SELECT first, last + 1, seq, coalesce(stored, 'epoch') FROM ledger_anchor.checkpoints WHERE first >= $1 AND last < $2 ORDER BY first`, p.First, p.End)
		if err != nil {
			return err
		}
		s.marks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m mark, err error) {
			return m, row.Scan(&m.First, &m.End, &m.seq, &m.stored)
		})
		return err
	})
	if err == nil && (len(s.marks) == 0 || s.marks[0].First != p.First || s.marks[len(s.marks)-1].End != p.End) {
		err = fmt.Errorf("the checkpoints do not cover partitions %s", p)
	}
	if err != nil {
		return nil, fmt.Errorf("read the anchorer's checkpoints: %w", err)
	}
	return s, nil
}

// renew makes the state of these partitions anew: empty, as at a first start.
// It asks the connection that holds their locks, so only who has them can. A
// crash before the commit leaves the old state, which the next session finds
// out about again. What was spent stays counted, and is counted again where the
// log still has it: until the day ends, that errs on the careful side.
func (s *store) renew(ctx context.Context, lock *pgx.Conn) error {
	fresh := marks{{Run: s.partitions}}
	err := pgx.BeginFunc(ctx, lock, func(tx pgx.Tx) error {
		if err := move(ctx, tx, s.marks, fresh); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE ledger_anchor.checkpoints SET stored = NULL, cluster = '' WHERE first = $1`, s.partitions.First); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM ledger_anchor.owners WHERE partition >= $1 AND partition < $2`, s.partitions.First, s.partitions.End)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the anchorer's state anew: %w", err)
	}
	s.marks = fresh
	return nil
}

// cluster returns the chain that the confirmed batches of these partitions are
// on, where they have none that of others, empty if there is none at all.
func (s *store) cluster(ctx context.Context) (genesis string, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT coalesce((SELECT cluster FROM ledger_anchor.checkpoints WHERE cluster <> ''
		ORDER BY first >= $1 AND last < $2 DESC, first LIMIT 1), '')`, s.partitions.First, s.partitions.End).Scan(&genesis)
	if err != nil {
		return "", fmt.Errorf("read which chain is anchored to: %w", err)
	}
	return genesis, nil
}

// folded is what a slice of the log changed.
type folded struct {
	to      uint64    // the slice's last sequence
	stored  time.Time // when the log stored that message
	cluster string    // of the newest confirmation in the slice, empty if none
	owners  []*owner
	spent   map[string]uint64 // lamports by day
}

// save writes a slice. It fails with errFenced where the checkpoints are not
// where this anchorer left them.
func (s *store) save(ctx context.Context, f folded) error {
	if s.around != nil {
		return s.around(func() error { return s.commit(ctx, f) })
	}
	return s.commit(ctx, f)
}

func (s *store) commit(ctx context.Context, f folded) error {
	moved := s.marks.moved(f.to, f.stored)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := move(ctx, tx, s.marks, moved); err != nil {
			return err
		}
		if f.cluster != "" {
			if _, err := tx.Exec(ctx, `UPDATE ledger_anchor.checkpoints SET cluster = $1 WHERE first >= $2 AND last < $3 AND cluster <> $1`,
				f.cluster, s.partitions.First, s.partitions.End); err != nil {
				return err
			}
		}
		for day, lamports := range f.spent {
			if _, err := tx.Exec(ctx, `INSERT INTO ledger_anchor.spending AS s (day, lamports) VALUES ($1::text::date, $2)
				ON CONFLICT (day) DO UPDATE SET lamports = s.lamports + excluded.lamports`, day, lamports); err != nil {
				return err
			}
		}
		return s.upsert(ctx, tx, f.owners)
	})
	if err != nil {
		return fmt.Errorf("save up to sequence %d: %w", f.to, err)
	}
	s.marks = moved
	return nil
}

// move writes the checkpoints. It fails with errFenced where they are not what
// this anchorer left.
func move(ctx context.Context, tx pgx.Tx, from, to marks) error {
	for i, m := range from {
		next := to[0]
		if len(to) == len(from) {
			next = to[i]
		}
		tag, err := tx.Exec(ctx, `UPDATE ledger_anchor.checkpoints SET seq = $4, stored = $5 WHERE first = $1 AND last = $2 AND seq = $3`,
			m.First, m.End-1, m.seq, next.seq, next.stored)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errFenced
		}
	}
	if len(to) == len(from) {
		return nil
	}
	one := to[0] // all of them, joined
	for _, sql := range []string{
		`UPDATE ledger_anchor.checkpoints SET cluster = (SELECT max(cluster) FROM ledger_anchor.checkpoints WHERE first >= $1 AND last < $2) WHERE first = $1`,
		`DELETE FROM ledger_anchor.checkpoints WHERE first > $1 AND last < $2`,
		`UPDATE ledger_anchor.checkpoints SET last = $2 - 1 WHERE first = $1`,
	} {
		if _, err := tx.Exec(ctx, sql, one.First, one.End); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) upsert(ctx context.Context, tx pgx.Tx, owners []*owner) error {
	if len(owners) == 0 {
		return nil
	}
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
		partitions                     = make([]int, n)
	)
	for i, o := range owners {
		key[i], size[i], chainSeq[i], chainVersion[i] = string(o.key), o.size(), o.chainSeq, o.chainVersion
		partitions[i] = partition.Of(o.key)
		frontier[i], origins[i] = pack(o.frontier.Hashes()), encodeOrigins(o.origins)
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
	_, err := tx.Exec(ctx, `INSERT INTO ledger_anchor.owners (`+columns+`, partition)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::integer[], $6::bigint[], $7::bytea[], $8::timestamptz[],
			$9::text[], $10::bigint[], $11::bigint[], $12::bytea[], $13::timestamptz[], $14::text[], $15::text[], $16::bigint[], $17::bytea[],
			$18::text[], $19::text[], $20::bytea[], $21::integer[])
		ON CONFLICT (owner) DO UPDATE SET (`+columns+`) = (`+excluded+`)`,
		key, size, frontier, chainSeq, chainVersion, confirmedSize, confirmedRoot, waiting,
		batchID, batchFrom, batchSize, root, oldest, signature, blockhash, lastGood, transaction, origins, batchTrace, code, partitions)
	return err
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
)

// load returns the owners that have a row.
func (s *store) load(ctx context.Context, keys []events.Owner) ([]*owner, error) {
	return s.list(ctx, `SELECT `+columns+` FROM ledger_anchor.owners WHERE owner = ANY($1)`, texts(keys))
}

// recordedOwners returns owners whose open batch has a signed transaction, the
// oldest first.
func (s *store) recordedOwners(ctx context.Context, except []events.Owner, limit int) ([]*owner, error) {
	return s.list(ctx, `SELECT `+columns+` FROM ledger_anchor.owners WHERE batch_id IS NOT NULL AND signature IS NOT NULL AND owner <> ALL($1)
		AND partition >= $3 AND partition < $4 ORDER BY batch_oldest LIMIT $2`, texts(except), limit, s.partitions.First, s.partitions.End)
}

// search is which owners unsignedOwners returns.
type search struct {
	before    time.Time // due is whose oldest leaf was written before,
	maxLeaves uint64    // or who has so many that wait
	except    []events.Owner
	behind    []int          // partitions of which nobody is returned
	again     []events.Owner // but these
	limit     int
}

// unsignedOwners returns owners for whom a transaction is to be signed: whose
// batch was cut and no more, and for whom one is to be cut. Those that wait
// longest come first. They are all owners whose first commit this is, or all
// others: the many of one kind are not read to find the other.
func (s *store) unsignedOwners(ctx context.Context, w search, first bool) ([]*owner, error) {
	kind := `confirmed_size > 0`
	if first {
		kind = `confirmed_size = 0`
	}
	from := `(SELECT ` + columns + ` FROM ledger_anchor.owners WHERE ` + kind + ` AND owner <> ALL($3) AND partition >= $5 AND partition < $6
		AND (partition <> ALL($7) OR owner = ANY($8)) AND `
	due := from + `batch_id IS NULL AND `
	return s.list(ctx, `SELECT * FROM (
		`+from+`batch_id IS NOT NULL AND signature IS NULL ORDER BY batch_oldest LIMIT $4)
		UNION
		`+due+`waiting <= $1 ORDER BY waiting LIMIT $4)
		UNION
		`+due+`waiting IS NOT NULL AND size - confirmed_size >= $2 ORDER BY size - confirmed_size DESC LIMIT $4)
		) unsigned ORDER BY coalesce(batch_oldest, waiting) LIMIT $4`,
		w.before, w.maxLeaves, texts(w.except), w.limit, s.partitions.First, s.partitions.End, w.behind, texts(w.again))
}

// spentOn returns the lamports that the transactions of a day may cost.
func (s *store) spentOn(ctx context.Context, day string) (uint64, error) {
	var lamports uint64
	err := s.pool.QueryRow(ctx, `SELECT coalesce((SELECT lamports FROM ledger_anchor.spending WHERE day = $1::text::date), 0)`, day).Scan(&lamports)
	if err != nil {
		return 0, fmt.Errorf("read what was spent: %w", err)
	}
	return lamports, nil
}

// counts is what waits.
type counts struct {
	Waiting, Cut, Submitted int
	Oldest                  time.Time // oldest leaf that is not anchored; zero if all are
}

func (s *store) count(ctx context.Context) (counts, error) {
	var c counts
	var oldest *time.Time
	const mine = ` AND partition >= $1 AND partition < $2`
	err := s.pool.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM ledger_anchor.owners WHERE batch_id IS NULL AND waiting IS NOT NULL`+mine+`),
		(SELECT count(*) FROM ledger_anchor.owners WHERE batch_id IS NOT NULL AND signature IS NULL`+mine+`),
		(SELECT count(*) FROM ledger_anchor.owners WHERE batch_id IS NOT NULL AND signature IS NOT NULL`+mine+`),
		least((SELECT min(waiting) FROM ledger_anchor.owners WHERE batch_id IS NULL AND waiting IS NOT NULL AND confirmed_size = 0`+mine+`),
		      (SELECT min(waiting) FROM ledger_anchor.owners WHERE batch_id IS NULL AND waiting IS NOT NULL AND confirmed_size > 0`+mine+`),
		      (SELECT min(batch_oldest) FROM ledger_anchor.owners WHERE batch_id IS NOT NULL`+mine+`))`, s.partitions.First, s.partitions.End).
		Scan(&c.Waiting, &c.Cut, &c.Submitted, &oldest)
	if err != nil {
		return counts{}, fmt.Errorf("count what waits: %w", err)
	}
	if oldest != nil {
		c.Oldest = *oldest
	}
	return c, nil
}

func (s *store) list(ctx context.Context, sql string, args ...any) ([]*owner, error) {
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

// scan reads a row, and fails with errAltered where it is not one that was written.
func (s *store) scan(row pgx.CollectableRow) (*owner, error) {
	o, code, err := scanOwner(row)
	if err != nil { // a value that is never written, as a size below zero
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
	if o.frontier, err = tree.NewFrontier(size, unpack(frontier)); err != nil {
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

func pack(hashes []events.Hash) []byte {
	out := make([]byte, 0, len(hashes)*events.HashSize)
	for i := range hashes {
		out = append(out, hashes[i][:]...)
	}
	return out
}

func unpack(packed []byte) []events.Hash {
	hashes := make([]events.Hash, len(packed)/events.HashSize)
	for i := range hashes {
		copy(hashes[i][:], packed[i*events.HashSize:])
	}
	return hashes
}
