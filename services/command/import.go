package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
)

var (
	// ErrImporting: an import is running, or broke off.
	ErrImporting = errors.New("an import of a whole log is running or broke off; other memories can be written once it ends or is given up")
	// ErrNotPrefix: the log is not the beginning of the export.
	ErrNotPrefix = errors.New("the log holds something else than the beginning of this export")
	// ErrImportEnded: the import was given up, or another request completed it.
	ErrImportEnded = fmt.Errorf("the import ended meanwhile: %w", ErrNotPrefix)
	// ErrNoImport: no import is running.
	ErrNoImport = errors.New("no import is running")
)

// StartImport begins to import an export, or goes on with it. A crash after it leaves an
// import that broke off.
type StartImport struct {
	Export imports.Import
	// Equal is how many leaves of the log were found to be the export's first ones.
	Equal      uint64
	Credential Credential

	// Next is the answer: the first leaf that is missing.
	Next uint64
}

func (c *StartImport) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	c.Next = s.Leaves
	switch {
	case s.Importing != nil && *s.Importing != c.Export:
		return Decision{}, ErrImporting
	case s.Importing != nil:
		return Decision{}, nil // its own leaves may have been added meanwhile
	case s.Leaves != c.Equal:
		return Decision{}, ErrNotPrefix
	case s.Leaves == c.Export.Size:
		return Decision{}, nil
	}
	return Decision{events.KindMemory, []events.Data{&events.ImportStarted{Root: c.Export.Root, Size: c.Export.Size, Leaves: s.Leaves}}}, nil
}

type ImportedLeaf struct {
	MemoryID   string
	LeafHash   events.Hash
	Metadata   canonical.Object
	Salt       events.Salt // sealed; or none, if the export has no entry
	Supersedes []uint64
	Imported   events.Imported
	// Seal and SealedBytes are as in WriteMemory.
	Seal        func(leaf uint64) (sealed []byte, sealing int)
	SealedBytes int
}

// AddImported adds leaves of the export that is being imported, in one message. With the last
// leaf of the export, the import ends.
type AddImported struct {
	Export      imports.Import
	From        uint64 // the index of the first of Leaves; those that the log has are skipped
	Leaves      []ImportedLeaf
	Credential  Credential
	KeyErasures int   // as in WriteMemory
	BytesPerDay int64 // as in WriteMemory; as many leaves are added as fit

	// Next and Added are the answer: the first leaf that is missing, and how many were added.
	Next, Added uint64
}

func (c *AddImported) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	c.Next, c.Added = s.Leaves, 0
	switch {
	case s.Importing == nil || *s.Importing != c.Export || s.Leaves < c.From:
		return Decision{}, ErrImportEnded
	case s.Leaves >= c.From+uint64(len(c.Leaves)):
		return Decision{}, nil // another request has added them
	case c.KeyErasures < s.Erased.Times:
		return Decision{}, ErrKeyErased
	}
	d, bytes := Decision{Kind: events.KindMemory}, int64(0)
	for _, l := range c.Leaves[s.Leaves-c.From:] {
		bytes += bytesOf(l.SealedBytes, l.Metadata.Len())
		if err := s.admitBytes(now, bytes, c.BytesPerDay); err != nil {
			if len(d.Events) == 0 {
				return Decision{}, err
			}
			break
		}
		written := l.event(c.Next, c.Credential.Via())
		d.Events = append(d.Events, written)
		c.Next++
		if l.Salt == events.SaltNone {
			d.Events = append(d.Events, &events.MemoryRetracted{MemoryID: l.MemoryID, LeafIndex: written.LeafIndex, Leaves: c.Next})
		}
	}
	if c.Added = c.Next - s.Leaves; c.Next == c.Export.Size {
		d.Events = append(d.Events, &events.ImportFinished{Root: c.Export.Root, Reason: events.ImportComplete, Leaves: c.Next})
	}
	return d, nil
}

func (l *ImportedLeaf) event(index uint64, via events.Via) *events.MemoryWritten {
	sealed, sealing := l.Seal(index)
	return &events.MemoryWritten{
		MemoryID: l.MemoryID, LeafIndex: index, LeafHash: l.LeafHash, LeafVersion: leaf.Version, Metadata: jsontext.Value(l.Metadata.String()),
		Sealed: sealed, Via: &via, Salt: l.Salt, Sealing: sealing, Supersedes: l.Supersedes, Imported: &l.Imported,
	}
}

// GiveUpImport ends an import that is not complete. The leaves that it added stay.
type GiveUpImport struct{ Credential Credential }

func (c *GiveUpImport) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if s.Importing == nil {
		return Decision{}, ErrNoImport
	}
	return Decision{events.KindMemory, s.endImport()}, nil
}

// endImport returns the event that ends a running import before its last leaf.
func (s *State) endImport() []events.Data {
	if s.Importing == nil {
		return nil
	}
	return []events.Data{&events.ImportFinished{Root: s.Importing.Root, Reason: events.ImportGivenUp, Leaves: s.Leaves}}
}
