package verify

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events/verify/leaf"
)

const (
	// ExportFormat is the name of the format of exports.
	ExportFormat = "memory-ledger/export/1"
	// maxLine is the longest line that is read: a content of 256 KiB with each byte
	// escaped, plus metadata.
	maxLine = 4 << 20
)

// ExportHeader is the first line of an export.
type ExportHeader struct {
	Format   string `json:"format"`
	Owner    string `json:"owner"` // public key, base58
	TreeSize uint64 `json:"treeSize"`
	Root     Hash   `json:"root"`
	// Anchor is the newest commitment, to the first Anchor.CommittedSize leaves. It is
	// nil if there is none.
	Anchor *Anchor `json:"anchor"`
}

// ExportedMemory is a leaf of an export. ID, CreatedAt and Via are claims of the service:
// no hash proves them.
type ExportedMemory struct {
	Index     uint64
	ID        string
	CreatedAt time.Time
	Via       *Via
	LeafHash  Hash
	// Entry is nil if the memory was retracted, erased or damaged. Its hash stays. Its
	// metadata are in canonical form.
	Entry *Entry
	// Damaged: what the service stores of the memory does not match its leaf.
	Damaged bool
}

// Via is how a memory was written.
type Via struct {
	Kind string `json:"kind"` // session, key or drop
	ID   string `json:"id,omitzero"`
}

// Export is an export that is being read.
type Export struct {
	Header ExportHeader

	in   *bufio.Reader
	line uint64 // the last line read, from 1
	text []byte
	tree Tree
}

// ReadExport reads the header of an export, the answer of GET /export. Memories reads the
// rest. The error is an *Error, or the reader's.
func ReadExport(r io.Reader) (*Export, error) {
	e := &Export{in: bufio.NewReaderSize(r, 1<<16), tree: NewTree()}
	if err := e.read(); err != nil {
		return nil, err
	}
	var anchor jsontext.Value
	h := &e.Header
	err := readObject(e.text, "header", "", member{"format", &h.Format}, member{"owner", &h.Owner}, member{"treeSize", &h.TreeSize},
		member{"root", &h.Root}, member{"anchor", &anchor})
	if err == nil && h.Format != ExportFormat {
		err = Wrong(ErrMalformed, "format", "it is not %s", ExportFormat)
	}
	if err == nil && !leaf.IsBase58(h.Owner, 32) {
		err = Wrong(ErrMalformed, "owner", "it is not a public key in base58")
	}
	if err == nil {
		h.Anchor, err = readAnchor(anchor)
	}
	if err == nil && h.Anchor != nil {
		err = h.Anchor.verifyForm()
		if size := h.Anchor.CommittedSize; err == nil && (size == 0 || size > h.TreeSize) {
			err = Wrong(ErrChain, "anchor.committedSize", "it is %d of treeSize %d", size, h.TreeSize)
		}
	}
	return e, e.at(e.line, err)
}

// Memories reads the leaves in order, and checks each one, the root, the anchor's root
// and that the export is complete. Leaves are proven only after all were read without an
// error. An error is the last pair. It is an *Error, or the reader's. An
// Export can be read once.
func (e *Export) Memories() iter.Seq2[ExportedMemory, error] {
	return func(yield func(ExportedMemory, error) bool) {
		for e.tree.Size() < e.Header.TreeSize {
			m, err := e.memory()
			if err != nil {
				yield(ExportedMemory{}, err)
				return
			}
			if !yield(m, nil) {
				return
			}
		}
		if err := e.end(); err != nil {
			yield(ExportedMemory{}, err)
		}
	}
}

// Root returns the root of the leaves that were read so far.
func (e *Export) Root() Hash { return e.tree.Root() }

// at sets the line of an Error.
func (e *Export) at(line uint64, err error) error {
	if v, ok := errors.AsType[*Error](err); ok {
		v.Line = line
	}
	return err
}

// read reads the next line, without its end, into e.text.
func (e *Export) read() error {
	e.line++
	e.text = e.text[:0]
	for {
		part, err := e.in.ReadSlice('\n')
		e.text = append(e.text, part...)
		switch {
		case len(e.text) > maxLine:
			return e.at(e.line, Wrong(ErrMalformed, "line", "it has more than %d bytes", maxLine))
		case err == nil:
			e.text = bytes.TrimSuffix(e.text, []byte("\n"))
			return nil
		case errors.Is(err, io.EOF):
			return e.at(e.line, Wrong(ErrIncomplete, "line", "it is missing or breaks off: the export is not whole"))
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: line %d: %w", ErrIncomplete, e.line, err)
		}
	}
}

func (e *Export) memory() (m ExportedMemory, err error) {
	if err := e.read(); err != nil {
		return m, err
	}
	var via, entry jsontext.Value
	err = readObject(e.text, "leaf", "", member{"index", &m.Index}, member{"id", &m.ID}, member{"createdAt", &m.CreatedAt},
		member{"via", &via}, member{"leafHash", &m.LeafHash}, member{"entry", &entry},
		member{"damaged", optional{&m.Damaged}})
	if next := e.tree.Size(); err == nil && m.Index != next {
		err = Wrong(ErrHidden, "index", "it is %d, and %d comes next: a leaf is missing, twice, or out of place", m.Index, next)
	}
	if err == nil && via.Kind() != 'n' {
		m.Via = new(Via)
		err = readObject(via, "via", "via.", member{"kind", &m.Via.Kind}, member{"id", &m.Via.ID})
	}
	if err == nil && entry.Kind() != 'n' {
		m.Entry, err = e.entry(entry, m.LeafHash)
	}
	if err != nil {
		return m, e.at(e.line, err)
	}
	e.tree.Append(m.LeafHash)
	if a := e.Header.Anchor; a != nil && a.CommittedSize == e.tree.Size() {
		return m, e.compare(a.CommittedRoot, "anchor.committedRoot")
	}
	return m, nil
}

// entry checks that an entry is the owner's and hashes to its leaf.
func (e *Export) entry(raw jsontext.Value, want Hash) (*Entry, error) {
	entry := new(Entry)
	if err := entry.read(raw); err != nil {
		return nil, err
	}
	if entry.Owner != e.Header.Owner {
		return nil, Wrong(ErrWrongOwner, "entry.owner", "it is %s, the export is of %s", entry.Owner, e.Header.Owner)
	}
	hash, metadata, err := entry.leafHash()
	if err != nil {
		return nil, err
	}
	entry.Metadata = jsontext.Value(metadata.String())
	if hash != want {
		return nil, Wrong(ErrWrongLeaf, "leafHash", "it is %s, the entry hashes to %s", want, hash)
	}
	return entry, nil
}

// compare compares the root of the leaves so far with a root from the header.
func (e *Export) compare(want Hash, field string) error {
	if root := e.Root(); root != want {
		return e.at(1, Wrong(ErrWrongRoot, field, "it is %s, the first %d leaves have the root %s", want, e.tree.Size(), root))
	}
	return nil
}

func (e *Export) end() error {
	if err := e.read(); err != nil {
		return err
	}
	var complete bool
	var leaves uint64
	err := readObject(e.text, "end", "", member{"complete", &complete}, member{"leaves", &leaves})
	if err == nil && !complete {
		err = Wrong(ErrIncomplete, "complete", "it is not true")
	}
	if err == nil && leaves != e.Header.TreeSize {
		err = Wrong(ErrIncomplete, "leaves", "it is not treeSize %d", e.Header.TreeSize)
	}
	if err != nil {
		return e.at(e.line, err)
	}
	switch _, err := e.in.ReadByte(); {
	case err == nil:
		return e.at(e.line+1, Wrong(ErrMalformed, "line", "there is more after the last line"))
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: line %d: %w", ErrIncomplete, e.line+1, err)
	}
	return e.compare(e.Header.Root, "root")
}
