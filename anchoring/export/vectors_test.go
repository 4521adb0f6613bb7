package export_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/anchoring/export"
	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/tree"
)

var update = flag.Bool("update", false, "write the vector files again")

func filled(b byte) (out [32]byte) {
	for i := range out {
		out[i] = b + byte(i)
	}
	return out
}

var (
	owner  = events.OwnerFromBytes(filled(0x41))
	other  = events.OwnerFromBytes(filled(0x42))
	secret = must(leaf.DeriveSecret(filled(0x61)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The log behind the vectors: seven leaves. Five are committed. The fourth was erased.
const size, committed, erased = 7, 5, 3

func lineOf(index uint64) export.Line {
	metadata := must(canonical.Canonicalize(fmt.Appendf(nil, `{"n":%d,"source":"vector"}`, index)))
	l := must(leaf.New(secret, leaf.Memory{Content: fmt.Sprintf("memory %d ☂", index), Metadata: metadata, Owner: owner}))
	return export.Line{
		Index: index, ID: fmt.Sprintf("019ca8d2-7b02-7d18-8f3e-%012d", index), CreatedAt: events.At(time.Unix(1_767_322_800+int64(index), 0)),
		Via: &events.Via{Kind: events.ViaDrop, ID: "019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e11"}, LeafHash: must(l.Hash()),
		Entry: &receipt.Entry{Content: l.Content, Metadata: l.Metadata.Bytes(), Owner: owner, Salt: l.Salt, V: leaf.Version},
	}
}

// file is an export before it is written.
type file struct {
	header export.Header
	lines  []export.Line
	end    export.End
}

func good() *file {
	f := &file{header: export.Header{Format: export.Format, Owner: owner, TreeSize: size}, end: export.End{Complete: true, Leaves: size}}
	hashes := make([]events.Hash, size)
	for i := range hashes {
		f.lines = append(f.lines, lineOf(uint64(i)))
		hashes[i] = f.lines[i].LeafHash
	}
	f.lines[1].Via, f.lines[erased].Entry = nil, nil
	f.header.Root = tree.RootOf(hashes)
	f.header.Anchor = &receipt.Anchor{
		Cluster: base58.Encode(bytes.Repeat([]byte{7}, 32)), ProgramID: base58.Encode(bytes.Repeat([]byte{8}, 32)),
		Account: base58.Encode(bytes.Repeat([]byte{9}, 32)), TxSignature: base58.Encode(bytes.Repeat([]byte{10}, 64)),
		Slot: 4242, CommittedSize: committed, CommittedRoot: tree.RootOf(hashes[:committed]),
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

// vector is a bad export, and the finding for it.
type vector struct {
	name, says string
	text       func() string
}

// altered is a vector whose file is written after a change.
func altered(name, says string, change func(*file)) vector {
	return vector{name, says, func() string {
		f := good()
		change(f)
		return f.text()
	}}
}

// replaced is a vector whose text is a good file's text after a replacement.
func replaced(name, says, from, to string) vector {
	return vector{name, says, func() string {
		text := good().text()
		if !strings.Contains(text, from) {
			panic(name + " replaces nothing")
		}
		return strings.Replace(text, from, to, 1)
	}}
}

func withoutLine(n int) string {
	all := lines(good().text())
	return strings.Join(append(all[:n:n], all[n+1:]...), "")
}

var bad = []vector{
	{"empty", "line 1: it is missing: the export is not whole", func() string { return "" }},
	{"no-json", "line 1: it is not a JSON object", func() string { return "nope\n" }},
	altered("format-unknown", "line 1: format: it is not memory-ledger/export/1", func(f *file) { f.header.Format = "memory-ledger/export/2" }),
	replaced("header-with-another-member", "line 1: malformed", `{"format"`, `{"more":1,"format"`),
	replaced("anchor-missing", "line 1: owner, treeSize, root or anchor is missing", `,"anchor":`+string(must(json.Marshal(good().header.Anchor))), ""),
	altered("owner-no-key", "line 1: owner: it is not a public key", func(f *file) { f.header.Owner = "x" }),
	altered("owner-another", "line 2: entry.owner: it is", func(f *file) { f.header.Owner = other }),
	altered("root-altered", "line 1: root: it is", func(f *file) { f.header.Root[0] ^= 1 }),
	altered("treesize-smaller", "line 8: malformed", func(f *file) { f.header.TreeSize-- }),
	altered("treesize-larger", "line 9: malformed", func(f *file) { f.header.TreeSize++ }),
	altered("anchor-cluster-no-hash", "line 1: anchor.cluster: it is not 32 bytes in base58", func(f *file) { f.header.Anchor.Cluster = "0" }),
	altered("anchor-slot-zero", "line 1: anchor.slot: nothing is committed in slot 0", func(f *file) { f.header.Anchor.Slot = 0 }),
	altered("anchor-committedsize-zero", "line 1: anchor.committedSize: it is 0 of treeSize 7", func(f *file) { f.header.Anchor.CommittedSize = 0 }),
	altered("anchor-committedsize-beyond", "line 1: anchor.committedSize: it is 8 of treeSize 7", func(f *file) { f.header.Anchor.CommittedSize = 8 }),
	altered("anchor-committedsize-another", "line 1: anchor.committedRoot: it is", func(f *file) { f.header.Anchor.CommittedSize = 4 }),
	altered("anchor-committedroot-altered", "line 1: anchor.committedRoot: it is", func(f *file) { f.header.Anchor.CommittedRoot[0] ^= 1 }),
	altered("content-altered", "line 4: leafHash: it is", func(f *file) { f.lines[2].Entry.Content += "." }),
	altered("metadata-altered", "line 4: leafHash: it is", func(f *file) { f.lines[2].Entry.Metadata = []byte(`{"n":3,"source":"vector"}`) }),
	altered("metadata-an-array", "line 4: entry.metadata:", func(f *file) { f.lines[2].Entry.Metadata = []byte(`[]`) }),
	altered("salt-altered", "line 4: leafHash: it is", func(f *file) { f.lines[2].Entry.Salt = hex.EncodeToString(bytes.Repeat([]byte{1}, 32)) }),
	altered("salt-no-hex", "line 4: entry.salt: it is not 64 lowercase hex characters", func(f *file) { f.lines[2].Entry.Salt = "x" }),
	altered("entry-of-another-owner", "line 4: entry.owner: it is", func(f *file) { f.lines[2].Entry.Owner = other }),
	altered("entry-v-unknown", "line 4: entry.v: 2 is not a version", func(f *file) { f.lines[2].Entry.V = 2 }),
	altered("entry-of-another-leaf", "line 4: leafHash: it is", func(f *file) { f.lines[2].Entry = f.lines[1].Entry }),
	altered("leafhash-altered", "line 4: leafHash: it is", func(f *file) { f.lines[2].LeafHash[0] ^= 1 }),
	altered("leafhash-of-an-erased-one-altered", "line 1: anchor.committedRoot: it is", func(f *file) { f.lines[erased].LeafHash[0] ^= 1 }),
	altered("leaf-forged-whole", "line 1: anchor.committedRoot: it is", func(f *file) {
		f.lines[2] = lineOf(99)
		f.lines[2].Index = 2
	}),
	altered("leaf-forged-after-the-anchor", "line 1: root: it is", func(f *file) {
		f.lines[6] = lineOf(99)
		f.lines[6].Index = 6
	}),
	altered("leaves-swapped", "line 4: index: it is 3, and 2 comes next", func(f *file) { f.lines[2], f.lines[3] = f.lines[3], f.lines[2] }),
	altered("leaf-twice", "line 5: index: it is 2, and 3 comes next", func(f *file) { f.lines[3] = f.lines[2] }),
	{"leaf-missing", "line 4: index: it is 3, and 2 comes next", func() string { return withoutLine(3) }},
	replaced("entry-missing", "line 5: index, id, createdAt, via, leafHash or entry is missing", `,"entry":null`, ""),
	replaced("leaf-with-another-member", "line 2: malformed", `{"index":0`, `{"more":1,"index":0`),
	{"last-line-missing", "line 9: it is missing: the export is not whole", func() string { return withoutLine(8) }},
	{"breaks-off", "line 4: it breaks off: the export is not whole", func() string {
		all := lines(good().text())
		return strings.Join(all[:3], "") + all[3][:40]
	}},
	{"breaks-off-before-the-last-line-end", "line 9: it breaks off: the export is not whole", func() string { return strings.TrimSuffix(good().text(), "\n") }},
	altered("end-not-complete", "line 9: complete: it is not true", func(f *file) { f.end.Complete = false }),
	altered("end-counts-otherwise", "line 9: leaves: it is not treeSize 7", func(f *file) { f.end.Leaves = 6 }),
	{"more-after-the-end", "line 10: there is more after the last line", func() string { return good().text() + "{}\n" }},
}

// check compares a vector's file with the generated text, or writes the file.
func check(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join("testdata", name+".ndjson")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(path)
	if err != nil || string(is) != text {
		t.Fatalf("%s is not what is generated (go test ./anchoring/export -update): %v", path, err)
	}
	return string(is)
}

func TestGood(t *testing.T) {
	t.Parallel()
	var last, total uint64
	s, err := export.Verify(strings.NewReader(check(t, "good", good().text())), func(n, of uint64) { last, total = n, of })
	if err != nil || s.Opened != size-1 || s.Without != 1 || s.Header.TreeSize != size || last != size || total != size {
		t.Errorf("%+v, %v, %d of %d", s, err, last, total)
	}
	unanchored := good()
	unanchored.header.Anchor = nil
	if _, err := export.Verify(strings.NewReader(check(t, "good-not-anchored", unanchored.text())), nil); err != nil {
		t.Error(err)
	}
	empty := &file{header: export.Header{Format: export.Format, Owner: owner, Root: tree.RootOf(nil)}, end: export.End{Complete: true}}
	if _, err := export.Verify(strings.NewReader(check(t, "good-empty", empty.text())), nil); err != nil {
		t.Error(err)
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, v := range bad {
		known[v.name+".ndjson"] = true
		_, err := export.Verify(strings.NewReader(check(t, "bad/"+v.name, v.text())), nil)
		var wrong *export.Finding
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), v.says) {
			t.Errorf("%s: %v, want %s", v.name, err, v.says)
		}
	}
	entries, err := os.ReadDir("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !known[e.Name()] {
			t.Errorf("no vector makes testdata/bad/%s", e.Name())
		}
	}
}

// TestEveryCut: a file that ends before its end is incomplete, wherever it is cut.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	text := good().text()
	for n := range len(text) {
		if _, err := export.Verify(strings.NewReader(text[:n]), nil); err == nil {
			t.Fatalf("the first %d bytes of %d are good", n, len(text))
		}
	}
	failing := io.MultiReader(strings.NewReader(text[:300]), broken{})
	if _, err := export.Verify(failing, nil); !errors.Is(err, errBroken) {
		t.Errorf("a file that can't be read: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// BenchmarkVerify reports verified leaves per second, for leaves of 100 bytes.
func BenchmarkVerify(b *testing.B) {
	const leaves = 100_000
	f := &file{header: export.Header{Format: export.Format, Owner: owner, TreeSize: leaves}, end: export.End{Complete: true, Leaves: leaves}}
	hashes := make([]events.Hash, leaves)
	for i := range hashes {
		f.lines = append(f.lines, lineOf(uint64(i)))
		hashes[i] = f.lines[i].LeafHash
	}
	f.header.Root = tree.RootOf(hashes)
	text := f.text()
	for b.Loop() {
		if _, err := export.Verify(strings.NewReader(text), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*leaves/b.Elapsed().Seconds(), "leaves/s")
}
