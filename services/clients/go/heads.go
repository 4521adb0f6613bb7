package memoryledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
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

// HeadStore keeps the newest head of each owner, by public key. Keep heads as long as you
// can: a fork is detected only against a kept head. Load returns nil for an owner without
// a head.
type HeadStore interface {
	Load(ctx context.Context, owner string) (*SeenHead, error)
	Save(ctx context.Context, owner string, head SeenHead) error
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

func (m *memoryHeads) Save(_ context.Context, owner string, head SeenHead) error {
	m.byOwner[owner] = head
	return nil
}

// FileHeads is a HeadStore in a JSON file, for programs that run repeatedly. A crash
// during Save leaves either the old file or the new one.
type FileHeads string

// Load implements HeadStore.
func (f FileHeads) Load(_ context.Context, owner string) (*SeenHead, error) {
	all, err := f.read()
	if head, found := all[owner]; found {
		return &head, nil
	}
	return nil, err
}

// Save implements HeadStore.
func (f FileHeads) Save(_ context.Context, owner string, head SeenHead) error {
	all, err := f.read()
	if err != nil {
		return err
	}
	all[owner] = head
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails after the rename
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), string(f))
}

func (f FileHeads) read() (map[string]SeenHead, error) {
	all := map[string]SeenHead{}
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// heads compares each head with the newest one that was seen.
type heads struct {
	store HeadStore
	// Heads are checked one at a time: two crossing answers would look like a log that
	// shrank.
	turn chan struct{}
}

func newHeads(store HeadStore) heads { return heads{store, make(chan struct{}, 1)} }

// Head returns the log's head. It must extend the last one that this client saw.
func (c *Client) Head(ctx context.Context) (*LogHead, error) {
	if !c.verify {
		return c.askHead(ctx)
	}
	select {
	case c.heads.turn <- struct{}{}:
		defer func() { <-c.heads.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	owner := c.Owner()
	var known *SeenHead
	var err error
	// Read before the request: another process could store a newer head in the meantime.
	if owner != "" {
		known, err = c.heads.store.Load(ctx, owner)
	}
	if err != nil {
		return nil, fmt.Errorf("memoryledger: load head: %w", err)
	}
	head, err := c.askHead(ctx)
	if err != nil {
		return nil, err
	}
	if owner == "" {
		owner = head.Owner
		known, err = c.heads.store.Load(ctx, owner)
	}
	if err != nil {
		return nil, fmt.Errorf("memoryledger: load head: %w", err)
	}
	if head.Owner != owner {
		return nil, serviceLies(ErrWrongOwner, "owner", "it is %s, this client is of %s", head.Owner, owner)
	}
	if err := head.verifyForm(); err != nil {
		return nil, err
	}
	if err := c.extends(ctx, known, head); err != nil {
		return nil, err
	}
	c.setOwner(owner)
	if err := c.heads.store.Save(ctx, owner, SeenHead{head.TreeSize, head.Root, head.AnchoredSize, head.AnchoredRoot}); err != nil {
		return nil, fmt.Errorf("memoryledger: save head: %w", err)
	}
	return head, nil
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
	case !isBase58(h.Owner, 32):
		return serviceLies(ErrMalformed, "owner", "it is not a public key in base58")
	case h.TreeSize < h.AnchoredSize:
		return serviceLies(ErrMalformed, "treeSize", "it is %d, less than anchoredSize %d", h.TreeSize, h.AnchoredSize)
	case h.TreeSize == 0 && h.Root != emptyRoot:
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
			return serviceLies(ErrShrunk, "treeSize", "it is %d, it was %d", head.TreeSize, before.Size)
		}
		if head.AnchoredSize < before.AnchoredSize {
			return serviceLies(ErrShrunk, "anchoredSize", "it is %d, it was %d", head.AnchoredSize, before.AnchoredSize)
		}
		if err := c.grew(ctx, before.Size, before.Root, head.TreeSize, head.Root); err != nil {
			return err
		}
	}
	switch {
	case head.AnchoredRoot == nil:
		return nil
	case before != nil && before.AnchoredRoot != nil && head.AnchoredSize == before.AnchoredSize:
		return c.grew(ctx, before.AnchoredSize, *before.AnchoredRoot, head.AnchoredSize, *head.AnchoredRoot)
	}
	return c.grew(ctx, head.AnchoredSize, *head.AnchoredRoot, head.TreeSize, head.Root)
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
	if from == to && fromRoot == toRoot || from == 0 && fromRoot == emptyRoot {
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
	if from == 0 && fromRoot == emptyRoot && len(p.Proof) == 0 {
		return nil
	}
	root, err := consistency(from, to, fromRoot, p.Proof)
	if err == nil && root != toRoot {
		err = fmt.Errorf("it leads to %s, not to %s", root, toRoot)
	}
	if err != nil {
		return serviceLies(ErrForked, "root", "the log of %d leaves does not extend that of %d: %v", to, from, err)
	}
	return nil
}
