package memory

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"

	"github.com/google/uuid"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/recall"
	"github.com/memory-ledger/ledger/services/search"
)

const (
	// chunkLeaves is how many leaves a full chunk has.
	chunkLeaves = 256
	// pieceLeaves bounds what a search passes in one time slot, and so does pieceBytes.
	pieceLeaves = 16 * chunkLeaves
	// indexBytes is about how many bytes of texts a ranking indexes in one time slot, and how
	// many bytes of texts an index has at most: while it is made, each of its words takes
	// hundreds of bytes.
	indexBytes = 512 << 10
)

// chunk is the opened texts of up to chunkLeaves leaves, fewer at the end of the log. It is
// immutable.
type chunk struct {
	number  uint64 // it begins with leaf number*chunkLeaves
	texts   search.Texts
	created []uint32        // when each leaf occurred, or was written if that is earlier, in Unix seconds
	words   []*recall.Words // of the first texts, as far as rankings came
	indexed int             // how many bytes of texts have their words there
	damaged []uint64        // leaves whose text does not open, or that have no row
}

func (c *chunk) first() uint64 { return c.number * chunkLeaves }

func (c *chunk) leaves() int { return len(c.created) }

// end is the first leaf that the chunk does not have.
func (c *chunk) end() uint64 { return c.first() + uint64(len(c.created)) }

func (c *chunk) text(leaf uint64) []byte {
	at := c.first()
	for text := range c.texts.All() {
		if at == leaf {
			return text
		}
		at++
	}
	return nil
}

func (c *chunk) bytes() int64 {
	if c == nil {
		return 0
	}
	bytes := 160 + int64(cap(c.texts)) + 4*int64(cap(c.created))
	for _, w := range c.words {
		bytes += w.Bytes()
	}
	return bytes
}

// texts calls yield with the chunks that have the leaves from (inclusive) to (exclusive),
// in ascending order. If the texts are long, it ends early; reached is the first leaf that
// it left out.
func (p *Picked) texts(ctx context.Context, from, to uint64, yield func(*chunk)) (reached uint64, err error) {
	first, end := from/chunkLeaves, (to+chunkLeaves-1)/chunkLeaves
	found := p.service.Texts.chunks(p.reader.Owner, first, end)
	whole := func(i uint64) bool { // from the cache
		return found[i] != nil && found[i].end() >= min(to, (first+i+1)*chunkLeaves)
	}
	hit, read := true, 0
	for i := uint64(0); i < end-first; {
		if whole(i) {
			yield(found[i])
			i++
			// Let short requests run between chunks. The Go scheduler preempts a busy
			// goroutine only after ten milliseconds.
			runtime.Gosched()
			continue
		}
		run := i + 1
		for run < end-first && !whole(run) {
			run++
		}
		hit = false
		run, bytes, err := p.open(ctx, first+i, min(to, (first+run)*chunkLeaves), pieceBytes-read, func(c *chunk) {
			if len(c.damaged) == 0 { // what is damaged may be mended
				p.service.Texts.put(p.reader.Owner, p.kept, c)
			}
			yield(c)
		})
		if err != nil {
			return 0, err
		}
		if read += bytes; read >= pieceBytes {
			end = run
		}
		i = run - first
	}
	p.service.Texts.Hits.Count(hit)
	return min(to, end*chunkLeaves), ctx.Err()
}

// open reads and opens chunks, from one with a number on, up to the leaf to. It ends early
// after the chunk that reaches most bytes. next is the number of the chunk after the last.
func (p *Picked) open(ctx context.Context, number, to uint64, most int, yield func(*chunk)) (next uint64, bytes int, err error) {
	opener := p.key.Opener()
	c, size := &chunk{number: number}, 0
	done := func() {
		size = max(size, len(c.texts))
		c.texts = slices.Clip(c.texts)
		yield(c)
		c = &chunk{number: c.number + 1, texts: make(search.Texts, 0, size), created: make([]uint32, 0, min(chunkLeaves, to-min(to, (c.number+1)*chunkLeaves)))}
		runtime.Gosched()
	}
	add := func(text []byte, created uint32) {
		c.texts, c.created = c.texts.Append(text), append(c.created, created)
	}
	// missing adds the leaves before one, which have no row.
	missing := func(before uint64) {
		for c.end() < before {
			if c.end() >= p.erased {
				c.damaged = append(c.damaged, c.end())
			}
			if add(nil, 0); c.leaves() == chunkLeaves {
				done()
			}
		}
	}
	err = memories.Bodies(ctx, p.service.Pool, p.reader.Owner, number*chunkLeaves, to, func(b memories.Body) error {
		missing(b.Leaf)
		var text []byte
		if b.Leaf >= p.erased {
			bytes += len(b.Sealed)
			id, err := uuid.UUID(b.ID).MarshalText()
			if err == nil {
				text, err = opener.Open(b.Sealing, b.Leaf, id, b.Sealed)
			}
			if b.Salt == events.SaltSealed && len(text) >= events.SaltBytes {
				text = text[events.SaltBytes:]
			}
			if err != nil && !errors.Is(err, keystore.ErrLeafDestroyed) {
				c.damaged = append(c.damaged, b.Leaf)
			}
		}
		if add(text, momentOf(b)); c.leaves() < chunkLeaves {
			return nil
		}
		if done(); bytes >= most {
			return errFull
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return 0, 0, err
	}
	if err == nil {
		if missing(to); c.leaves() > 0 {
			done()
		}
	}
	return c.number, bytes, nil
}

// momentOf returns when a memory occurred, for a ranking: a plan for later is no newer than
// the memory of it.
func momentOf(b memories.Body) uint32 {
	at := memories.Moment(b.Created, b.Metadata)
	return uint32(max(0, min(at.Unix(), b.Created.Unix(), math.MaxUint32)))
}

// errFull ends the read of texts.
var errFull = errors.New("enough bytes for one time slot")

// index returns the chunk with the words of further texts, about indexBytes of them.
func (c *chunk) index(d *recall.Dictionary) *chunk {
	with, leaves := *c, 0
	for _, w := range c.words {
		leaves += w.Leaves()
	}
	words := d.Index(c.first()+uint64(leaves), func(yield func([]byte) bool) {
		for text := range c.texts[c.indexed:].All() {
			with.indexed += len(text) + 1 // its separator
			if !yield(text) || with.indexed-c.indexed >= indexBytes {
				return
			}
		}
	}, c.created[leaves:])
	with.words = append(slices.Clip(c.words), words)
	return &with
}

// rankNext adds the words of chunks to a ranking, of about indexBytes of texts, and indexes
// them for it first. It returns the chunks that are left.
func (p *Picked) rankNext(chunks []*chunk, ranking *recall.Ranking, d *recall.Dictionary) []*chunk {
	for bytes := 0; len(chunks) > 0 && bytes < indexBytes; {
		switch c := chunks[0]; {
		case p.added < len(c.words):
			ranking.Add(c.words[p.added])
			bytes += c.indexed / len(c.words)
			p.added++
		case c.indexed < len(c.texts):
			c = c.index(d)
			if chunks[0] = c; len(c.damaged) == 0 {
				p.service.Texts.put(p.reader.Owner, p.kept, c)
			}
		default:
			p.note(c, 0, p.size)
			chunks, p.added = chunks[1:], 0
			runtime.Gosched() // as between the chunks of texts
		}
	}
	return chunks
}
