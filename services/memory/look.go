package memory

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/memory-ledger/ledger/services/keystore"
)

// yieldBytes is how many bytes are looked through before other goroutines get
// the processor, where a page has more: either is some 50 to 100 microseconds'
// worth. Left to itself the runtime takes it away after ten milliseconds only;
// more often would cost, for each time an idle thread is woken to see that there
// is nothing to do.
const yieldBytes = 128 << 10

// piece is what is looked through in one turn, by one goroutine or two.
type piece struct {
	first   uint64        // leaf
	arrived chan leafPage // closed after the last

	mu     sync.Mutex
	looked int // bytes
	found  []match
	bytes  int    // of them
	left   uint64 // the first leaf that was left to the next piece; 0: none
}

// takes reports whether a page is looked through: not once much was found, but for
// the first, or there would be no end.
func (p *piece) takes(page leafPage) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes < foundBytes || page.first() <= p.first {
		p.looked += page.bytes()
		return true
	}
	if p.left == 0 || page.first() < p.left {
		p.left = page.first()
	}
	return false
}

func (p *piece) add(found []match) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = append(p.found, found...)
	for i := range found {
		p.bytes += len(found[i].content)
	}
}

// until returns the matches in leaf order, and how far the piece came, which was
// loaded up to an index. What was found beyond is left to the next: the last page
// may hold what came later, and another may have been looked through before one
// that was left.
func (p *piece) until(reached uint64) ([]match, uint64) {
	if p.left > 0 {
		reached = min(reached, p.left)
	}
	found := slices.DeleteFunc(p.found, func(m match) bool { return m.leaf >= reached })
	slices.SortFunc(found, func(a, b match) int { return cmp.Compare(a.leaf, b.leaf) })
	return found, reached
}

// lookThrough opens pages as they arrive, until there are no more. pass, if not nil,
// is called now and then, for others who wait.
func (c *Cursor) lookThrough(ctx context.Context, p *piece, pass func(context.Context) error) error {
	l := newLooker(c.key, c.search)
	l.pass = pass
	var found []match
	for page := range p.arrived {
		if !p.takes(page) {
			continue
		}
		found = found[:0]
		made, err := l.page(ctx, page, &found)
		if err != nil {
			return err
		}
		p.add(found)
		if made != nil {
			c.service.Bodies.keepTexts(c.reader.Owner, made)
		}
	}
	return nil
}

// looker is what one goroutine looks with.
type looker struct {
	key     *keystore.OwnerKey
	opener  *keystore.Opener
	texts   *textKeeper // nil before there are texts
	matcher matcher
	id      []byte
	since   int // how many bytes it went through since others got the processor
	pass    func(context.Context) error
}

func newLooker(key *keystore.OwnerKey, m *matcher) *looker {
	return &looker{key: key, opener: key.Opener(), matcher: *m, since: yieldBytes}
}

// page appends the matches among the leaves of a page. It returns the page's
// texts where they should be kept instead, and nil otherwise.
func (l *looker) page(ctx context.Context, p leafPage, found *[]match) (made *texts, err error) {
	if (p.texts != nil || p.wantsTexts()) && l.texts == nil {
		keeper, err := l.key.Keeper()
		if err != nil {
			return nil, err
		}
		l.texts = &textKeeper{keeper: keeper}
	}
	if p.texts != nil {
		return nil, l.together(ctx, p.texts, found)
	}
	return l.oneByOne(ctx, p, found)
}

// oneByOne opens each body of a page by itself.
func (l *looker) oneByOne(ctx context.Context, p leafPage, found *[]match) (made *texts, err error) {
	gather, n := p.wantsTexts(), p.bodies.Len()
	if gather {
		l.texts.begin(p.bodies)
	}
	l.since = yieldBytes
	for i, sealed := range p.bodies.Sealed {
		if err := l.pause(ctx, len(sealed)); err != nil {
			return nil, err
		}
		l.id = p.bodies.AppendID(l.id[:0], i)
		plain, err := l.opener.Open(l.id, sealed)
		if err != nil {
			return nil, err
		}
		// The text is looked at before the buffer is used again.
		if text := unsafe.String(unsafe.SliceData(plain), len(plain)); l.matcher.match(text) {
			*found = append(*found, match{p.bodies.First() + uint64(i), p.bodies.ID(i), string(plain)})
		}
		if gather {
			l.texts.add(i, n, plain)
		}
	}
	if !gather {
		return nil, nil
	}
	return l.texts.seal(p.bodies)
}

// together opens all texts of a page at once.
func (l *looker) together(ctx context.Context, t *texts, found *[]match) error {
	plain, ends, err := l.texts.open(t)
	if err != nil {
		return err
	}
	// They are looked at before the buffer is used again.
	all := unsafe.String(unsafe.SliceData(plain), len(plain))
	met, start := 0, 0
	for from, to := 0, 0; from < len(ends); from = to {
		to = l.some(ends, from, start)
		end := int(ends[to-1])
		if err := l.pause(ctx, end-start); err != nil {
			return err
		}
		met += l.matcher.matchEach(all[:end], start, ends[from:to], func(i int, text string) {
			*found = append(*found, match{t.first + uint64(from+i), t.id(from + i), strings.Clone(text)})
		})
		start = end
	}
	l.matcher.learn(all, met)
	return nil
}

// some returns the number after the last of the texts that are looked through
// next: from one that begins at start on, those that begin within yieldBytes.
func (l *looker) some(ends []uint32, from, start int) (to int) {
	for to = from + 1; to < len(ends) && int(ends[to-1])-start < yieldBytes; to++ {
	}
	return to
}

// pause lets others have the processor, if it was long ago, before the next
// bytes are gone through. It returns the error of ctx, if it ended.
func (l *looker) pause(ctx context.Context, bytes int) error {
	if l.since += bytes; l.since < yieldBytes {
		return nil
	}
	runtime.Gosched()
	l.since = 0
	if err := ctx.Err(); err != nil || l.pass == nil {
		return err
	}
	return l.pass(ctx)
}
