package verify

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

var otherOwner = string(leaf.OwnerFromBytes(filled(0x42)))

var secret = leaf.DeriveSecret(filled(0x61))

// The log behind the vectors: seven leaves. Five are committed. The fourth was erased.
const size, committed, erased = 7, 5, 3

// The lines of the file, as the service writes them.
type (
	exportHeader struct {
		Format   string  `json:"format"`
		Owner    string  `json:"owner"`
		TreeSize uint64  `json:"treeSize"`
		Root     Hash    `json:"root"`
		Anchor   *Anchor `json:"anchor"`
	}
	exportLine struct {
		Index     uint64 `json:"index"`
		ID        string `json:"id"`
		CreatedAt string `json:"createdAt"`
		Via       *Via   `json:"via"`
		LeafHash  Hash   `json:"leafHash"`
		Entry     *Entry `json:"entry"`
		Damaged   bool   `json:"damaged,omitzero"`
	}
	exportEnd struct {
		Complete bool   `json:"complete"`
		Leaves   uint64 `json:"leaves"`
	}
)

func lineOf(index uint64) exportLine {
	metadata := must(canonical.Canonicalize(fmt.Appendf(nil, `{"n":%d,"source":"vector"}`, index)))
	l := must(leaf.New(secret, leaf.Memory{Content: fmt.Sprintf("memory %d ☂", index), Metadata: metadata, Owner: leaf.Owner(owner)}))
	return exportLine{
		Index: index, ID: fmt.Sprintf("019ca8d2-7b02-7d18-8f3e-%012d", index), CreatedAt: time.Unix(1_767_322_800+int64(index), 0).UTC().Format("2006-01-02T15:04:05.000Z"),
		Via: &Via{Kind: "drop", ID: "019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e11"}, LeafHash: must(l.Hash()),
		Entry: &Entry{Content: l.Content, Metadata: []byte(l.Metadata.String()), Owner: owner, Salt: l.Salt, V: leaf.Version},
	}
}

// file is an export before it is written.
type file struct {
	header exportHeader
	lines  []exportLine
	end    exportEnd
}

func goodExport() *file {
	f := &file{header: exportHeader{Format: ExportFormat, Owner: owner, TreeSize: size}, end: exportEnd{Complete: true, Leaves: size}}
	hashes := make([]Hash, size)
	for i := range hashes {
		f.lines = append(f.lines, lineOf(uint64(i)))
		hashes[i] = f.lines[i].LeafHash
	}
	f.lines[1].Via, f.lines[erased].Entry = nil, nil
	f.header.Root = rootOf(hashes)
	f.header.Anchor = &Anchor{
		Cluster: base58.Encode(bytes.Repeat([]byte{7}, 32)), ProgramID: base58.Encode(bytes.Repeat([]byte{8}, 32)),
		Account: base58.Encode(bytes.Repeat([]byte{9}, 32)), TxSignature: base58.Encode(bytes.Repeat([]byte{10}, 64)),
		Slot: 4242, CommittedSize: committed, CommittedRoot: rootOf(hashes[:committed]),
	}
	return f
}

func (f *file) text() string {
	var b strings.Builder
	put := func(v any) {
		b.Write(must(json.Marshal(v, json.Deterministic(true))))
		b.WriteByte('\n')
	}
	put(f.header)
	for _, l := range f.lines {
		put(l)
	}
	put(f.end)
	return b.String()
}

func lines(text string) []string { return strings.SplitAfter(text, "\n") }

// vector is a bad export.
type vector struct {
	name  string
	kind  error
	line  uint64
	field string
	text  func() string
}

// altered is a vector whose file is written after a change.
func altered(name string, kind error, line uint64, field string, change func(*file)) vector {
	return vector{name, kind, line, field, func() string {
		f := goodExport()
		change(f)
		return f.text()
	}}
}

// replaced is a vector whose text is a good file's text after a replacement.
func replaced(name string, kind error, line uint64, field, from, to string) vector {
	return vector{name, kind, line, field, func() string {
		text := goodExport().text()
		if !strings.Contains(text, from) {
			panic(name + " replaces nothing")
		}
		return strings.Replace(text, from, to, 1)
	}}
}

func withoutLine(n int) string {
	all := lines(goodExport().text())
	return strings.Join(append(all[:n:n], all[n+1:]...), "")
}

var bad = []vector{
	{"empty", ErrIncomplete, 1, "line", func() string { return "" }},
	{"no-json", ErrMalformed, 1, "header", func() string { return "nope\n" }},
	altered("format-unknown", ErrMalformed, 1, "format", func(f *file) { f.header.Format = "memory-ledger/export/2" }),
	replaced("header-with-another-member", ErrMalformed, 1, "more", `{"format"`, `{"more":1,"format"`),
	replaced("anchor-missing", ErrMalformed, 1, "anchor", `,"anchor":`+string(must(json.Marshal(goodExport().header.Anchor))), ""),
	altered("owner-no-key", ErrMalformed, 1, "owner", func(f *file) { f.header.Owner = "x" }),
	altered("owner-another", ErrWrongOwner, 2, "entry.owner", func(f *file) { f.header.Owner = otherOwner }),
	altered("root-altered", ErrWrongRoot, 1, "root", func(f *file) { f.header.Root[0] ^= 1 }),
	altered("treesize-smaller", ErrMalformed, 8, "complete", func(f *file) { f.header.TreeSize-- }),
	altered("treesize-larger", ErrMalformed, 9, "index", func(f *file) { f.header.TreeSize++ }),
	altered("anchor-cluster-no-hash", ErrChain, 1, "anchor.cluster", func(f *file) { f.header.Anchor.Cluster = "0" }),
	altered("anchor-slot-zero", ErrChain, 1, "anchor.slot", func(f *file) { f.header.Anchor.Slot = 0 }),
	altered("anchor-committedsize-zero", ErrChain, 1, "anchor.committedSize", func(f *file) { f.header.Anchor.CommittedSize = 0 }),
	altered("anchor-committedsize-beyond", ErrChain, 1, "anchor.committedSize", func(f *file) { f.header.Anchor.CommittedSize = 8 }),
	altered("anchor-committedsize-another", ErrWrongRoot, 1, "anchor.committedRoot", func(f *file) { f.header.Anchor.CommittedSize = 4 }),
	altered("anchor-committedroot-altered", ErrWrongRoot, 1, "anchor.committedRoot", func(f *file) { f.header.Anchor.CommittedRoot[0] ^= 1 }),
	altered("content-altered", ErrWrongLeaf, 4, "leafHash", func(f *file) { f.lines[2].Entry.Content += "." }),
	altered("metadata-altered", ErrWrongLeaf, 4, "leafHash", func(f *file) { f.lines[2].Entry.Metadata = []byte(`{"n":3,"source":"vector"}`) }),
	altered("metadata-an-array", ErrMalformed, 4, "entry.metadata", func(f *file) { f.lines[2].Entry.Metadata = []byte(`[]`) }),
	altered("salt-altered", ErrWrongLeaf, 4, "leafHash", func(f *file) { f.lines[2].Entry.Salt = hex.EncodeToString(bytes.Repeat([]byte{1}, 32)) }),
	altered("salt-no-hex", ErrMalformed, 4, "entry.salt", func(f *file) { f.lines[2].Entry.Salt = "x" }),
	altered("entry-of-another-owner", ErrWrongOwner, 4, "entry.owner", func(f *file) { f.lines[2].Entry.Owner = otherOwner }),
	altered("entry-v-unknown", ErrMalformed, 4, "entry.v", func(f *file) { f.lines[2].Entry.V = 2 }),
	altered("entry-of-another-leaf", ErrWrongLeaf, 4, "leafHash", func(f *file) { f.lines[2].Entry = f.lines[1].Entry }),
	altered("leafhash-altered", ErrWrongLeaf, 4, "leafHash", func(f *file) { f.lines[2].LeafHash[0] ^= 1 }),
	altered("leafhash-of-an-erased-one-altered", ErrWrongRoot, 1, "anchor.committedRoot", func(f *file) { f.lines[erased].LeafHash[0] ^= 1 }),
	altered("leaf-forged-whole", ErrWrongRoot, 1, "anchor.committedRoot", func(f *file) {
		f.lines[2] = lineOf(99)
		f.lines[2].Index = 2
	}),
	altered("leaf-forged-after-the-anchor", ErrWrongRoot, 1, "root", func(f *file) {
		f.lines[6] = lineOf(99)
		f.lines[6].Index = 6
	}),
	altered("leaves-swapped", ErrHidden, 4, "index", func(f *file) { f.lines[2], f.lines[3] = f.lines[3], f.lines[2] }),
	altered("leaf-twice", ErrHidden, 5, "index", func(f *file) { f.lines[3] = f.lines[2] }),
	{"leaf-missing", ErrHidden, 4, "index", func() string { return withoutLine(3) }},
	replaced("entry-missing", ErrMalformed, 5, "entry", `,"entry":null`, ""),
	replaced("leaf-with-another-member", ErrMalformed, 2, "more", `{"index":0`, `{"more":1,"index":0`),
	replaced("content-twice", ErrMalformed, 4, "leaf", `"content":"memory 2`, `"content":"shown by other readers","content":"memory 2`),
	replaced("createdat-no-time", ErrMalformed, 2, "createdAt", `"2026-01-02T03:00:00.000Z"`, `"2026"`),
	replaced("createdat-no-day", ErrMalformed, 2, "createdAt", `"2026-01-02T03:00:00.000Z"`, `"2026-02-30T03:00:00.000Z"`),
	replaced("via-with-another-member", ErrMalformed, 2, "via.more", `{"kind"`, `{"more":1,"kind"`),
	{"last-line-missing", ErrIncomplete, 9, "line", func() string { return withoutLine(8) }},
	{"breaks-off", ErrIncomplete, 4, "line", func() string {
		all := lines(goodExport().text())
		return strings.Join(all[:3], "") + all[3][:40]
	}},
	{"breaks-off-before-the-last-line-end", ErrIncomplete, 9, "line", func() string { return strings.TrimSuffix(goodExport().text(), "\n") }},
	altered("end-not-complete", ErrIncomplete, 9, "complete", func(f *file) { f.end.Complete = false }),
	altered("end-counts-otherwise", ErrIncomplete, 9, "leaves", func(f *file) { f.end.Leaves = 6 }),
	{"more-after-the-end", ErrMalformed, 10, "line", func() string { return goodExport().text() + "{}\n" }},
}

// check compares a vector's file with the generated text, or writes the file.
func check(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join("testdata", "export", name+".ndjson")
	if *update {
		noErr(t, os.MkdirAll(filepath.Dir(path), 0o755))
		noErr(t, os.WriteFile(path, []byte(text), 0o644))
	}
	is, err := os.ReadFile(path)
	if err != nil || string(is) != text {
		t.Fatalf("%s is not what is generated (go test ./events/verify -update): %v", path, err)
	}
	return string(is)
}

// verifyExport returns the header, and counts the leaves and those with an entry.
func verifyExport(r io.Reader) (leaves, opened int, err error) {
	e, err := ReadExport(r)
	if err != nil {
		return 0, 0, err
	}
	for m, err := range e.Memories() {
		if err != nil {
			return leaves, opened, err
		}
		if leaves++; m.Entry != nil {
			opened++
		}
	}
	return leaves, opened, nil
}

func TestGoodExports(t *testing.T) {
	t.Parallel()
	unanchored := goodExport()
	unanchored.header.Anchor = nil
	damaged := goodExport()
	damaged.lines[2].Entry, damaged.lines[2].Damaged = nil, true
	empty := &file{header: exportHeader{Format: ExportFormat, Owner: owner, Root: EmptyRoot}, end: exportEnd{Complete: true}}
	for name, c := range map[string]struct {
		file           *file
		leaves, opened int
	}{"good": {goodExport(), size, size - 1}, "good-not-anchored": {unanchored, size, size - 1}, "good-empty": {empty, 0, 0}, "good-damaged": {damaged, size, size - 2}} {
		leaves, opened, err := verifyExport(strings.NewReader(check(t, name, c.file.text())))
		if err != nil || leaves != c.leaves || opened != c.opened {
			t.Errorf("%s: %d leaves, %d opened, %v", name, leaves, opened, err)
		}
	}
}

func TestBadExports(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, v := range bad {
		known[v.name+".ndjson"] = true
		_, _, err := verifyExport(strings.NewReader(check(t, "bad/"+v.name, v.text())))
		expect(t, err, v.kind, v.field)
		var wrong *Error
		if errors.As(err, &wrong); wrong != nil && wrong.Line != v.line {
			t.Errorf("%s: %v, want line %d", v.name, err, v.line)
		}
	}
	entries, err := os.ReadDir("testdata/export/bad")
	noErr(t, err)
	for _, e := range entries {
		if !known[e.Name()] {
			t.Errorf("no vector makes testdata/export/bad/%s", e.Name())
		}
	}
}

// TestEveryCut: an export that is cut off anywhere before its end is incomplete, and no
// lie.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	text := goodExport().text()
	for n := range len(text) {
		_, _, err := verifyExport(strings.NewReader(text[:n]))
		if expect(t, err, ErrIncomplete, "line"); strings.Contains(err.Error(), "lies") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	broken := io.MultiReader(strings.NewReader(text[:300]), iotest.ErrReader(io.ErrClosedPipe))
	if _, _, err := verifyExport(broken); !errors.Is(err, io.ErrClosedPipe) || !errors.Is(err, ErrIncomplete) {
		t.Errorf("a file that can't be read: %v", err)
	}
}
