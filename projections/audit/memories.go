package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/partition"
	"github.com/memory-ledger/ledger/projections/internal/column"
)

// memoryRow is a row of the memories, as it should be or as it is.
type memoryRow struct {
	leafIndex   int64
	id          []byte // 16 bytes; of what is no id more
	leafHash    []byte
	metadata    []byte
	sealed      []byte
	created     int64 // microseconds since 1970
	idempotency []byte
	seq         int64
}

// of makes it the row that an event must have become.
func (m *memoryRow) of(e *events.Event, data *events.MemoryWritten, seq uint64) {
	*m = memoryRow{leafIndex: int64(data.LeafIndex), id: appendID(m.id[:0], data.MemoryID), leafHash: data.LeafHash[:], metadata: data.Metadata,
		sealed: data.Sealed, created: e.Time.Time().UnixMicro(), seq: int64(seq)}
	if data.IdempotencyKeyHash != nil {
		m.idempotency = data.IdempotencyKeyHash[:]
	}
}

// appendID appends the 16 bytes of an id's one spelling. A text that is none
// becomes longer than an id, so that no row has it.
func appendID(dst []byte, text string) []byte {
	if id, ok := column.ParseUUID(text); ok {
		return append(dst, id[:]...)
	}
	return append(append(dst, text...), make([]byte, 17)...)
}

func idText(id []byte) string {
	if len(id) != 16 {
		return strings.TrimRight(string(id), "\x00")
	}
	return column.UUIDText(column.UUID(id))
}

// rowsDigester makes one digest of all of an owner's rows.
type rowsDigester struct {
	digests *digester
	text    []byte // what the last one was made of
}

// after returns the digest of the rows that before is of, and one more. Every field
// goes in with its length, so that no two rows give the same bytes.
func (d *rowsDigester) after(before digest, m *memoryRow) digest {
	b := append(d.text[:0], before[:]...)
	for _, n := range [...]int64{m.leafIndex, m.created, m.seq} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = appendField(b, m.id)
	b = appendField(b, m.leafHash)
	b = appendField(b, m.metadata)
	b = appendField(b, m.sealed)
	if m.idempotency != nil {
		b = appendField(b, m.idempotency)
	}
	d.text = b
	return d.digests.of(b)
}

func appendField(b, v []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(v)))
	return append(b, v...)
}

// compare calls differ for every column that is not as it should be.
func (m *memoryRow) compare(is *memoryRow, differ func(column, want, got string)) {
	same := func(column, want, got string) {
		if want != got {
			differ(column, want, got)
		}
	}
	same("id", idText(m.id), idText(is.id))
	same("leaf_hash", hex.EncodeToString(m.leafHash), hex.EncodeToString(is.leafHash))
	same("metadata", string(m.metadata), string(is.metadata))
	same("sealed", hex.EncodeToString(m.sealed), hex.EncodeToString(is.sealed))
	same("created_at", micros(m.created), micros(is.created))
	same("idempotency_key_hash", optionalHex(m.idempotency), optionalHex(is.idempotency))
	same("seq", strconv.FormatInt(m.seq, 10), strconv.FormatInt(is.seq, 10))
}

func micros(n int64) string { return stamp(time.UnixMicro(n)) }

func optionalHex(b []byte) string {
	if b == nil {
		return "NULL"
	}
	return hex.EncodeToString(b)
}

const memoryColumns = `leaf_index, id, leaf_hash, metadata, sealed, created_at, idempotency_key_hash, seq`

func scanMemory(rows pgx.Rows) (*memoryRow, error) {
	var (
		m       memoryRow
		id      [16]byte
		created time.Time
	)
	err := rows.Scan(&m.leafIndex, &id, &m.leafHash, &m.metadata, &m.sealed, &created, &m.idempotency, &m.seq)
	m.id, m.created = id[:], created.UnixMicro()
	return &m, err
}

// leafWalk goes through memories, tiles and pages, owner by owner, side by side.
// It knows nothing of the log, so that both can be read at the same time: what
// it keeps is a digest of each owner's rows, and whose tiles or pages are not those
// of the rows.
type leafWalk struct {
	owner events.Owner // whose rows are being read; empty at the beginning
	sum   digest       // of them, so far
	tree  tiler
	whole bool // every row so far has a leaf hash
	tiles *tileRows
	pages *pager

	digests rowsDigester
	rows    map[events.Owner]digest
	suspect map[events.Owner]bool
	count   int // memories
}

// walkLeaves reads every row of memories, tiles and pages once, in the order of
// the tree.
func (a *auditor) walkLeaves(ctx context.Context, db *snapshot) (*leafWalk, error) {
	where, args := a.onlyOwner()
	tiles, err := openTiles(ctx, db.second, where, args)
	if err != nil {
		return nil, err
	}
	defer tiles.close()
	pages, err := openBodyPages(ctx, db.third, where, args)
	if err != nil {
		return nil, err
	}
	defer pages.close()
	w := &leafWalk{tiles: tiles, digests: rowsDigester{digests: a.digests.again()}, rows: map[events.Owner]digest{}, suspect: map[events.Owner]bool{}}
	w.pages = &pager{rows: pages, differ: func(owner events.Owner, _ int64, _, _ string) { w.suspect[owner] = true }}
	if err := copyMemories(ctx, db.first, a.cfg.Owner, w.memory); err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	if err := w.next(""); err != nil {
		return nil, err
	}
	if err := tiles.rest(func(t *tileRow) { w.suspect[t.owner] = true }); err != nil {
		return nil, err
	}
	return w, w.pages.end()
}

// memory takes the next row, which is worth nothing afterwards.
func (w *leafWalk) memory(name []byte, m *memoryRow) error {
	w.count++
	if w.owner != events.Owner(name) {
		if err := w.next(events.Owner(name)); err != nil {
			return err
		}
	}
	w.sum = w.digests.after(w.sum, m)
	if w.whole = w.whole && w.tree.leaf(m.leafHash); !w.whole {
		w.suspect[w.owner] = true // a hash of another length; the rows can't add up
	}
	return w.pages.leaf(m)
}

// next ends an owner and begins another.
func (w *leafWalk) next(name events.Owner) error {
	if w.owner != "" {
		w.rows[w.owner] = w.sum
		var want []wantTile
		if w.whole {
			want = w.tree.done()
		}
		err := w.tiles.compare(w.owner, want, func(_, is *tileRow) {
			if is != nil {
				w.suspect[is.owner] = true
			} else {
				w.suspect[w.owner] = true
			}
		})
		if err != nil {
			return err
		}
	}
	w.owner, w.sum, w.whole = name, digest{}, true
	w.tree.reset()
	w.pages.begin(name)
	return nil
}

// compareLeaves holds what the walk found against the log, and looks closer at
// the owners whose rows do not add up.
func (a *auditor) compareLeaves(ctx context.Context, db *snapshot, w *leafWalk) error {
	rows := a.report.summary.Rows
	rows["memories"], rows["tiles"], rows["body_pages"] = w.count, w.tiles.count, w.pages.rows.count
	for name, sum := range w.rows {
		if o := a.fold.owners[name]; o == nil || o.rows != sum {
			w.suspect[name] = true
		}
	}
	for name, o := range a.fold.owners {
		if _, seen := w.rows[name]; !seen && o.leaves() > 0 {
			w.suspect[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.suspect)) {
		if err := a.lookCloser(ctx, db, name); err != nil {
			return err
		}
	}
	return nil
}

func (a *auditor) onlyOwner() (where string, args []any) {
	if a.cfg.Owner == "" {
		return "", nil
	}
	return ` WHERE owner = $1`, []any{string(a.cfg.Owner)}
}

// pageRows is how many rows of an owner are read at a time.
const pageRows = 500

// lookCloser compares an owner's leaves, tiles and pages one by one with the
// log.
func (a *auditor) lookCloser(ctx context.Context, db *snapshot, name events.Owner) error {
	pages, err := a.openOwnersPages(ctx, db, name)
	if err != nil {
		return err
	}
	defer pages.rows.close()
	var expected tiler
	var (
		page map[int64]*memoryRow
		next int64
		end  int64 = -1 // exclusive, of the page
	)
	wrong := func(index int64, column, detail string) {
		f := Finding{Check: CheckReadRow, Owner: name, Table: "memories", Row: fmt.Sprint(index), Column: column, Detail: detail}
		if index >= 0 {
			f.LeafIndex = at(uint64(index))
		}
		a.report.add(f)
	}
	err = a.leavesOf(ctx, name, a.at.At(partition.Of(name)), func(seq uint64, e *events.Event, data *events.MemoryWritten) error {
		want := new(memoryRow)
		want.of(e, data, seq)
		if want.leafIndex >= end || want.leafIndex < end-pageRows {
			var err error
			end = want.leafIndex + pageRows
			if page, err = readPage(ctx, db.first, name, want.leafIndex, end); err != nil {
				return err
			}
		}
		next = max(next, want.leafIndex+1)
		expected.leaf(want.leafHash)
		if err := pages.leaf(want); err != nil {
			return err
		}
		is := page[want.leafIndex]
		if is == nil {
			wrong(want.leafIndex, "", "the row is missing")
			return nil
		}
		want.compare(is, func(column, w, g string) { wrong(want.leafIndex, column, differs(w, g)) })
		return nil
	})
	if err != nil {
		return err
	}
	extra, err := db.first.Query(ctx, `SELECT leaf_index FROM memories WHERE owner = $1 AND (leaf_index < 0 OR leaf_index >= $2) ORDER BY leaf_index`, string(name), next)
	if err != nil {
		return err
	}
	var index int64
	if _, err := pgx.ForEachRow(extra, []any{&index}, func() error {
		wrong(index, "", "the row has no event in the log")
		return nil
	}); err != nil {
		return err
	}
	if err := pages.end(); err != nil {
		return err
	}
	return a.compareTiles(ctx, db, name, expected.done())
}

func readPage(ctx context.Context, conn *pgx.Conn, name events.Owner, from, to int64) (map[int64]*memoryRow, error) {
	rows, err := conn.Query(ctx, `SELECT `+memoryColumns+` FROM memories WHERE owner = $1 AND leaf_index >= $2 AND leaf_index < $3`, string(name), from, to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	page := map[int64]*memoryRow{}
	for rows.Next() {
		m, err := scanMemory(rows)
		if err != nil {
			return nil, err
		}
		page[m.leafIndex] = m
	}
	return page, rows.Err()
}

// differs says what a column should hold and what it holds.
func differs(want, got string) string {
	return "should be " + shorten(want) + ", is " + shorten(got)
}

func shorten(s string) string {
	const longest = 200
	if len(s) > longest {
		sum := sha256.Sum256([]byte(s))
		return fmt.Sprintf("%q… (%d characters, SHA-256 %x)", s[:longest/4], len(s), sum[:8])
	}
	return strconv.Quote(s)
}
