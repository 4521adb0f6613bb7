package audit

import (
	"context"
	"crypto/sha256"
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

// pager works out an owner's pages of bodies from its leaves. It keeps a digest
// of each, and what belongs to the last: some 2 MB at the most.
type pager struct {
	leaves               uint64
	ids, lengths, bodies []byte
	digests              []rowsHash
}

// leaf adds the owner's next leaf.
func (p *pager) leaf(m *memoryRow) {
	p.ids = append(p.ids, m.id...) // of what is no id more, of which no page is made
	if len(m.sealed) > longestBody {
		p.lengths = append(p.lengths, 0xff, 0xff, 0xff, 0xff)
	} else {
		p.lengths = binary.BigEndian.AppendUint32(p.lengths, uint32(len(m.sealed)))
		p.bodies = append(p.bodies, m.sealed...)
	}
	if p.leaves++; p.leaves%leavesOfPage != 0 {
		return
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64([]byte("MLP1\x00\x00\x01\x00"), p.leaves-leavesOfPage))
	h.Write(p.ids)
	h.Write(p.lengths)
	h.Write(p.bodies)
	p.digests = append(p.digests, rowsHash(h.Sum(nil)))
	p.ids, p.lengths, p.bodies = p.ids[:0], p.lengths[:0], p.bodies[:0]
}

// reset makes it ready for another owner. Digests that it gave are worth nothing
// from then on.
func (p *pager) reset() {
	*p = pager{ids: p.ids[:0], lengths: p.lengths[:0], bodies: p.bodies[:0], digests: p.digests[:0]}
}

// bodyPageRows reads pages in order, one ahead.
type bodyPageRows struct {
	rows  pgx.Rows
	count int

	ahead  bool
	owner  events.Owner
	page   int64
	digest rowsHash
}

func openBodyPages(ctx context.Context, conn *pgx.Conn, where string, args []any) (*bodyPageRows, error) {
	rows, err := conn.Query(ctx, `SELECT owner, page, bodies FROM body_pages`+where+` ORDER BY owner, page`, args...)
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	p := &bodyPageRows{rows: rows}
	return p, p.advance()
}

func (p *bodyPageRows) close() { p.rows.Close() }

func (p *bodyPageRows) advance() error {
	if p.ahead = p.rows.Next(); !p.ahead {
		return p.rows.Err()
	}
	p.count++
	var bodies pgtype.DriverBytes // as they arrived, until the next row
	if err := p.rows.Scan(&p.owner, &p.page, &bodies); err != nil {
		return err
	}
	p.digest = sha256.Sum256(bodies)
	return nil
}

// compare takes the rows up to the end of an owner and calls differ with what
// is wrong with a page. Rows of owners before this one are nobody's.
func (p *bodyPageRows) compare(name events.Owner, want []rowsHash, differ func(owner events.Owner, page int64, column, detail string)) error {
	next := int64(0)
	missing := func(until int64) {
		for ; next < until; next++ {
			differ(name, next, "", "the page is missing")
		}
	}
	for p.ahead && p.owner <= name {
		switch {
		case p.owner != name || p.page < 0 || p.page >= int64(len(want)):
			differ(p.owner, p.page, "", "the log has no such full page")
		default:
			missing(p.page)
			if next++; p.digest != want[p.page] {
				differ(name, p.page, "bodies", "the bodies are not those of the log")
			}
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
	missing(int64(len(want)))
	return nil
}

// rest takes what is left, which is nobody's.
func (p *bodyPageRows) rest(yield func(events.Owner)) error {
	for p.ahead {
		yield(p.owner)
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

// compareBodyPages names what is wrong with an owner's pages.
func (a *auditor) compareBodyPages(ctx context.Context, db *snapshot, name events.Owner, want []rowsHash) error {
	rows, err := openBodyPages(ctx, db.second, ` WHERE owner = $1`, []any{string(name)})
	if err != nil {
		return err
	}
	defer rows.close()
	return rows.compare(name, want, func(owner events.Owner, page int64, column, detail string) {
		f := Finding{Check: CheckReadRow, Owner: owner, Table: "body_pages", Row: fmt.Sprintf("page %d", page), Column: column, Detail: detail}
		if page >= 0 {
			f.LeafIndex = at(uint64(page) * leavesOfPage)
		}
		a.report.add(f)
	})
}
