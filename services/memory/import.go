package memory

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
	"github.com/memory-ledger/ledger/projections/tree"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/quota"
)

// MaxImport bounds an export that is imported, and what all of them hold on disk at a time;
// maxImportLine bounds its lines.
const (
	MaxImport     = 4 << 30
	maxImportLine = 1 << 20
)

// Errors of imports, beside those of package command.
var (
	ErrExport       = errors.New("the export can't be imported")
	ErrImportTooBig = fmt.Errorf("an import has lines of %d bytes, and %d bytes in all, at most", maxImportLine, MaxImport)
)

type ImportResult struct {
	TreeSize uint64      `json:"treeSize"`
	Root     events.Hash `json:"root"`
	Added    uint64      `json:"added"` // leaves that this request added
}

type importing struct {
	service *Service
	reader  Reader
	by      command.Credential
	file    *spool
	export  imports.Import
	added   uint64 // leaves that were added
	// corrected has the leaf hashes that memories of the export correct, and those of the
	// leaves read again so far that have them.
	corrected map[events.Hash][]uint64
}

// Import adds the leaves of an export of the reader's own log, with their salts, so that they
// are the same leaves. The log must hold nothing but the first of them. Nothing is added
// before the whole export was read and verified; until then it is kept in a file.
//
// A crash, or an error, leaves the first of the leaves, and an import that broke off: no other
// memory can be written until the same export is sent again, or the import is given up.
func (s *Service) Import(ctx context.Context, r Reader, by command.Credential, export io.Reader) (done ImportResult, err error) {
	if err := s.Quotas.Take(quota.Writes, r.Owner, 1); err != nil {
		return done, err
	}
	stored := false
	defer func() {
		if !stored {
			s.Quotas.GiveBack(quota.Writes, r.Owner, 1)
		}
	}()
	if _, err := s.Keys.FindToSeal(ctx, r.Owner); err != nil {
		return done, err // before a long body is read
	}
	present, root, err := s.whole(ctx, r)
	if err != nil {
		return done, err
	}
	x := &importing{service: s, reader: r, by: by, corrected: map[events.Hash][]uint64{}}
	if x.file, err = newSpool(s.spooled); err != nil {
		return done, err
	}
	defer x.file.close()
	if err := x.verify(io.TeeReader(&bounded{from: export}, x.file), present, root); err != nil {
		return done, err
	}
	start := &command.StartImport{Export: x.export, Equal: present, Credential: by}
	if err := s.Commands.Execute(ctx, r.Owner, start); err != nil {
		stored = errors.Is(err, eventlog.ErrUncertain)
		return ImportResult{x.export.Size, x.export.Root, 0}, x.finished(ctx, err)
	}
	if stored = start.Next < x.export.Size; stored {
		err = x.finished(ctx, x.add(ctx, start.Next))
	}
	return ImportResult{x.export.Size, x.export.Root, x.added}, err
}

// whole returns the size and the root of the reader's log.
func (s *Service) whole(ctx context.Context, r Reader) (size uint64, root events.Hash, err error) {
	e, err := s.extent(ctx, r)
	if err != nil {
		return 0, root, err
	}
	if root, err = tree.Root(ctx, s.Pool, r.Owner, e.leaves); err != nil {
		return 0, root, fmt.Errorf("root of %d leaves: %w", e.leaves, err)
	}
	return e.leaves, root, nil
}

// finished returns why an import could not start or go on; nil if another request, which had
// the same export, has finished it since this one looked at the log.
func (x *importing) finished(ctx context.Context, why error) (err error) {
	if !errors.Is(why, command.ErrNotPrefix) {
		return why
	}
	r := x.reader
	if r.Head, err = x.service.Fence.WaitOwner(ctx, r.Owner); err != nil {
		return err
	}
	size, root, err := x.service.whole(ctx, r)
	if err == nil && (size != x.export.Size || root != x.export.Root) {
		return why
	}
	return err
}

// verify reads the export as it arrives. The log's leaves must be its first ones.
func (x *importing) verify(from io.Reader, present uint64, root events.Hash) error {
	export, err := verify.ReadExport(from)
	if err != nil {
		return wrongExport(err)
	}
	h, next := export.Header, uint64(0)
	x.export = imports.Import{Root: h.Root, Size: h.TreeSize}
	switch {
	case h.Owner != string(x.reader.Owner):
		return fmt.Errorf("%w: it is of the owner %s", ErrExport, h.Owner)
	case present > h.TreeSize:
		return command.ErrNotPrefix
	}
	for m, err := range export.Memories() {
		if err == nil && m.Index+1 == present && export.Root() != root {
			return command.ErrNotPrefix
		}
		if err == nil {
			err = x.check(&m)
		}
		if err != nil && next < h.TreeSize {
			err = fmt.Errorf("leaf %d: %w", next, err)
		}
		if err != nil {
			return wrongExport(err)
		}
		next++
	}
	return nil
}

// wrongExport tells an export that is wrong from one that could not be read.
func wrongExport(err error) error {
	var wrong *verify.Error
	if errors.As(err, &wrong) {
		return fmt.Errorf("%w: %w", ErrExport, err)
	}
	return err
}

// check refuses what could not have been written here, and notes what the memory corrects.
func (x *importing) check(m *verify.ExportedMemory) error {
	year := m.CreatedAt.UTC().Year()
	if !isUUID(m.ID) || year < 0 || year > 9999 {
		return fmt.Errorf("%w: id must be a UUID, and createdAt a time of a year from 0000 to 9999", ErrExport)
	}
	if v := m.Via; v != nil {
		switch kind := events.ViaKind(v.Kind); {
		case !isUUID(v.ID), kind != events.ViaSession && kind != events.ViaKey && kind != events.ViaDrop:
			return fmt.Errorf("%w: via must be a session, a key or a drop, with a UUID", ErrExport)
		}
	}
	if m.Entry == nil {
		return nil
	}
	metadata := canonical.Trusted(m.Entry.Metadata)
	switch {
	case m.Entry.Content == "":
		return ErrEmptyContent
	case len(m.Entry.Content) > MaxContentBytes:
		return ErrContentTooLarge
	case metadata.Len() > MaxMetadataBytes:
		return ErrMetadataTooLarge
	}
	for _, hash := range correctedBy(metadata) {
		if _, known := x.corrected[hash]; !known {
			// Memory is scarcer than the disk, so this counts for more bytes than it takes.
			if err := x.file.hold(4 << 10); err != nil {
				return err
			}
			x.corrected[hash] = nil
		}
	}
	return nil
}

func isUUID(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id.String() == text
}

// correctedBy returns the leaf hashes that metadata says that a memory supersedes.
func correctedBy(metadata canonical.Object) (hashes []events.Hash) {
	if !strings.Contains(metadata.String(), `"supersedes":["`) {
		return nil
	}
	members, err := metadata.Members()
	if err != nil || json.Unmarshal(members["supersedes"], &hashes) != nil || len(hashes) > maxSuperseded {
		return nil // a member of the same name that the service did not write
	}
	return hashes
}

// add adds the leaves from one on, a message at a time, while it reads the next message.
func (x *importing) add(ctx context.Context, from uint64) error {
	messages := make(chan *command.AddImported)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(messages)
		return x.read(ctx, from, messages)
	})
	group.Go(func() error {
		for m := range messages {
			for end := m.From + uint64(len(m.Leaves)); m.Next < end; {
				if err := x.service.Commands.Execute(ctx, x.reader.Owner, m); err != nil {
					return err
				}
				x.added += m.Added
			}
		}
		return nil
	})
	return group.Wait()
}

// read reads the export again, and makes messages of its leaves from one on.
func (x *importing) read(ctx context.Context, from uint64, messages chan<- *command.AddImported) error {
	written, err := x.file.read()
	if err != nil {
		return err
	}
	export, err := verify.ReadExport(written)
	if err != nil {
		return fmt.Errorf("read the export again: %w", err)
	}
	// A message of this length is stored in some milliseconds, and then the owner's other
	// commands get their turn.
	const most = eventlog.MaxPayload / 4
	var key *keystore.OwnerKey
	var message *command.AddImported
	bytes := 0
	for m, err := range export.Memories() {
		if err != nil {
			return fmt.Errorf("read the export again: %w", err)
		}
		if message == nil {
			if key, err = x.service.Keys.FindToSeal(ctx, x.reader.Owner); err != nil {
				return err
			}
			message = &command.AddImported{Export: x.export, From: m.Index, Credential: x.by, KeyErasures: key.Erasures(), BytesPerDay: x.service.BytesPerDay}
		}
		l, err := x.leaf(&m, key)
		if err != nil {
			return err
		}
		if earlier, wanted := x.corrected[l.LeafHash]; wanted {
			x.corrected[l.LeafHash] = append(earlier, m.Index)
		}
		message.Leaves = append(message.Leaves, l)
		bytes += 1<<10 + l.Metadata.Len() + base64.StdEncoding.EncodedLen(l.SealedBytes) + 20*len(l.Supersedes)
		if bytes < most && m.Index+1 < x.export.Size {
			continue
		}
		if m.Index >= from {
			select {
			case messages <- message:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		message, bytes = nil, 0
	}
	return nil
}

// leaf returns what is written of a leaf of the export.
func (x *importing) leaf(m *verify.ExportedMemory, key *keystore.OwnerKey) (l command.ImportedLeaf, err error) {
	l = command.ImportedLeaf{LeafHash: m.LeafHash, Metadata: canonical.Empty, Salt: events.SaltNone, MemoryID: x.service.NewID(),
		Imported: events.Imported{ID: m.ID, CreatedAt: events.At(m.CreatedAt)}}
	if m.Via != nil {
		l.Imported.Via = &events.Via{Kind: events.ViaKind(m.Via.Kind), ID: m.Via.ID}
	}
	body := ""
	if e := m.Entry; e != nil {
		salt, err := hex.DecodeString(e.Salt)
		if err != nil {
			return l, err
		}
		l.Metadata, l.Salt, body = canonical.Trusted(e.Metadata), events.SaltSealed, string(salt)+e.Content
		if l.Supersedes = x.supersededBy(l.Metadata, l.Imported.Via); len(l.Supersedes) > command.MaxSuperseded {
			return l, fmt.Errorf("leaf %d: %w", m.Index, command.ErrTooManySuperseded)
		}
	}
	l.Seal = func(leaf uint64) ([]byte, int) { return key.Seal(leaf, l.MemoryID, body) }
	l.SealedBytes = len(body) + keystore.Overhead
	return l, nil
}

// supersededBy returns the earlier leaves that a memory of the export supersedes: all with
// the hashes that its metadata has. A drop's holder may write such metadata, but corrects
// nothing by it.
func (x *importing) supersededBy(metadata canonical.Object, via *events.Via) (leaves []uint64) {
	if via != nil && via.Kind == events.ViaDrop {
		return nil
	}
	hashes := correctedBy(metadata)
	for i, hash := range hashes {
		// A caller may have written one twice. More than are allowed are refused.
		if !slices.Contains(hashes[:i], hash) && len(leaves) <= command.MaxSuperseded {
			leaves = append(leaves, x.corrected[hash]...)
		}
	}
	return leaves
}

// GiveUpImport ends an import that broke off. Its leaves stay, as memories like any other.
func (s *Service) GiveUpImport(ctx context.Context, owner events.Owner, by command.Credential) error {
	return s.Commands.Execute(ctx, owner, &command.GiveUpImport{Credential: by})
}
