package export

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
)

// maxLine bounds a line. It fits a content of 256 KiB with each byte escaped, and
// metadata.
const maxLine = 4 << 20

// Summary is the result of verifying a good export.
type Summary struct {
	Header  Header
	Opened  uint64 // leaves that have an entry that hashes to them
	Without uint64 // leaves whose entry is null
}

// Verify reads an export and checks it offline. The error is a *Finding, or the reader's
// error. If progress is set, it is called after each leaf with the number of checked
// leaves and the total.
func Verify(r io.Reader, progress func(n, total uint64)) (*Summary, error) {
	v := &verifier{in: bufio.NewReaderSize(r, 1<<16), tree: (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)}
	if err := v.header(); err != nil {
		return nil, err
	}
	for n := range v.Header.TreeSize {
		if err := v.leaf(n); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(n+1, v.Header.TreeSize)
		}
	}
	if err := v.end(); err != nil {
		return nil, err
	}
	return &v.Summary, v.root(v.Header.TreeSize, v.Header.Root, "root")
}

type verifier struct {
	Summary
	in   *bufio.Reader
	line uint64 // number of the last line read, from 1
	text []byte
	tree *compact.Range
}

func (v *verifier) wrong(format string, args ...any) error {
	return &Finding{v.line, fmt.Sprintf(format, args...)}
}

// read reads the next line, without its newline, into v.text.
func (v *verifier) read() error {
	v.line++
	v.text = v.text[:0]
	for {
		part, err := v.in.ReadSlice('\n')
		v.text = append(v.text, part...)
		switch {
		case len(v.text) > maxLine:
			return v.wrong("it has more than %d bytes", maxLine)
		case err == nil:
			v.text = bytes.TrimSuffix(v.text, []byte("\n"))
			return nil
		case errors.Is(err, io.EOF) && len(v.text) == 0:
			return v.wrong("it is missing: the export is not whole")
		case errors.Is(err, io.EOF):
			return v.wrong("it breaks off: the export is not whole")
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// decode reads an object that has no unknown members.
func (v *verifier) decode(text []byte, into any) error {
	if jsontext.Value(text).Kind() != '{' {
		return v.wrong("it is not a JSON object")
	}
	if err := json.Unmarshal(text, into, json.RejectUnknownMembers(true)); err != nil {
		return v.wrong("malformed: %v", err)
	}
	return nil
}

func (v *verifier) header() error {
	if err := v.read(); err != nil {
		return err
	}
	var raw rawHeader
	if err := v.decode(v.text, &raw); err != nil {
		return err
	}
	switch {
	case raw.Format == nil || *raw.Format != Format:
		return v.wrong("format: it is not %s", Format)
	case raw.Owner == nil || raw.TreeSize == nil || raw.Root == nil || raw.Anchor == nil:
		return v.wrong("owner, treeSize, root or anchor is missing")
	}
	v.Header = Header{Format: *raw.Format, Owner: *raw.Owner, TreeSize: *raw.TreeSize, Root: *raw.Root}
	if _, err := events.ParseOwner(string(v.Header.Owner)); err != nil {
		return v.wrong("owner: it is not a public key in base58")
	}
	if raw.Anchor.Kind() == 'n' {
		return nil
	}
	v.Header.Anchor = new(receipt.Anchor)
	if err := v.decode(raw.Anchor, v.Header.Anchor); err != nil {
		return err
	}
	if err := v.Header.Anchor.Form(); err != nil {
		return v.wrong("%v", err)
	}
	if size := v.Header.Anchor.CommittedSize; size == 0 || size > v.Header.TreeSize {
		return v.wrong("anchor.committedSize: it is %d of treeSize %d", size, v.Header.TreeSize)
	}
	return nil
}

func (v *verifier) leaf(index uint64) error {
	if err := v.read(); err != nil {
		return err
	}
	var raw rawLine
	if err := v.decode(v.text, &raw); err != nil {
		return err
	}
	switch {
	case raw.Index == nil || raw.ID == nil || raw.CreatedAt == nil || raw.Via == nil || raw.LeafHash == nil || raw.Entry == nil:
		return v.wrong("index, id, createdAt, via, leafHash or entry is missing")
	case *raw.Index != index:
		return v.wrong("index: it is %d, and %d comes next: a leaf is missing, twice, or out of place", *raw.Index, index)
	}
	if err := v.entry(raw.Entry, *raw.LeafHash); err != nil {
		return err
	}
	if err := v.tree.Append((*raw.LeafHash)[:], nil); err != nil {
		return fmt.Errorf("tree: %w", err)
	}
	if a := v.Header.Anchor; a != nil && a.CommittedSize == index+1 {
		return v.root(a.CommittedSize, a.CommittedRoot, "anchor.committedRoot")
	}
	return nil
}

// entry checks that an entry is the owner's and hashes to its leaf.
func (v *verifier) entry(raw jsontext.Value, leaf events.Hash) error {
	if raw.Kind() == 'n' {
		v.Without++
		return nil
	}
	var entry receipt.Entry
	if err := v.decode(raw, &entry); err != nil {
		return err
	}
	if entry.Owner != v.Header.Owner {
		return v.wrong("entry.owner: it is %s, the export is of %s", entry.Owner, v.Header.Owner)
	}
	hash, err := receipt.EntryHash(&entry)
	if err != nil {
		return v.wrong("%v", err)
	}
	if hash != leaf {
		return v.wrong("leafHash: it is %s, the entry hashes to %s", leaf, hash)
	}
	v.Opened++
	return nil
}

// root compares the root of the leaves so far with a root in the header.
func (v *verifier) root(size uint64, want events.Hash, name string) error {
	got := rfc6962.DefaultHasher.EmptyRoot()
	if size > 0 {
		var err error
		if got, err = v.tree.GetRootHash(nil); err != nil {
			return fmt.Errorf("tree: %w", err)
		}
	}
	if !bytes.Equal(got, want[:]) {
		return &Finding{1, fmt.Sprintf("%s: it is %s, the first %d leaves have the root %x", name, want, size, got)}
	}
	return nil
}

func (v *verifier) end() error {
	if err := v.read(); err != nil {
		return err
	}
	var end struct {
		Complete *bool   `json:"complete"`
		Leaves   *uint64 `json:"leaves"`
	}
	if err := v.decode(v.text, &end); err != nil {
		return err
	}
	switch {
	case end.Complete == nil || !*end.Complete:
		return v.wrong("complete: it is not true")
	case end.Leaves == nil || *end.Leaves != v.Header.TreeSize:
		return v.wrong("leaves: it is not treeSize %d", v.Header.TreeSize)
	}
	v.line++
	if _, err := v.in.ReadByte(); !errors.Is(err, io.EOF) {
		return v.wrong("there is more after the last line")
	}
	return nil
}
