package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/recall"
)

var (
	// ErrAbandoned: the client has closed the connection.
	ErrAbandoned = errors.New("the client closed the connection")
	// ErrEnough is returned by yield to end the chunk after the memory that it was called
	// with. Only the writer of the answer knows how many bytes a memory takes there: up to
	// six times the text.
	ErrEnough = errors.New("no more for now")
	// ErrDamaged: what the read models store of a memory does not match its leaf.
	ErrDamaged = errors.New("the stored copy of this memory is damaged; the operator must run `ledger rebuild --force`")
)

const (
	// chunkRows bounds the memories read from the database at a time; pieceBytes bounds
	// them, too. A log only grows, so successive chunks form one consistent list without a
	// transaction that a slow reader would hold open.
	chunkRows = 500
	// shortRows bounds the first read, because its rows may be long.
	shortRows = 64
	// pieceBytes is about how many bytes are read in one time slot.
	pieceBytes = 4 << 20
)

// More reports whether there may be anything left to read.
func (p *Picked) More() bool { return len(p.hits) > 0 || p.from < p.to }

// Size returns how many leaves the log had when the selection was made.
func (p *Picked) Size() uint64 { return p.log }

// Kept returns how many of the log's first leaves, up to Selection.To, have a text and pass
// the filter.
func (p *Picked) Kept() uint64 { return uint64(p.passing.Count()) }

// LeftOut counts the damaged memories that were left out so far.
func (p *Picked) LeftOut() int { return p.leftOut }

// Next reads the next memories and calls yield for each. It may yield none even if more
// memories follow.
//
// The work is done in a time slot of the owner's. yield is called within the slot, so it
// must not block.
func (p *Picked) Next(ctx context.Context, yield func(*View) error) error {
	if len(p.hits) == 0 {
		if err := p.look(ctx); err != nil {
			return err
		}
		if p.leaveOut(); len(p.hits) == 0 {
			return nil
		}
	}
	return p.slot(ctx, func() error {
		rows, bytes, err := p.read(ctx, p.hits[:min(len(p.hits), cmp.Or(p.rows, shortRows), chunkRows)])
		if err != nil {
			return err
		}
		p.rows = max(1, pieceBytes/max(1, bytes/len(rows)))
		left := len(p.hits)
		err = p.yield(rows, yield)
		if taken := left - len(p.hits); taken < len(rows) {
			p.rows = min(p.rows, max(1, 2*taken)) // the others are read again
		}
		return err
	})
}

func (p *Picked) read(ctx context.Context, hits []recall.Hit) (rows []*memories.Memory, bytes int, err error) {
	leaves := make([]uint64, len(hits))
	for i, h := range hits {
		leaves[i] = h.Leaf
	}
	slices.Sort(leaves)
	found, err := memories.At(ctx, p.service.Pool, p.reader.Owner, leaves)
	if err != nil {
		return nil, 0, fmt.Errorf("read memories: %w", err)
	}
	byLeaf := make(map[uint64]*memories.Memory, len(found))
	for _, m := range found {
		byLeaf[m.LeafIndex] = m
		bytes += sizeOf(m)
	}
	rows = make([]*memories.Memory, len(hits))
	for i, h := range hits {
		if rows[i] = byLeaf[h.Leaf]; rows[i] == nil { // no row has this owner and index
			rows[i] = &memories.Memory{ID: uuid.Nil.String(), Owner: p.reader.Owner, LeafIndex: h.Leaf}
		}
	}
	return rows, bytes, nil
}

// yield opens the rows of the next hits and calls yield for each memory.
func (p *Picked) yield(rows []*memories.Memory, yield func(*View) error) error {
	opener, damaged := p.key.Opener(), 0
	defer func() { p.service.tellDamaged(p.reader, damaged) }()
	for _, m := range rows {
		hit := p.hits[0]
		v, err := openRow(p.key, opener, m)
		switch {
		case v.retracted && !p.selection.Every: // since it was selected
			p.hits = p.hits[1:]
			continue
		case errors.Is(err, ErrDamaged):
			if damaged++; !p.selection.Damaged {
				p.leftOut++
				p.hits = p.hits[1:]
				continue
			}
		}
		if !v.Damaged {
			v.correct(m, func(other memories.Other) bool { return p.visible == nil || p.visible.Has(other.Leaf) })
		}
		if p.selection.Ranked {
			v.Score = &hit.Score
		}
		if err := yield(&v); err != nil && !errors.Is(err, ErrEnough) {
			return err
		} else if p.hits = p.hits[1:]; err != nil {
			return nil
		}
	}
	return nil
}

// openRow opens a row, and compares what is in it with its leaf. The view of a damaged row
// has neither text nor metadata; it comes with ErrDamaged. ErrRetracted: the memory was
// forgotten after the row was read.
func openRow(key *keystore.OwnerKey, opener *keystore.Opener, m *memories.Memory) (View, error) {
	v := View{
		ID: m.ID, Metadata: jsontext.Value(m.Metadata.String()), LeafHash: m.LeafHash,
		LeafIndex: m.LeafIndex, BatchID: m.BatchID, Anchored: m.Anchored, CreatedAt: m.CreatedAt, Via: m.Via, Imported: m.Imported,
		salt: m.Salt, retracted: m.Retracted,
	}
	if m.Retracted {
		return v, nil
	}
	body, err := opener.Open(m.Sealing, m.LeafIndex, []byte(m.ID), m.Sealed)
	if errors.Is(err, keystore.ErrLeafDestroyed) {
		v.retracted = true
		return v, ErrRetracted
	}
	if err == nil {
		v.ownSalt, v.Content = m.Salt.Split(string(body))
		if hash, err := v.hash(key, leaf.Memory{Content: v.Content, Metadata: m.Metadata, Owner: m.Owner}); err == nil && hash == m.LeafHash {
			return v, nil
		}
	}
	v.Content, v.Metadata, v.Damaged = "", jsontext.Value(`{}`), true
	return v, fmt.Errorf("%w (leaf %d of %s)", ErrDamaged, m.LeafIndex, m.Owner)
}

func (v *View) hash(key *keystore.OwnerKey, m leaf.Memory) (leaf.Hash, error) {
	if v.ownSalt != "" {
		return leaf.Leaf{Memory: m, Salt: v.ownSalt}.Hash()
	}
	secret, err := key.LeafSecret(v.salt, v.Via)
	if err != nil {
		return leaf.Hash{}, err
	}
	return leaf.Commit(secret, m)
}

// tellDamaged logs and counts memories that were found damaged.
func (s *Service) tellDamaged(r Reader, damaged int) {
	if damaged == 0 {
		return
	}
	s.DamagedMemories.Add(uint64(damaged))
	s.Logger.Error("memories in the database do not match their leaves: run `ledger verify`, then `ledger rebuild --force`",
		slog.String("owner", string(r.Owner)), slog.Int("memories", damaged))
}
