package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/tree"
)

// table is a read model whose rows change, and its expected rows.
type table struct {
	name    string
	key     []string          // the columns that identify a row
	columns []string          // all other columns, without the owner
	exprs   map[string]string // expressions to select instead of long columns
	want    map[string]wantRow

	check   Check                      // CheckReadRow if empty
	tooMany string                     // finding text for an extra row
	wrong   map[string]string          // finding text for columns whose values mean nothing to people
	leaf    func(key []string) *uint64 // returns a row's first leaf; nil if rows have no leaves
}

// wantRow returns an expected row: its owner, and its values in the order of the
// columns.
type wantRow func() (*owner, []any)

// rowOf returns a row that no later event changes.
func rowOf(o *owner, values ...any) wantRow { return func() (*owner, []any) { return o, values } }

const null = "\x00NULL"

// compareReadModels compares every table of the snapshot with the fold, except the
// memories: replay compared them while it read the log.
func (a *auditor) compareReadModels(ctx context.Context, db *snapshot) error {
	a.report.summary.Rows = map[string]int{"memories": a.fold.memories.count}
	for _, t := range a.fold.tables() {
		if err := a.compareTable(ctx, db.conn, t); err != nil {
			return fmt.Errorf("compare %s: %w", t.name, err)
		}
	}
	a.compareCheckpoint(db)
	return nil
}

func (a *auditor) onlyOwner() (where string, args []any) {
	if a.cfg.Owner == "" {
		return "", nil
	}
	return ` WHERE owner = $1`, []any{string(a.cfg.Owner)}
}

func (a *auditor) compareTable(ctx context.Context, conn *pgx.Conn, t *table) error {
	selected := slices.Concat([]string{"owner"}, t.key, t.columns)
	for i, column := range selected {
		if expr := t.exprs[column]; expr != "" {
			selected[i] = expr
		}
	}
	where, args := a.onlyOwner()
	args = append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)
	rows, err := conn.Query(ctx, `SELECT `+strings.Join(selected, ", ")+` FROM `+t.name+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	a.report.summary.Rows[t.name] = 0
	for rows.Next() {
		a.report.summary.Rows[t.name]++
		a.compareRow(t, texts(rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for key, want := range t.want {
		o, _ := want()
		f := t.finding(o.name, strings.Split(key, "\x00"))
		f.Detail = "the row is missing"
		a.report.add(f)
	}
	return nil
}

func (t *table) finding(owner events.Owner, key []string) Finding {
	f := Finding{Check: cmp.Or(t.check, CheckReadRow), Owner: owner, Table: t.name, Row: t.label(key)}
	if t.leaf != nil {
		f.LeafIndex = t.leaf(key)
	}
	return f
}

func texts(raw [][]byte) []string {
	values := make([]string, len(raw))
	for i, v := range raw {
		if values[i] = string(v); v == nil {
			values[i] = null
		}
	}
	return values
}

// compareRow compares one row with the expected row, and removes that row from t.want.
func (a *auditor) compareRow(t *table, got []string) {
	ownerText, key, rest := got[0], got[1:1+len(t.key)], got[1+len(t.key):]
	f := t.finding(events.Owner(ownerText), key)
	want := t.want[rowKey(key...)]
	if want == nil {
		f.Detail = cmp.Or(t.tooMany, "the row has no event in the log")
		a.report.add(f)
		return
	}
	delete(t.want, rowKey(key...))
	o, values := want()
	f.Owner = o.name
	differ := func(column, w, g string) {
		if w == g {
			return
		}
		f.Column, f.Detail = column, cmp.Or(t.wrong[column], differs(w, g))
		a.report.add(f)
	}
	differ("owner", string(o.name), ownerText)
	for i, w := range values {
		differ(t.columns[i], text(w), rest[i])
	}
}

func (t *table) label(key []string) string {
	parts := make([]string, len(key))
	for i := range key {
		parts[i] = t.key[i] + "=" + key[i]
	}
	return strings.Join(parts, " ")
}

func (a *auditor) compareCheckpoint(db *snapshot) {
	at, f := db.at, a.fold
	if a.cfg.Owner != "" || at.Seq != f.last {
		return // align has reported a checkpoint beyond the log
	}
	a.report.summary.Rows["checkpoint"]++
	want, got := stamp(f.stored.Truncate(time.Microsecond)), null
	if !at.Stored.IsZero() {
		got = stamp(at.Stored)
	}
	if at.Seq > 0 && want != got {
		a.report.add(Finding{Check: CheckReadRow, Seq: at.Seq, Table: "checkpoint", Column: "stored_at", Detail: differs(want, got)})
	}
}

// stamp returns a time as PostgreSQL writes it. An imported memory may be from the year 0,
// which PostgreSQL calls 1 BC.
func stamp(t time.Time) string {
	const afterYear = "-01-02 15:04:05.999999-07"
	if t = t.UTC(); t.Year() == 0 {
		return "0001" + t.Format(afterYear) + " BC"
	}
	return t.Format("2006" + afterYear)
}

// text returns a value as PostgreSQL writes it, or null for a nil pointer or slice.
func text(v any) string {
	switch v := v.(type) {
	case time.Time:
		return stamp(v)
	case events.Hash:
		return fmt.Sprintf(`\x%x`, v[:])
	case []byte:
		if v == nil {
			return null
		}
		return fmt.Sprintf(`\x%x`, v)
	}
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer {
		if p.IsNil() {
			return null
		}
		return text(p.Elem().Interface())
	}
	return fmt.Sprint(v)
}

func rowKey(parts ...string) string { return strings.Join(parts, "\x00") }

// wanted makes the expected rows of a table from a map of the fold.
func wanted[T any](from map[string]T, row func(T) (*owner, []any)) map[string]wantRow {
	rows := make(map[string]wantRow, len(from))
	for key, v := range from {
		rows[key] = func() (*owner, []any) { return row(v) }
	}
	return rows
}

// tables returns every read model except the memories and the checkpoint.
func (f *fold) tables() []*table {
	owners := make(map[string]*owner, len(f.owners))
	for name, o := range f.owners {
		owners[string(name)] = o
	}
	return []*table{
		{name: "owners", key: []string{"owner"}, columns: []string{"user_id", "others", "last_seq", "chain_version", "chain_last_seq"},
			want: wanted(owners, func(o *owner) (*owner, []any) {
				return o, []any{o.userID, int64(o.messages) - int64(len(o.leaves)), o.named, o.chainVersion, o.chainLastSeq}
			})},
		{name: "sessions", key: []string{"id"}, columns: []string{"audience", "token_hash", "issued_at", "expires_at", "revoked_at", "seq"},
			want: wanted(f.sessions, func(s *session) (*owner, []any) {
				return s.owner, []any{s.audience, s.tokenHash, s.issued, s.expires, s.revoked, s.seq}
			})},
		{name: "corrections", key: []string{"owner", "leaf_index", "by_leaf"}, columns: []string{"position"}, want: maps.Clone(f.corrections)},
		{name: "retractions", key: []string{"owner", "leaf_index", "forgotten"}, columns: []string{"seq"}, want: maps.Clone(f.retractions)},
		{name: "erasures", key: []string{"owner", "seq"}, columns: []string{"leaves"}, want: maps.Clone(f.erasures)},
		{name: "imports", key: []string{"owner", "seq"}, columns: []string{"root", "size", "ended_at"},
			want: wanted(f.imports, func(i *imported) (*owner, []any) { return i.owner, []any{i.root, i.size, i.ended} })},
		{name: "api_keys", key: []string{"id"}, columns: []string{"hash", "prefix", "label", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at", "seq", "created_by", "namespaces", "app"},
			want: wanted(f.keys, func(k *apiKey) (*owner, []any) {
				return k.owner, []any{k.hash, k.prefix, []byte(k.label), k.scopes, k.created, k.expires, k.used, k.revoked, k.seq, column.ViaArg(k.createdBy), k.namespaces, k.app}
			})},
		{name: "grants", key: []string{"id"}, columns: []string{"kind", "token_hash", "minted_at", "expires_at", "max_uses", "used", "revoked_at", "seq", "minted_by", "namespace"},
			want: wanted(f.grants, func(g *grant) (*owner, []any) {
				return g.owner, []any{g.kind, g.tokenHash, g.minted, g.expires, g.maxUses, g.used, g.revoked, g.seq, column.ViaArg(g.by), g.namespace}
			})},
		{name: "batches", key: []string{"id"}, columns: []string{"size", "root", "state", "signature", "slot", "cluster", "program_id", "account", "confirmed_at"},
			want: wanted(f.batches, func(b *batch) (*owner, []any) {
				return b.owner, []any{b.size, b.root, b.state, b.signature, b.slot, b.cluster, b.program, b.account, b.confirmed}
			})},
		{name: "stake_movements", key: []string{"signature", "vault", "direction", "ordinal"}, columns: []string{"amount", "slot", "block_time", "seq", "position"},
			want: wanted(f.movements, func(m *movement) (*owner, []any) {
				return m.owner, []any{m.amount, m.slot, m.at, m.seq, m.position}
			})},
		{name: "tiles", key: []string{"owner", "level", "tile_index"}, columns: []string{"root", "hashes"}, want: f.tiles(),
			exprs: map[string]string{"hashes": "sha256(hashes)"}, wrong: map[string]string{"hashes": "the hashes are not those of the log"},
			check: CheckTile, tooMany: "the log has no such full tile", leaf: func(key []string) *uint64 {
				if key[1] != "0" {
					return nil
				}
				return leafAt(key[2])
			}},
	}
}

// leafAt returns the first leaf of a tile, or nil if number is not valid.
func leafAt(number string) *uint64 {
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return nil
	}
	return new(n * tree.TileWidth)
}

// differs describes a column's expected value and its actual value.
func differs(want, got string) string {
	return "should be " + shorten(want) + ", is " + shorten(got)
}

func shorten(s string) string {
	s = strings.TrimPrefix(s, "\x00") // of NULL
	const longest = 200
	if len(s) > longest {
		sum := sha256.Sum256([]byte(s))
		return fmt.Sprintf("%q… (%d characters, SHA-256 %x)", s[:longest/4], len(s), sum[:8])
	}
	return strconv.Quote(s)
}

// memoryNames are the columns of the memories table. The rows are read in the order of the
// first three.
var memoryNames = []string{"seq", "leaf_index", "owner", "id", "leaf_hash", "metadata", "sealed", "created_at", "idempotency_key_hash",
	"via", "salt", "sealing", "imported_id", "imported_at", "imported_via"}

// memoryRow is a row of the memories table, as PostgreSQL writes it.
type memoryRow []string

func (m memoryRow) seq() int64  { return number(m[0]) }
func (m memoryRow) leaf() int64 { return number(m[1]) }

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // PostgreSQL writes it; a larger number is the largest
	return n
}

// order compares two rows by their places in the log.
func (m memoryRow) order(o memoryRow) int {
	return cmp.Or(cmp.Compare(m.seq(), o.seq()), cmp.Compare(m.leaf(), o.leaf()), cmp.Compare(m[2], o[2]))
}

// memoryOf returns the row that a projector must make of an event.
func memoryOf(e *events.Event, data *events.MemoryWritten, seq uint64) memoryRow {
	var importedID, importedVia *string
	var importedAt *time.Time
	if before := data.Imported; before != nil {
		importedAt, importedVia = column.TimeArg(&before.CreatedAt), column.ViaArg(before.Via)
		if _, ok := column.ParseUUID(before.ID); ok {
			importedID = &before.ID
		}
	}
	values := []any{seq, data.LeafIndex, e.Owner, data.MemoryID, data.LeafHash, string(data.Metadata), column.Bytes(data.Sealed), e.Time.Time(),
		data.IdempotencyKeyHash, column.ViaArg(data.Via), string(data.Salt), data.Sealing, importedID, importedAt, importedVia}
	row := make(memoryRow, len(values))
	for i, v := range values {
		row[i] = text(v)
	}
	return row
}

// memoryRows compares the memories table with the log while the log is read: it reads
// the rows in log order, one row ahead. PostgreSQL sorts the rows; a projector wrote
// them in nearly that order.
type memoryRows struct {
	report *report
	rows   pgx.Rows
	ahead  memoryRow // nil at the end
	count  int
}

func openMemories(ctx context.Context, conn *pgx.Conn, r *report, where string, args []any) (*memoryRows, error) {
	rows, err := conn.Query(ctx, `SELECT `+strings.Join(memoryNames, ", ")+` FROM memories`+where+` ORDER BY seq, leaf_index, owner`, append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("read memories: %w", err)
	}
	m := &memoryRows{report: r, rows: rows}
	return m, m.next()
}

func (r *memoryRows) next() error {
	r.ahead = nil
	if r.rows.Next() {
		r.ahead = texts(r.rows.RawValues())
		r.count++
	}
	if err := r.rows.Err(); err != nil {
		return fmt.Errorf("read memories: %w", err)
	}
	return nil
}

func (r *memoryRows) compare(want memoryRow) error {
	if err := r.skip(want); err != nil {
		return err
	}
	if r.ahead == nil || r.ahead.order(want) > 0 {
		r.wrong(want, "", "the row is missing")
		return nil
	}
	for i, w := range want {
		if is := r.ahead[i]; is != w {
			r.wrong(want, memoryNames[i], differs(w, is))
		}
	}
	return r.next()
}

// skip reports the rows before want as having no event; if want is nil, it reports all
// remaining rows.
func (r *memoryRows) skip(want memoryRow) error {
	for r.ahead != nil && (want == nil || r.ahead.order(want) < 0) {
		r.wrong(r.ahead, "", "the row has no event in the log")
		if err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

func (r *memoryRows) wrong(m memoryRow, column, detail string) {
	f := Finding{Check: CheckReadRow, Owner: events.Owner(m[2]), Table: "memories", Row: m[1], Column: column, Detail: detail}
	if index := m.leaf(); index >= 0 {
		f.LeafIndex = new(uint64(index))
	}
	r.report.add(f)
}
