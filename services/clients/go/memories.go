package memoryledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/events/verify"
)

// Metadata is a memory's metadata. Numbers are float64, as in the log.
type Metadata = map[string]any

// Memory is a memory as the service returns it.
type Memory struct {
	ID        string    `json:"id"`
	Content   string    `json:"content"`
	Metadata  Metadata  `json:"metadata"`
	LeafHash  Hash      `json:"leafHash"`
	LeafIndex uint64    `json:"leafIndex"`
	BatchID   *string   `json:"batchId"` // nil until an anchoring batch is cut
	Anchored  bool      `json:"anchored"`
	CreatedAt time.Time `json:"createdAt"`
	Via       *Via      `json:"via"`
	// Damaged: the service's stored copy does not match the leaf, so Content and Metadata
	// are empty.
	Damaged bool `json:"damaged,omitzero"`
	// Supersedes and SupersededBy are the ids of what this memory corrects, and of what
	// corrects it, the newest first. They are not proven: Receipt.Corrects proves one.
	Supersedes   []string `json:"supersedes,omitzero"`
	SupersededBy []string `json:"supersededBy,omitzero"`
	// Imported is what the memory was in the log that Import took it from. It is found by
	// that id, too, and CreatedAt is from there. Nothing proves either.
	Imported *Imported `json:"imported,omitzero"`
}

// Imported is what a memory was in the log that it was imported from.
type Imported struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Via       *Via      `json:"via,omitzero"`
}

// NewMemory is a memory to be written. All but Content may be empty. The members below
// Metadata become metadata of the same name, so the receipt proves them.
type NewMemory struct {
	Content    string   `json:"content"` // 1 to 262,144 bytes of UTF-8
	Metadata   Metadata `json:"metadata"`
	Source     string   `json:"source,omitzero"`     // at most 80 characters; replaces metadata.source
	OccurredAt string   `json:"occurredAt,omitzero"` // a date, or a date and time of RFC 3339
	Tags       []string `json:"tags,omitempty"`      // at most 16
	Namespace  string   `json:"namespace,omitzero"`  // at most 80 characters
	// Supersedes has the ids of at most 16 memories that this one corrects. Their leaf
	// hashes become metadata.supersedes.
	Supersedes []string `json:"supersedes,omitempty"`
}

// Written is the answer to a write.
type Written struct {
	ID        string `json:"id"`
	LeafHash  Hash   `json:"leafHash"`
	LeafIndex uint64 `json:"leafIndex"`
}

// WriteOption configures a write.
type WriteOption func(*request)

// IdempotencyKey names a write, so that it can be repeated safely: 1 to 255 visible ASCII
// characters. Without it, all attempts of one call share a random key.
func IdempotencyKey(key string) WriteOption { return func(r *request) { r.idempotencyKey = key } }

func (r request) named(options []WriteOption) request {
	r.idempotencyKey = rand.Text()
	for _, set := range options {
		set(&r)
	}
	return r
}

// Write stores a text with its metadata, which may be nil. Store has more members.
func (c *Client) Write(ctx context.Context, content string, metadata Metadata, options ...WriteOption) (*Written, error) {
	return c.Store(ctx, NewMemory{Content: content, Metadata: metadata}, options...)
}

// Store stores a memory exactly once, even if attempts fail and are repeated. After
// ErrUnavailable, ErrConnection or ErrTimeout the memory may be stored: call Store again
// with the same IdempotencyKey.
func (c *Client) Store(ctx context.Context, memory NewMemory, options ...WriteOption) (*Written, error) {
	e, err := c.expect(memory)
	if err != nil {
		return nil, err
	}
	r := c.core(http.MethodPost, "/memories").named(options)
	r.body = memory
	w := new(Written)
	if _, err := c.call(ctx, r, w); err != nil {
		return nil, err
	}
	c.written.add(*w, e)
	return w, nil
}

// WriteBatch stores 1 to 256 memories: all of them or none, at consecutive places in the
// log. The answers are in the order of the memories.
func (c *Client) WriteBatch(ctx context.Context, memories []NewMemory, options ...WriteOption) ([]Written, error) {
	entries := make([]expected, len(memories))
	for i := range memories {
		var err error
		if entries[i], err = c.expect(memories[i]); err != nil {
			return nil, fmt.Errorf("memories[%d]: %w", i, err)
		}
	}
	r := c.core(http.MethodPost, "/memories/batch").named(options)
	r.body = map[string]any{"memories": memories}
	var all []Written
	if _, err := c.call(ctx, r, &all); err != nil {
		return nil, err
	}
	if c.verify && len(all) != len(memories) {
		return nil, serviceLies(ErrHidden, "memories", "%d were written, the answer has %d", len(memories), len(all))
	}
	for i, w := range all {
		if c.verify && w.LeafIndex != all[0].LeafIndex+uint64(i) {
			return nil, serviceLies(ErrHidden, "leafIndex", "memory %d of the batch is leaf %d, the first is leaf %d", i, w.LeafIndex, all[0].LeafIndex)
		}
		c.written.add(w, entries[i])
	}
	return all, nil
}

// fingerprint identifies text and metadata. It fails for values that are not I-JSON.
func fingerprint(content string, metadata any) (sum [sha256.Size]byte, err error) {
	text, err := canonicalize(map[string]any{"content": content, "metadata": metadata})
	if err != nil {
		return sum, fmt.Errorf("memoryledger: the memory is not I-JSON: %w", err)
	}
	return sha256.Sum256(text), nil
}

// remembered is how many writes a client remembers, to check later answers about them.
const remembered = 1000

type writtenMemory struct {
	Written
	entry expected
}

// written remembers the newest writes.
type written struct {
	mu   sync.Mutex
	byID map[string]writtenMemory
	ids  []string // a ring
	next int
}

func newWritten() written {
	return written{byID: map[string]writtenMemory{}, ids: make([]string, remembered)}
}

func (w *written) add(m Written, e expected) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byID, w.ids[w.next])
	w.ids[w.next], w.byID[m.ID] = m.ID, writtenMemory{m, e}
	w.next = (w.next + 1) % remembered
}

// hash returns the leaf hash of a memory that this client wrote.
func (w *written) hash(id string) (Hash, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, found := w.byID[id]
	return known.LeafHash, found
}

// compare checks an answer about a memory against the answer to this client's write. It
// returns nil if this client did not write the memory, or no longer remembers it.
func (w *written) compare(id string, leaf Hash, index uint64) (*writtenMemory, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, found := w.byID[id]
	switch {
	case !found:
		return nil, nil
	case known.LeafIndex != index:
		return nil, serviceLies(ErrWrongMemory, "leafIndex", "it is %d, the memory was written as leaf %d", index, known.LeafIndex)
	case known.LeafHash != leaf:
		return nil, serviceLies(ErrWrongLeaf, "leafHash", "it is %s, the memory was written as %s", leaf, known.LeafHash)
	}
	return &known, nil
}

func memoryPath(id string) string { return "/memories/" + url.PathEscape(id) }

// Get returns a memory, checked against its receipt: text and metadata are those of the
// leaf, and the leaf is in the owner's log. The check takes about three more requests.
func (c *Client) Get(ctx context.Context, id string) (*Memory, error) {
	m := new(Memory)
	if _, err := c.call(ctx, c.core(http.MethodGet, memoryPath(id)), m); err != nil || !c.verify {
		return m, err
	}
	if m.ID != id && (m.Imported == nil || m.Imported.ID != id) {
		return nil, serviceLies(ErrWrongMemory, "id", "it is %s, not %s", m.ID, id)
	}
	r, err := c.Receipt(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.LeafHash != r.LeafHash {
		return nil, serviceLies(ErrWrongLeaf, "leafHash", "it is %s, the receipt has %s", m.LeafHash, r.LeafHash)
	}
	if m.LeafIndex != r.LeafIndex {
		return nil, serviceLies(ErrWrongMemory, "leafIndex", "it is %d, the receipt has %d", m.LeafIndex, r.LeafIndex)
	}
	shown, err := fingerprint(m.Content, m.Metadata)
	if err != nil {
		return nil, serviceLies(ErrMalformed, "content", "%v", err)
	}
	proven, err := fingerprint(r.Entry.Content, r.Entry.Metadata)
	if err != nil || shown != proven {
		return nil, serviceLies(ErrWrongText, "content", "text or metadata are not those of the leaf")
	}
	return m, nil
}

// Retract retracts a memory. No list, search or case returns it any longer, but its leaf
// stays. Retract needs a session, or a key with ScopeRetract.
func (c *Client) Retract(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.core(http.MethodDelete, memoryPath(id)), nil)
	return err
}

// Forget makes the text of a memory unreadable for good, at once and everywhere. Its leaf,
// proof, times and metadata stay. Forget needs a session. ErrConflict: the memory was written
// before memories had keys of their own.
func (c *Client) Forget(ctx context.Context, id string) error {
	_, err := c.call(ctx, c.core(http.MethodPost, memoryPath(id)+"/forget"), nil)
	return err
}

// Order is the order of a list or a search.
type Order string

// Orders. Relevance is for ranked searches only, and their default. Elsewhere the default
// is Oldest. Occurred is for searches: by the time when things happened, newest first.
const (
	Oldest    Order = "oldest"
	Newest    Order = "newest"
	Occurred  Order = "occurred"
	Relevance Order = "relevance"
)

// ListOptions of List. The zero value lists from the oldest memory.
type ListOptions struct {
	Order    Order // Oldest or Newest
	PageSize int   // memories a page, 1 to 1,000; 0 means 100
}

const defaultPage = 100

// List lists all memories, page by page. It checks that only retracted leaves are
// missing, and, from the oldest, that all leaves give a root of the log. The memories are
// proven when the list ends without an error. Get checks texts. An error is the last
// pair.
//
// A key that is limited to namespaces sees no other leaves, so its list can't be proven. With
// WithNamespaces, List checks the order, the namespaces, and what this client wrote. Without,
// it fails with ErrForbidden.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[Memory, error] {
	return func(yield func(Memory, error) bool) {
		if err := c.list(ctx, o, func(m Memory) bool { return yield(m, nil) }); err != nil {
			yield(Memory{}, err)
		}
	}
}

func (c *Client) list(ctx context.Context, o ListOptions, yield func(Memory) bool) error {
	if !c.verify {
		_, err := c.pages(ctx, o, func(m Memory) (bool, error) { return yield(m), nil })
		return err
	}
	if c.namespaces != nil {
		return c.limitedList(ctx, o, yield)
	}
	head, err := c.Head(ctx)
	if err != nil {
		return err
	}
	check := &listCheck{client: c, ctx: ctx, newest: o.Order == Newest, log: verify.NewTree(), head: head}
	all, err := c.pages(ctx, o, func(m Memory) (bool, error) {
		if err := check.memory(&m); err != nil {
			return false, err
		}
		return yield(m), nil
	})
	if err != nil || !all {
		return err
	}
	return check.end()
}

// nextLink finds the URL of the next page. Only its query is used: the rest may name
// another host.
var nextLink = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="?next"?`)

// pages reads all pages. It reports whether all of them were read.
func (c *Client) pages(ctx context.Context, o ListOptions, visit func(Memory) (bool, error)) (all bool, err error) {
	query := url.Values{"limit": {strconv.Itoa(cmp.Or(o.PageSize, defaultPage))}, "order": {string(cmp.Or(o.Order, Oldest))}}.Encode()
	for {
		var page []Memory
		header, err := c.call(ctx, c.core(http.MethodGet, "/memories?"+query), &page)
		if err != nil {
			return false, err
		}
		for _, m := range page {
			if more, err := visit(m); err != nil || !more {
				return false, err
			}
		}
		next := nextLink.FindStringSubmatch(header.Get("Link"))
		if next == nil { // a page is empty if all its leaves were retracted or erased
			return true, nil
		}
		u, err := url.Parse(next[1])
		if err != nil {
			return false, serviceLies(ErrMalformed, "Link", "it is not a URL")
		}
		query = u.RawQuery
	}
}

// Mode is how a search matches.
type Mode string

// Modes. Substring is the default.
const (
	Substring Mode = "substring"
	Ranked    Mode = "ranked"
)

// SearchOptions of Search.
type SearchOptions struct {
	Mode     Mode
	Order    Order
	Filter   Filter
	PageSize int // memories a page, 1 to 1,000; 0 means 100
}

// Filter limits a search. A memory must match every field that is set.
type Filter struct {
	Source   string    `json:"source,omitzero"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"` // exclusive
	Via      *Via      `json:"via,omitzero"`
	Anchored *bool     `json:"anchored,omitzero"`
	Metadata Metadata  `json:"metadata,omitzero"`
	// A memory has all of these tags.
	Tags      []string `json:"tags,omitempty"`
	Namespace string   `json:"namespace,omitzero"`
	// Superseded says whether to find what was corrected. By default only substring search
	// does.
	Superseded *bool `json:"superseded,omitzero"`
	// When things happened: a date, or a date and time of RFC 3339. A date is its whole day,
	// UTC; a time in OccurredTo is exclusive.
	OccurredFrom string `json:"occurredFrom,omitzero"`
	OccurredTo   string `json:"occurredTo,omitzero"`
}

// FoundMemory is a result of a search.
type FoundMemory struct {
	Memory
	Score   float64  `json:"score"`   // of a ranked search; a higher score is better
	Passage *Passage `json:"passage"` // of a ranked search, if the content is long
}

// Passage is the part of a content that answers a question best.
type Passage struct {
	Text   string `json:"text"`
	Offset int    `json:"offset"` // where it begins, in characters
}

// Search finds memories. It is not verified: nothing proves that a search omits no
// memory. Get checks one memory. An error is the last pair.
func (c *Client) Search(ctx context.Context, query string, o SearchOptions) iter.Seq2[FoundMemory, error] {
	return func(yield func(FoundMemory, error) bool) {
		body := struct {
			Query  string `json:"query"`
			Mode   Mode   `json:"mode,omitzero"`
			Order  Order  `json:"order,omitzero"`
			Filter Filter `json:"filter"`
			Limit  int    `json:"limit"`
			Cursor string `json:"cursor,omitzero"`
		}{query, o.Mode, o.Order, o.Filter, cmp.Or(o.PageSize, defaultPage), ""}
		for {
			r := c.core(http.MethodPost, "/memories/search")
			r.body = body
			var page []FoundMemory
			header, err := c.call(ctx, r, &page)
			if err != nil {
				yield(FoundMemory{}, err)
				return
			}
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			if body.Cursor = header.Get("Next-Cursor"); body.Cursor == "" {
				return
			}
		}
	}
}
