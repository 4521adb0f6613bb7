package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
)

// Of the pages of bodies, as package pages documents them.
const (
	leavesOfPage = 256
	longestBody  = 8192
)

// pager works out an owner's pages of bodies from its leaves, and holds each
// against its row. It keeps what belongs to the last page: some 2 MB at the most.
type pager struct {
	rows   *bodyPageRows
	differ func(owner events.Owner, page int64, column, detail string)

	owner                events.Owner
	leaves               uint64
	ids, lengths, bodies []byte
}

// begin makes it ready for the owner who comes next in the order of the rows. Rows
// before the first page of this one are found to be nobody's with that, or in the end.
func (p *pager) begin(owner events.Owner) {
	p.owner, p.leaves = owner, 0
	p.ids, p.lengths, p.bodies = p.ids[:0], p.lengths[:0], p.bodies[:0]
}

// leaf adds the owner's next leaf.
func (p *pager) leaf(m *memoryRow) error {
	p.ids = append(p.ids, m.id...) // of what is no id more, of which no page is made
	if len(m.sealed) > longestBody {
		p.lengths = append(p.lengths, 0xff, 0xff, 0xff, 0xff)
	} else {
		p.lengths = binary.BigEndian.AppendUint32(p.lengths, uint32(len(m.sealed)))
		p.bodies = append(p.bodies, m.sealed...)
	}
	if p.leaves++; p.leaves%leavesOfPage != 0 {
		return nil
	}
	err := p.full(int64(p.leaves/leavesOfPage) - 1)
	p.ids, p.lengths, p.bodies = p.ids[:0], p.lengths[:0], p.bodies[:0]
	return err
}

// full holds a page that is full against its row.
func (p *pager) full(page int64) error {
	r := p.rows
	for r.ahead && (r.owner < p.owner || r.owner == p.owner && r.page < page) {
		if err := p.nobodys(); err != nil {
			return err
		}
	}
	if !r.ahead || r.owner != p.owner || r.page != page {
		p.differ(p.owner, page, "", "the page is missing")
		return nil
	}
	head := binary.BigEndian.AppendUint64([]byte("MLP1\x00\x00\x01\x00"), uint64(page)*leavesOfPage)
	if !consists(r.bodies, head, p.ids, p.lengths, p.bodies) {
		p.differ(p.owner, page, "bodies", "the bodies are not those of the log")
	}
	return r.advance()
}

// consists reports whether data is its parts, one after the other.
func consists(data []byte, parts ...[]byte) bool {
	for _, part := range parts {
		var is bool
		if data, is = bytes.CutPrefix(data, part); !is {
			return false
		}
	}
	return len(data) == 0
}

// nobodys passes over a row that no leaves make.
func (p *pager) nobodys() error {
	p.differ(p.rows.owner, p.rows.page, "", "the log has no such full page")
	return p.rows.advance()
}

// end passes over the rows that are left.
func (p *pager) end() error {
	for p.rows.ahead {
		if err := p.nobodys(); err != nil {
			return err
		}
	}
	return nil
}

// bodyPageRows reads pages in order, one ahead.
type bodyPageRows struct {
	rows  pgx.Rows
	count int

	ahead  bool
	owner  events.Owner
	page   int64
	bodies pgtype.DriverBytes // as they arrived, until the next row
}

func openBodyPages(ctx context.Context, conn *pgx.Conn, where string, args []any) (*bodyPageRows, error) {
	rows, err := conn.Query(ctx, `SELECT owner, page, bodies FROM body_pages`+where+` ORDER BY owner, page`, args...)
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	r := &bodyPageRows{rows: rows}
	return r, r.advance()
}

func (r *bodyPageRows) close() { r.rows.Close() }

func (r *bodyPageRows) advance() error {
	if r.ahead = r.rows.Next(); !r.ahead {
		return r.rows.Err()
	}
	r.count++
	return r.rows.Scan(&r.owner, &r.page, &r.bodies)
}

// openOwnersPages returns what names what is wrong with an owner's pages.
func (a *auditor) openOwnersPages(ctx context.Context, db *snapshot, name events.Owner) (*pager, error) {
	rows, err := openBodyPages(ctx, db.third, ` WHERE owner = $1`, []any{string(name)})
	if err != nil {
		return nil, err
	}
	return &pager{rows: rows, owner: name, differ: func(owner events.Owner, page int64, column, detail string) {
		f := Finding{Check: CheckReadRow, Owner: owner, Table: "body_pages", Row: fmt.Sprintf("page %d", page), Column: column, Detail: detail}
		if page >= 0 {
			f.LeafIndex = at(uint64(page) * leavesOfPage)
		}
		a.report.add(f)
	}}, nil
}
