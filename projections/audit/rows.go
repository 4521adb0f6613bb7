package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
)

// table is a read model whose rows change, and what they should be: values as
// PostgreSQL writes them, null for NULL.
type table struct {
	name    string
	key     []string // the columns that name a row
	columns []string // all others but the owner
	exprs   map[string]string
	want    map[string]*wantRow
}

type wantRow struct {
	owner  *owner
	values func() []string // in the order of columns
}

const null = "\x00NULL"

// compareReadModels compares every table of the snapshot with the fold; those of
// the leaves were walked through meanwhile.
func (a *auditor) compareReadModels(ctx context.Context, db *snapshot, walk *leafWalk) error {
	a.report.summary.Rows = map[string]int{}
	f := a.fold
	for _, t := range []*table{f.ownerTable(), f.sessionTable(), f.keyTable(), f.grantTable(), f.batchTable(), f.attemptTable(), f.stakeTable()} {
		if err := a.compareTable(ctx, db.first, t); err != nil {
			return fmt.Errorf("compare %s: %w", t.name, err)
		}
	}
	a.compareCheckpoint(db)
	return a.compareLeaves(ctx, db, walk)
}

func (a *auditor) compareTable(ctx context.Context, conn *pgx.Conn, t *table) error {
	selected := make([]string, 0, 1+len(t.key)+len(t.columns))
	for _, column := range append(append([]string{"owner"}, t.key...), t.columns...) {
		if expr := t.exprs[column]; expr != "" {
			column = expr
		}
		selected = append(selected, column)
	}
	where, args := a.onlyOwner()
	args = append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)
	rows, err := conn.Query(ctx, `SELECT `+strings.Join(selected, ", ")+` FROM `+t.name+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		a.report.summary.Rows[t.name]++
		a.compareRow(t, texts(rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for key, want := range t.want {
		a.report.add(Finding{Check: CheckReadRow, Owner: want.owner.name, Table: t.name, Row: t.label(strings.Split(key, "\x00")), Detail: "the row is missing"})
	}
	return nil
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

// compareRow compares one row and crosses it off.
func (a *auditor) compareRow(t *table, got []string) {
	ownerText, key, rest := got[0], got[1:1+len(t.key)], got[1+len(t.key):]
	f := Finding{Check: CheckReadRow, Owner: events.Owner(ownerText), Table: t.name, Row: t.label(key)}
	want := t.want[strings.Join(key, "\x00")]
	if want == nil {
		f.Detail = "the row has no event in the log"
		a.report.add(f)
		return
	}
	delete(t.want, strings.Join(key, "\x00"))
	f.Owner = want.owner.name
	differ := func(column, w, g string) {
		if w == g {
			return
		}
		f.Column, f.Detail = column, differs(strings.TrimPrefix(w, "\x00"), strings.TrimPrefix(g, "\x00"))
		a.report.add(f)
	}
	differ("owner", string(want.owner.name), ownerText)
	for i, w := range want.values() {
		differ(t.columns[i], w, rest[i])
	}
}

func (t *table) label(key []string) string {
	parts := make([]string, len(key))
	for i := range key {
		parts[i] = t.key[i] + "=" + key[i]
	}
	return strings.Join(parts, " ")
}

// compareCheckpoint compares when the messages at the rows were stored.
func (a *auditor) compareCheckpoint(db *snapshot) {
	if a.cfg.Owner != "" {
		return
	}
	for _, m := range db.at {
		stored, passed := a.fold.stored[m.Seq]
		if m.Seq > 0 && !passed {
			continue // beyond the log, which is a finding already
		}
		a.report.summary.Rows["checkpoint"]++
		want, got := stamp(stored.Truncate(time.Microsecond)), null
		if !m.Stored.IsZero() {
			got = stamp(m.Stored)
		}
		if m.Seq > 0 && want != got {
			a.report.add(Finding{Check: CheckReadRow, Seq: m.Seq, Table: "checkpoint", Row: m.Run.String(), Column: "stored_at", Detail: differs(want, strings.TrimPrefix(got, "\x00"))})
		}
	}
}

// How PostgreSQL writes values.

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999999-07") }

func stampOr(t *time.Time) string {
	if t == nil {
		return null
	}
	return stamp(*t)
}

func bytea(b []byte) string { return fmt.Sprintf(`\x%x`, b) }

func hashOr(h *events.Hash) string {
	if h == nil {
		return null
	}
	return bytea(h[:])
}

func textOr(s *string) string {
	if s == nil {
		return null
	}
	return *s
}

func number[T int | uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

func numberOr(n *uint64) string {
	if n == nil {
		return null
	}
	return number(*n)
}

func rowKey(parts ...string) string { return strings.Join(parts, "\x00") }

func (f *fold) ownerTable() *table {
	t := &table{name: "owners", columns: []string{"user_id", "registered_at", "others", "last_seq", "chain_version", "chain_last_seq"}, want: map[string]*wantRow{}}
	t.key = []string{"owner"}
	for _, o := range f.owners {
		t.want[string(o.name)] = &wantRow{o, func() []string {
			user, registered := null, null
			if o.userID != "" {
				user, registered = o.userID, stamp(o.registeredAt)
			}
			named := null
			if o.named > 0 {
				named = number(o.named)
			}
			return []string{user, registered, strconv.FormatInt(int64(o.messages)-int64(o.leaves()), 10), named, number(o.chainVersion), number(o.chainLastSeq)}
		}}
	}
	return t
}

func (f *fold) sessionTable() *table {
	t := &table{name: "sessions", key: []string{"id"}, columns: []string{"audience", "token_hash", "issued_at", "expires_at", "revoked_at", "seq"}, want: map[string]*wantRow{}}
	for _, s := range f.sessions {
		t.want[s.id] = &wantRow{s.owner, func() []string {
			return []string{s.audience, hashOr(s.tokenHash), stamp(s.issued), stamp(s.expires), stampOr(s.revoked), number(s.seq)}
		}}
	}
	return t
}

func (f *fold) keyTable() *table {
	t := &table{name: "api_keys", key: []string{"id"}, columns: []string{"hash", "prefix", "label", "created_at", "last_used_at", "revoked_at", "seq"}, want: map[string]*wantRow{}}
	for _, k := range f.keys {
		t.want[k.id] = &wantRow{k.owner, func() []string {
			return []string{bytea(k.hash[:]), k.prefix, bytea([]byte(k.label)), stamp(k.created), stampOr(k.used), stampOr(k.revoked), number(k.seq)}
		}}
	}
	return t
}

func (f *fold) grantTable() *table {
	t := &table{name: "grants", key: []string{"id"}, columns: []string{"kind", "token_hash", "minted_at", "expires_at", "max_uses", "used", "revoked_at", "seq"}, want: map[string]*wantRow{}}
	for _, g := range f.grants {
		t.want[g.id] = &wantRow{g.owner, func() []string {
			return []string{string(g.kind), bytea(g.tokenHash[:]), stamp(g.minted), stamp(g.expires), number(g.maxUses), number(g.used), stampOr(g.revoked), number(g.seq)}
		}}
	}
	return t
}

func (f *fold) batchTable() *table {
	t := &table{name: "batches", key: []string{"id"}, columns: []string{"from_size", "size", "root", "state", "cut_at",
		"signature", "blockhash", "last_valid_block_height", "transaction", "submitted_at",
		"slot", "cluster", "program_id", "account", "confirmed_at", "failed_at", "failure", "seq"},
		exprs: map[string]string{"transaction": "sha256(transaction)"}, want: map[string]*wantRow{}}
	for _, b := range f.batches {
		t.want[b.id] = &wantRow{b.owner, func() []string {
			failure := null
			if b.failure != nil {
				failure = bytea([]byte(*b.failure))
			}
			return []string{number(b.from), number(b.size), bytea(b.root[:]), b.state, stampOr(b.cut),
				textOr(b.signature), textOr(b.blockhash), numberOr(b.lastValid), hashOr(b.transaction), stampOr(b.submitted),
				numberOr(b.slot), textOr(b.cluster), textOr(b.program), textOr(b.account), stampOr(b.confirmedAt), stampOr(b.failed), failure, number(b.seq)}
		}}
	}
	return t
}

func (f *fold) attemptTable() *table {
	t := &table{name: "batch_attempts", key: []string{"batch_id", "signature"}, columns: []string{"blockhash", "last_valid_block_height", "transaction", "submitted_at", "failed_at", "failure", "seq"},
		exprs: map[string]string{"transaction": "sha256(transaction)"}, want: map[string]*wantRow{}}
	for _, a := range f.attempts {
		t.want[rowKey(a.batch, a.signature)] = &wantRow{a.owner, func() []string {
			failure := null
			if a.failure != nil {
				failure = bytea([]byte(*a.failure))
			}
			return []string{a.blockhash, number(a.lastValid), bytea(a.transaction[:]), stamp(a.submitted), stampOr(a.failed), failure, number(a.seq)}
		}}
	}
	return t
}

func (f *fold) stakeTable() *table {
	t := &table{name: "stake_movements", key: []string{"signature", "vault", "direction", "ordinal"}, columns: []string{"mint", "amount", "slot", "block_time", "seq", "position"}, want: map[string]*wantRow{}}
	for _, m := range f.movements {
		t.want[rowKey(m.signature, m.vault, m.direction, number(m.ordinal))] = &wantRow{m.owner, func() []string {
			return []string{m.mint, m.amount, number(m.slot), stamp(m.at), number(m.seq), number(m.position)}
		}}
	}
	return t
}
