package memory

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/memory-ledger/ledger/projections/pages"
	"github.com/memory-ledger/ledger/services/keystore"
)

// texts is what is kept in place of a full page: all of its texts, sealed as one,
// so that a search opens one value where it opened 256.
//
// Sealed are, for n leaves:
//
//	offset   bytes
//	0        4 n    where each text ends, from the first one's beginning on; big-endian
//	4n       ...    texts, one after the other
//
// Bound in are the owner, the index of the first leaf, n, and the ids, which lie
// open, as they do in a page.
type texts struct {
	first  uint64
	leaves int
	data   []byte // 16 n bytes of ids, then what is sealed
}

const (
	idSize  = 16
	endSize = 4
)

// maxTexts is the longest page, in bytes of sealed bodies, whose texts are kept
// instead. In longer ones most of the time goes into decrypting, in either form,
// and in much longer ones one body by itself, which stays in the processor's
// cache, is quicker. It bounds the buffer of whoever looks through texts, too, and
// how long it takes to open them, which nobody interrupts.
const maxTexts = 256 << 10

func (t *texts) end() uint64 { return t.first + uint64(t.leaves) }

// id is the id of leaf number i of the page.
func (t *texts) id(i int) [idSize]byte { return [idSize]byte(t.data[i*idSize:]) }

// appendContext appends what is bound in beside the owner.
func (t *texts) appendContext(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, t.first)
	dst = binary.BigEndian.AppendUint32(dst, uint32(t.leaves))
	return append(dst, t.data[:t.leaves*idSize]...)
}

// textKeeper makes and opens texts, with buffers that it uses again.
type textKeeper struct {
	keeper  *keystore.Keeper
	context []byte
	plain   []byte   // ends and texts
	ends    []uint32 // of what was opened
}

// begin makes room for the texts of a page, which add appends.
func (k *textKeeper) begin(p pages.Page) {
	k.plain = slices.Grow(k.plain[:0], p.Bytes())[:p.Len()*endSize]
}

// add appends the text of leaf number i of n.
func (k *textKeeper) add(i, n int, text []byte) {
	k.plain = append(k.plain, text...)
	binary.BigEndian.PutUint32(k.plain[i*endSize:], uint32(len(k.plain)-n*endSize))
}

// seal returns the texts of a page that were added.
func (k *textKeeper) seal(p pages.Page) (*texts, error) {
	n := p.Len()
	t := &texts{first: p.First(), leaves: n, data: make([]byte, 0, n*idSize+len(k.plain)+keystore.KeptOverhead)}
	for i := range n {
		id := p.ID(i)
		t.data = append(t.data, id[:]...)
	}
	k.context = t.appendContext(k.context[:0])
	var err error
	if t.data, err = k.keeper.Seal(t.data, k.context, k.plain); err != nil {
		return nil, fmt.Errorf("keep the texts of leaves %d to %d: %w", t.first, t.end(), err)
	}
	return t, nil
}

// open returns the texts side by side, and where each ends; they are good until
// the next call.
//
// Errors: keystore.ErrSealed where they are not what was sealed for this place.
func (k *textKeeper) open(t *texts) (all []byte, ends []uint32, err error) {
	k.context = t.appendContext(k.context[:0])
	if k.plain, err = k.keeper.Open(k.plain, k.context, t.data[t.leaves*idSize:]); err != nil {
		return nil, nil, fmt.Errorf("kept texts of leaves %d to %d: %w", t.first, t.end(), err)
	}
	k.ends = k.ends[:0]
	for i := range t.leaves {
		k.ends = append(k.ends, binary.BigEndian.Uint32(k.plain[i*endSize:]))
	}
	return k.plain[t.leaves*endSize:], k.ends, nil
}
