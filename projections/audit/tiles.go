package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/events"
)

// tileWidth is the number of hashes in a tile, by the C2SP tlog-tiles layout.
const tileWidth = 256

// tileRow is a row of the tree cache, as it should be or as it is.
type tileRow struct {
	owner  events.Owner
	level  int16
	index  int64
	hashes []byte
	root   []byte
}

func (t *tileRow) order(o *tileRow) int {
	return cmp.Or(cmp.Compare(t.owner, o.owner), cmp.Compare(t.level, o.level), cmp.Compare(t.index, o.index))
}

// tiler works out an owner's tiles from its leaves. It keeps what it made as
// digests, and one root for each tile: 32 bytes for 256 leaves.
type tiler struct {
	levels []*tileLevel
}

type tileLevel struct {
	pending []byte              // hashes, side by side
	hashes  [][sha256.Size]byte // of the bytes of every full tile
	roots   []events.Hash
}

// reset makes it ready for another owner. Tiles that it gave are worth nothing
// from then on.
func (t *tiler) reset() {
	for _, l := range t.levels {
		*l = tileLevel{l.pending[:0], l.hashes[:0], l.roots[:0]}
	}
}

// leaf adds a leaf hash; it returns false for what is none.
func (t *tiler) leaf(hash []byte) bool {
	if len(hash) != events.HashSize {
		return false
	}
	t.add(0, hash)
	return true
}

func (t *tiler) add(level int, hash []byte) {
	if level == len(t.levels) {
		t.levels = append(t.levels, &tileLevel{pending: make([]byte, 0, tileWidth*events.HashSize)})
	}
	l := t.levels[level]
	if l.pending = append(l.pending, hash...); len(l.pending) < tileWidth*events.HashSize {
		return
	}
	l.hashes = append(l.hashes, sha256.Sum256(l.pending))
	root := subtree(l.pending)
	l.roots, l.pending = append(l.roots, root), l.pending[:0]
	t.add(level+1, root[:])
}

// subtree is the root over a power of two of hashes that lie side by side. It
// works in place.
func subtree(hashes []byte) events.Hash {
	node := [1 + 2*events.HashSize]byte{rfc6962.RFC6962NodeHashPrefix}
	for len(hashes) > events.HashSize {
		for i := range len(hashes) / (2 * events.HashSize) {
			copy(node[1:], hashes[2*i*events.HashSize:])
			up := sha256.Sum256(node[:])
			copy(hashes[i*events.HashSize:], up[:])
		}
		hashes = hashes[:len(hashes)/2]
	}
	return events.Hash(hashes)
}

// wantTile is a tile that must be there: its root, and a digest of its bytes.
type wantTile struct {
	tileRow
	digest [sha256.Size]byte
}

// done returns the full tiles in the order of the table.
func (t *tiler) done() []wantTile {
	var all []wantTile
	for level, l := range t.levels {
		for i := range l.roots {
			all = append(all, wantTile{tileRow{level: int16(level), index: int64(i), root: l.roots[i][:]}, l.hashes[i]})
		}
	}
	return all
}

// tileRows reads tiles in order, one ahead.
type tileRows struct {
	rows  pgx.Rows
	ahead *tileRow
	count int
}

func openTiles(ctx context.Context, conn *pgx.Conn, where string, args []any) (*tileRows, error) {
	rows, err := conn.Query(ctx, `SELECT owner, level, tile_index, hashes, root FROM tiles`+where+` ORDER BY owner, level, tile_index`, args...)
	if err != nil {
		return nil, fmt.Errorf("read tiles: %w", err)
	}
	t := &tileRows{rows: rows}
	return t, t.advance()
}

func (t *tileRows) close() { t.rows.Close() }

func (t *tileRows) advance() error {
	t.ahead = nil
	if !t.rows.Next() {
		return t.rows.Err()
	}
	t.count++
	t.ahead = new(tileRow)
	return t.rows.Scan(&t.ahead.owner, &t.ahead.level, &t.ahead.index, &t.ahead.hashes, &t.ahead.root)
}

// compare takes the rows up to the end of an owner and calls differ with what
// should be there and what is; one of them is nil where the other is alone.
// Rows of owners before this one are nobody's.
func (t *tileRows) compare(name events.Owner, want []wantTile, differ func(want, is *tileRow)) error {
	for t.ahead != nil && t.ahead.owner <= name {
		is := t.ahead
		if len(want) > 0 {
			want[0].owner = name
			if order := want[0].order(is); order < 0 {
				differ(&want[0].tileRow, nil)
				want = want[1:]
				continue
			} else if order == 0 {
				if sha256.Sum256(is.hashes) != want[0].digest || !bytes.Equal(is.root, want[0].root) {
					differ(&want[0].tileRow, is)
				}
				want = want[1:]
				if err := t.advance(); err != nil {
					return err
				}
				continue
			}
		}
		differ(nil, is)
		if err := t.advance(); err != nil {
			return err
		}
	}
	for i := range want {
		differ(&want[i].tileRow, nil)
	}
	return nil
}

// rest takes what is left.
func (t *tileRows) rest(yield func(*tileRow)) error {
	for t.ahead != nil {
		yield(t.ahead)
		if err := t.advance(); err != nil {
			return err
		}
	}
	return nil
}

// compareTiles names what is wrong with an owner's tiles.
func (a *auditor) compareTiles(ctx context.Context, db *snapshot, name events.Owner, want []wantTile) error {
	rows, err := openTiles(ctx, db.second, ` WHERE owner = $1`, []any{string(name)})
	if err != nil {
		return err
	}
	defer rows.close()
	for i := range want {
		want[i].owner = name
	}
	return rows.compare(name, want, func(w, is *tileRow) {
		some := w
		if some == nil {
			some = is
		}
		f := Finding{Check: CheckTile, Owner: name, Table: "tiles", Row: fmt.Sprintf("level %d tile %d", some.level, some.index)}
		if some.level == 0 && some.index >= 0 {
			f.LeafIndex = at(uint64(some.index) * tileWidth)
		}
		switch {
		case is == nil:
			f.Detail = "the tile is missing"
			a.report.add(f)
		case w == nil:
			f.Detail = "the log has no such full tile"
			a.report.add(f)
		default:
			a.tileDiffers(f, want, is)
		}
	})
}

func (a *auditor) tileDiffers(f Finding, want []wantTile, is *tileRow) {
	i, _ := slices.BinarySearchFunc(want, is, func(w wantTile, t *tileRow) int { return w.order(t) })
	if !bytes.Equal(want[i].root, is.root) {
		f.Column, f.Detail = "root", differs(hex.EncodeToString(want[i].root), hex.EncodeToString(is.root))
		a.report.add(f)
	}
	if sha256.Sum256(is.hashes) != want[i].digest {
		f.Column, f.Detail = "hashes", "the hashes are not those of the log"
		a.report.add(f)
	}
}
