package memoryledger

import (
	"context"
	"errors"
	"slices"

	"github.com/memory-ledger/ledger/events/verify"
)

// listCheck checks that a list omits no memory.
type listCheck struct {
	client *Client
	ctx    context.Context // the list's
	newest bool
	head   *LogHead    // as it was before the list
	log    verify.Tree // only in a list from the oldest
	below  uint64      // in a list from the newest: the next leaf must be before this one
	begun  bool
	// gaps has the hashes of retracted leaves, as of the last export that was needed.
	gaps map[uint64]Hash
}

// memory checks the next memory of the list.
func (l *listCheck) memory(m *Memory) error {
	from, to := l.log.Size(), m.LeafIndex
	if l.newest {
		if !l.begun {
			l.below = max(l.head.TreeSize, m.LeafIndex+1)
		}
		from, to = m.LeafIndex+1, l.below
	}
	l.begun, l.below = true, m.LeafIndex
	if from > to {
		return serviceLies(ErrHidden, "leafIndex", "leaf %d is in the list twice, or out of place", m.LeafIndex)
	}
	if err := l.retracted(from, to); err != nil || l.newest {
		return err
	}
	l.log.Append(m.LeafHash)
	return nil
}

// end checks the list as a whole.
func (l *listCheck) end() error {
	if l.newest {
		if !l.begun {
			l.below = l.head.TreeSize
		}
		return l.retracted(0, l.below)
	}
	if err := l.retracted(l.log.Size(), l.head.TreeSize); err != nil {
		return err
	}
	head, err := l.client.headWith(l.ctx, l.head, l.log.Size())
	if err != nil {
		return err
	}
	err = l.client.grew(l.ctx, l.log.Size(), l.log.Root(), head.TreeSize, head.Root)
	if errors.Is(err, ErrForked) {
		return serviceLies(ErrWrongRoot, "leafHash", "the %d leaves of the list do not give a root of the log", l.log.Size())
	}
	return err
}

// retracted checks that the leaves missing from the list were retracted.
func (l *listCheck) retracted(from, to uint64) error {
	for leaf := from; leaf < to; leaf++ {
		hash, found := l.gaps[leaf]
		if !found { // it may have been retracted since the last export
			if err := l.findGaps(); err != nil {
				return err
			}
			hash, found = l.gaps[leaf]
		}
		if !found {
			return serviceLies(ErrHidden, "leafIndex", "leaf %d is not in the list, and was not retracted", leaf)
		}
		if !l.newest {
			l.log.Append(hash)
		}
	}
	return nil
}

// findGaps reads an export, which has a line without an entry for each retracted leaf.
func (l *listCheck) findGaps() error {
	l.gaps = map[uint64]Hash{}
	for m, err := range l.client.Export(l.ctx, ExportOptions{}) {
		if err != nil {
			return err
		}
		if m.Entry == nil {
			l.gaps[m.Index] = m.LeafHash
		}
	}
	return nil
}

// limitedList lists what a key sees that is limited to namespaces. Other leaves are missing
// lawfully.
func (c *Client) limitedList(ctx context.Context, o ListOptions, yield func(Memory) bool) error {
	var last *uint64
	_, err := c.pages(ctx, o, func(m Memory) (bool, error) {
		if last != nil && (o.Order == Newest) != (m.LeafIndex < *last) || last != nil && m.LeafIndex == *last {
			return false, serviceLies(ErrHidden, "leafIndex", "leaf %d is in the list twice, or out of place", m.LeafIndex)
		}
		last = &m.LeafIndex
		if name, _ := m.Metadata["namespace"].(string); !m.Damaged && !slices.Contains(c.namespaces, name) {
			return false, serviceLies(ErrWrongMemory, "metadata.namespace", "it is %q, which the key is not for", name)
		}
		known, err := c.written.compare(m.ID, m.LeafHash, m.LeafIndex)
		if err == nil && known != nil && !m.Damaged {
			err = known.entry.match(m.Content, m.Metadata)
		}
		if err != nil {
			return false, err
		}
		return yield(m), nil
	})
	return err
}
