package memoryledger

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// LogHead is the size and root of the owner's log, current and anchored.
type LogHead struct {
	Owner        string  `json:"owner"`
	TreeSize     uint64  `json:"treeSize"`
	Root         Hash    `json:"root"`
	AnchoredSize uint64  `json:"anchoredSize"`
	AnchoredRoot *Hash   `json:"anchoredRoot"` // nil before the first anchor
	TxSignature  *string `json:"txSignature"`
}

// SeenHead is the part of a head that a client remembers.
type SeenHead struct {
	Size         uint64 `json:"size"`
	Root         Hash   `json:"root"`
	AnchoredSize uint64 `json:"anchoredSize"`
	AnchoredRoot *Hash  `json:"anchoredRoot"` // nil before the first anchor
}

// Equal reports whether two heads are the same, or both nil.
func (h *SeenHead) Equal(other *SeenHead) bool {
	if h == nil || other == nil {
		return h == other
	}
	sameRoot := h.AnchoredRoot == other.AnchoredRoot || h.AnchoredRoot != nil && other.AnchoredRoot != nil && *h.AnchoredRoot == *other.AnchoredRoot
	return h.Size == other.Size && h.Root == other.Root && h.AnchoredSize == other.AnchoredSize && sameRoot
}

// HeadStore keeps the newest head of each owner, by public key. Keep heads as long as you
// can: a fork is detected only against a kept head.
type HeadStore interface {
	// Load returns nil for an owner without a head.
	Load(ctx context.Context, owner string) (*SeenHead, error)
	// Replace stores a head if the stored one still equals old, or if there is none and old
	// is nil. It reports whether it did. Other processes may call it at the same time, so
	// comparing and storing must be one step: otherwise a slow process could store a head
	// that another one has already passed, and a fork in between would go unnoticed.
	Replace(ctx context.Context, owner string, old *SeenHead, head SeenHead) (bool, error)
}

// memoryHeads is guarded by the lock of heads.
type memoryHeads struct{ byOwner map[string]SeenHead }

func (m *memoryHeads) Load(_ context.Context, owner string) (*SeenHead, error) {
	head, found := m.byOwner[owner]
	if !found {
		return nil, nil
	}
	return &head, nil
}

func (m *memoryHeads) Replace(_ context.Context, owner string, _ *SeenHead, head SeenHead) (bool, error) {
	m.byOwner[owner] = head
	return true, nil
}

// heads compares each head with the newest one that was seen.
type heads struct {
	store HeadStore
	// Heads are checked one at a time: two crossing answers would look like a log that
	// shrank.
	turn chan struct{}
}

func newHeads(store HeadStore) heads { return heads{store, make(chan struct{}, 1)} }

// begin waits for the turn. The caller ends it.
func (h heads) begin(ctx context.Context) (end func(), err error) {
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Head returns the log's head. It must extend the last one that this client saw. If it does
// not, the error is ErrShrunk or ErrForked: the service lies, or its operator restored an
// older backup. AcceptLog goes on after a restore.
func (c *Client) Head(ctx context.Context) (*LogHead, error) {
	if !c.verify {
		return c.askHead(ctx)
	}
	end, err := c.heads.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return c.nextHead(ctx)
}

// AcceptLog forgets the head that this client saw, and starts from the log that the service
// shows now. Call it only if the operator said, by another way than the service, that a
// backup was restored. Later memories than that backup are gone.
func (c *Client) AcceptLog(ctx context.Context) (*LogHead, error) {
	end, err := c.heads.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	owner := c.Owner()
	if owner == "" {
		head, err := c.askHead(ctx)
		if err != nil {
			return nil, err
		}
		owner = head.Owner
	}
	for replaced := false; !replaced; {
		known, err := c.heads.store.Load(ctx, owner)
		if err != nil {
			return nil, fmt.Errorf("memoryledger: load head: %w", err)
		}
		// Each log extends the empty one.
		if replaced, err = c.heads.store.Replace(ctx, owner, known, SeenHead{Root: verify.EmptyRoot}); err != nil {
			return nil, fmt.Errorf("memoryledger: save head: %w", err)
		}
	}
	return c.nextHead(ctx)
}

// nextHead gets heads until one extends the stored head and is stored. Another process may
// have stored its own meanwhile. Then the next head must extend that one.
func (c *Client) nextHead(ctx context.Context) (*LogHead, error) {
	for {
		head, stored, err := c.compareHead(ctx)
		if err != nil || stored {
			return head, err
		}
	}
}

func (c *Client) compareHead(ctx context.Context) (head *LogHead, stored bool, err error) {
	owner := c.Owner()
	var known *SeenHead
	// Read before the request: another process could store a newer head in the meantime.
	if owner != "" {
		known, err = c.heads.store.Load(ctx, owner)
	}
	if err != nil {
		return nil, false, fmt.Errorf("memoryledger: load head: %w", err)
	}
	if head, err = c.askHead(ctx); err != nil {
		return nil, false, err
	}
	if err := head.verifyForm(); err != nil {
		return nil, false, err
	}
	if owner == "" {
		owner = head.Owner
		known, err = c.heads.store.Load(ctx, owner)
	}
	if err != nil {
		return nil, false, fmt.Errorf("memoryledger: load head: %w", err)
	}
	if head.Owner != owner {
		return nil, false, serviceLies(ErrWrongOwner, "owner", "it is %s, this client is of %s", head.Owner, owner)
	}
	if err := c.extends(ctx, known, head); err != nil {
		return nil, false, err
	}
	c.setOwner(owner)
	seen := SeenHead{head.TreeSize, head.Root, head.AnchoredSize, head.AnchoredRoot}
	if known.Equal(&seen) {
		return head, true, nil
	}
	// A crash before this line loses a head: the next process compares with the one before.
	if stored, err = c.heads.store.Replace(ctx, owner, known, seen); err != nil {
		return nil, false, fmt.Errorf("memoryledger: save head: %w", err)
	}
	return head, stored, nil
}

// headWith returns the given head, or a newer one if a log of size leaves was shown since.
// What was shown must be part of a head that this client remembers: otherwise the log could
// go on without it.
func (c *Client) headWith(ctx context.Context, head *LogHead, size uint64) (*LogHead, error) {
	if size <= head.TreeSize {
		return head, nil
	}
	return c.Head(ctx)
}

func (c *Client) askHead(ctx context.Context) (*LogHead, error) {
	head := new(LogHead)
	_, err := c.call(ctx, c.core(http.MethodGet, "/log"), head)
	return head, err
}

func (h *LogHead) verifyForm() error {
	switch {
	case !leaf.IsBase58(h.Owner, 32):
		return serviceLies(ErrMalformed, "owner", "it is not a public key in base58")
	case h.TreeSize < h.AnchoredSize:
		return serviceLies(ErrMalformed, "treeSize", "it is %d, less than anchoredSize %d", h.TreeSize, h.AnchoredSize)
	case h.TreeSize == 0 && h.Root != verify.EmptyRoot:
		return serviceLies(ErrMalformed, "root", "it is %s in an empty log", h.Root)
	case (h.AnchoredRoot == nil) != (h.AnchoredSize == 0):
		return serviceLies(ErrMalformed, "anchoredRoot", "it does not go with anchoredSize %d", h.AnchoredSize)
	}
	return nil
}

// extends checks that a head extends the previous head, and its own anchor.
func (c *Client) extends(ctx context.Context, before *SeenHead, head *LogHead) error {
	if before != nil {
		if head.TreeSize < before.Size {
			return orRestored(serviceLies(ErrShrunk, "treeSize", "it is %d, it was %d", head.TreeSize, before.Size))
		}
		if head.AnchoredSize < before.AnchoredSize {
			return orRestored(serviceLies(ErrShrunk, "anchoredSize", "it is %d, it was %d", head.AnchoredSize, before.AnchoredSize))
		}
		if err := c.grew(ctx, before.Size, before.Root, head.TreeSize, head.Root); err != nil {
			return orRestored(err)
		}
	}
	switch {
	case head.AnchoredRoot == nil:
		return nil
	case before != nil && before.AnchoredRoot != nil && head.AnchoredSize == before.AnchoredSize:
		return orRestored(c.grew(ctx, before.AnchoredSize, *before.AnchoredRoot, head.AnchoredSize, *head.AnchoredRoot))
	}
	return c.grew(ctx, head.AnchoredSize, *head.AnchoredRoot, head.TreeSize, head.Root)
}

// orRestored adds the lawful cause to the error for a head that does not extend the one
// before.
func orRestored(err error) error {
	var v *VerificationError
	if !errors.As(err, &v) || !errors.Is(v.Kind, ErrShrunk) && !errors.Is(v.Kind, ErrForked) {
		return err
	}
	told := *v
	told.Problem += "; or the operator restored an older backup: AcceptLog goes on from there"
	return &told
}

// ConsistencyProof shows that the log of From leaves is a prefix of the log of To leaves.
type ConsistencyProof struct {
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	FromRoot Hash   `json:"fromRoot"`
	ToRoot   Hash   `json:"toRoot"`
	Proof    []Hash `json:"proof"`
}

// Consistency returns a proof between two sizes, checked against the two roots in it.
func (c *Client) Consistency(ctx context.Context, from, to uint64) (*ConsistencyProof, error) {
	p, err := c.askConsistency(ctx, from, to)
	if err != nil || !c.verify {
		return p, err
	}
	return p, p.verify(from, p.FromRoot, to, p.ToRoot)
}

func (c *Client) askConsistency(ctx context.Context, from, to uint64) (*ConsistencyProof, error) {
	p := new(ConsistencyProof)
	_, err := c.call(ctx, c.core(http.MethodGet, fmt.Sprintf("/log/consistency?from=%d&to=%d", from, to)), p)
	return p, err
}

// grew checks with a proof from the service that a log only grew.
func (c *Client) grew(ctx context.Context, from uint64, fromRoot Hash, to uint64, toRoot Hash) error {
	if from == to && fromRoot == toRoot || from == 0 && fromRoot == verify.EmptyRoot {
		return nil
	}
	p := &ConsistencyProof{From: from, To: to}
	if from < to {
		var err error
		if p, err = c.askConsistency(ctx, from, to); err != nil {
			return err
		}
	}
	return p.verify(from, fromRoot, to, toRoot)
}

func (p *ConsistencyProof) verify(from uint64, fromRoot Hash, to uint64, toRoot Hash) error {
	if p.From != from || p.To != to {
		return serviceLies(ErrMalformed, "proof", "it is from %d to %d leaves, not from %d to %d", p.From, p.To, from, to)
	}
	if from == 0 && fromRoot == verify.EmptyRoot && len(p.Proof) == 0 {
		return nil
	}
	root, err := verify.Consistency(from, to, fromRoot, p.Proof)
	if err == nil && root != toRoot {
		err = fmt.Errorf("it leads to %s, not to %s", root, toRoot)
	}
	if err != nil {
		return serviceLies(ErrForked, "root", "the log of %d leaves does not extend that of %d: %v", to, from, err)
	}
	return nil
}
