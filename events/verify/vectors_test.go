package verify

import (
	"bytes"
	"crypto/sha256"
	stdjson "encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

var update = flag.Bool("update", false, "write the vector files anew")

// The data behind the vectors: an owner with eleven leaves. The batch of leaf 2 committed
// five of them, and the newest commitment all eleven.
const (
	leafIndex, treeSize, committedSize = 2, 5, 11
	slot                               = 4242
)

func filled(b byte) (out [32]byte) {
	for i := range out {
		out[i] = b + byte(i)
	}
	return out
}

var (
	owner     = string(leaf.OwnerFromBytes(filled(0x41)))
	authority = base58.Encode(of(filled(0x21)))
	programID = "8C3odsbKGYCEipcgRMnCek1xY9oXRbmqKpEkFaeoF9Cp"
	genesis   = base58.Encode(bytes.Repeat([]byte{7}, 32))
	signature = base58.Encode(bytes.Repeat([]byte{9}, 64))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func of(b [32]byte) []byte { return b[:] }

// expect checks the kind of an error, and its field if one is given.
func expect(t *testing.T, err error, kind error, field string) {
	t.Helper()
	if v, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, kind) || v.Liar != LiarIssuer || field != "" && v.Field != field {
		t.Errorf("got %v, want %v of %q", err, kind, field)
	}
}

// leaves returns the owner's memories, salted with a key used only for the vectors.
func leaves() []leaf.Leaf {
	secret := leaf.DeriveSecret(filled(0x61))
	out := make([]leaf.Leaf, committedSize)
	for i := range out {
		metadata := must(canonical.Canonicalize(fmt.Appendf(nil, `{"n":%d,"source":"vector"}`, i)))
		out[i] = must(leaf.New(secret, leaf.Memory{Content: fmt.Sprintf("memory %d ☂", i), Metadata: metadata, Owner: leaf.Owner(owner)}))
	}
	return out
}

func account() string { return CommitmentAddress(programID, authority, owner) }

// rootOf, inclusionOf and consistencyOf are RFC 9162's definitions.
func rootOf(part []Hash) Hash {
	log := NewTree()
	log.Append(part...)
	return log.Root()
}

// split returns the size of the left subtree.
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

func inclusionOf(index int, part []Hash) []Hash {
	if len(part) == 1 {
		return []Hash{}
	}
	k := split(len(part))
	if index < k {
		return append(inclusionOf(index, part[:k]), rootOf(part[k:]))
	}
	return append(inclusionOf(index-k, part[k:]), rootOf(part[:k]))
}

func consistencyOf(from int, part []Hash, whole bool) []Hash {
	if from == len(part) && whole {
		return []Hash{}
	}
	if from == len(part) {
		return []Hash{rootOf(part)}
	}
	k := split(len(part))
	if from <= k {
		return append(consistencyOf(from, part[:k], whole), rootOf(part[k:]))
	}
	return append(consistencyOf(from-k, part[k:], false), rootOf(part[:k]))
}

func good() *Receipt { return receiptOf(leaves(), leafIndex, treeSize) }

// newest returns a good receipt whose own batch is the newest commitment.
func newest() *Receipt { return receiptOf(leaves(), leafIndex, committedSize) }

// receiptOf returns the receipt of a leaf whose batch committed the first size leaves.
func receiptOf(all []leaf.Leaf, index, size uint64) *Receipt {
	hashes := make([]Hash, len(all))
	for i := range all {
		hashes[i] = must(all[i].Hash())
	}
	l := all[index]
	return &Receipt{
		Version:  Version,
		Entry:    Entry{Content: l.Content, Metadata: []byte(l.Metadata.String()), Owner: owner, Salt: l.Salt, V: leaf.Version},
		LeafHash: hashes[index], LeafIndex: index, TreeSize: size, Siblings: inclusionOf(int(index), hashes[:size]), Directions: append([]bool{}, Directions(index, size)...), BatchRoot: rootOf(hashes[:size]),
		Anchor: &Anchor{
			Cluster: genesis, ProgramID: programID, Account: account(), TxSignature: signature,
			Slot: slot, CommittedSize: committedSize, CommittedRoot: rootOf(hashes),
		},
		Consistency: consistencyOf(int(size), hashes[:committedSize], true),
	}
}

// saltedInCapitals returns a consistent receipt with a salt that no leaf can have.
func saltedInCapitals() *Receipt {
	all := leaves()
	all[leafIndex].Salt = strings.ToUpper(all[leafIndex].Salt)
	return receiptOf(all, leafIndex, treeSize)
}

// other returns a hash that differs from h.
func other(h Hash) Hash { return sha256.Sum256(h[:]) }

// alterations are vectors of altered receipts. The file's name says what is wrong. Only a
// node can detect those with onchain set.
var alterations = []struct {
	name    string
	kind    error
	field   string
	onchain bool
	change  func(*Receipt)
}{
	{"version-unknown", ErrMalformed, "version", false, func(r *Receipt) { r.Version = 2 }},
	{"entry-content-altered", ErrWrongText, "entry", false, func(r *Receipt) { r.Entry.Content += "." }},
	{"entry-metadata-altered", ErrWrongText, "entry", false, func(r *Receipt) { r.Entry.Metadata = []byte(`{"n":3,"source":"vector"}`) }},
	{"entry-owner-of-somebody-else", ErrWrongText, "entry", false, func(r *Receipt) { r.Entry.Owner = string(leaf.OwnerFromBytes(filled(0x42))) }},
	{"entry-owner-no-key", ErrMalformed, "entry.owner", false, func(r *Receipt) { r.Entry.Owner = "nobody" }},
	{"entry-salt-altered", ErrWrongText, "entry", false, func(r *Receipt) { r.Entry.Salt = other(Hash{}).String() }},
	{"entry-v-unknown", ErrMalformed, "entry.v", false, func(r *Receipt) { r.Entry.V = 2 }},
	{"entry-salt-in-capitals", ErrMalformed, "entry.salt", false, func(r *Receipt) { *r = *saltedInCapitals() }},
	{"leafhash-altered", ErrWrongLeaf, "leafHash", false, func(r *Receipt) { r.LeafHash = other(r.LeafHash) }},
	{"leafindex-of-another-leaf", ErrBadProof, "leafIndex", false, func(r *Receipt) { r.LeafIndex = 3 }},
	{"leafindex-outside-the-tree", ErrBadProof, "leafIndex", false, func(r *Receipt) { r.LeafIndex = treeSize }},
	// The path of a tree's only leaf is empty, whatever index the receipt claims.
	{"leafindex-outside-a-tree-of-one", ErrBadProof, "leafIndex", false, func(r *Receipt) {
		*r = *receiptOf(leaves(), 0, 1)
		r.LeafIndex = 1
	}},
	{"treesize-larger", ErrBadProof, "treeSize", false, func(r *Receipt) { r.TreeSize = 9 }},
	{"treesize-smaller", ErrBadProof, "treeSize", false, func(r *Receipt) { r.TreeSize = 4 }},
	{"siblings-one-altered", ErrBadProof, "siblings", false, func(r *Receipt) { r.Siblings[1] = other(r.Siblings[1]) }},
	{"siblings-one-missing", ErrBadProof, "siblings", false, func(r *Receipt) { r.Siblings = r.Siblings[:2] }},
	{"directions-one-altered", ErrBadProof, "directions", false, func(r *Receipt) { r.Directions[0] = !r.Directions[0] }},
	{"directions-one-missing", ErrBadProof, "directions", false, func(r *Receipt) { r.Directions = r.Directions[:2] }},
	{"batchroot-altered", ErrWrongRoot, "batchRoot", false, func(r *Receipt) { r.BatchRoot = other(r.BatchRoot) }},
	{"consistency-one-altered", ErrBadConsistency, "consistency", false, func(r *Receipt) { r.Consistency[0] = other(r.Consistency[0]) }},
	{"consistency-one-missing", ErrBadConsistency, "consistency", false, func(r *Receipt) { r.Consistency = r.Consistency[1:] }},
	{"consistency-without-anchor", ErrBadConsistency, "consistency", false, func(r *Receipt) { r.Anchor = nil }},
	{"consistency-where-nothing-is-to-prove", ErrBadConsistency, "consistency", false, func(r *Receipt) {
		*r = *newest()
		r.Consistency = []Hash{other(r.BatchRoot)}
	}},
	{"anchor-committedroot-is-not-batchroot", ErrChain, "anchor.committedRoot", false, func(r *Receipt) {
		*r = *newest()
		r.Anchor.CommittedRoot = other(r.BatchRoot)
	}},
	{"anchor-committedroot-altered", ErrChain, "anchor.committedRoot", false, func(r *Receipt) { r.Anchor.CommittedRoot = other(r.Anchor.CommittedRoot) }},
	{"anchor-committedsize-larger", ErrBadConsistency, "consistency", false, func(r *Receipt) { r.Anchor.CommittedSize = 20 }},
	{"anchor-committedsize-smaller-than-treesize", ErrChain, "anchor.committedSize", false, func(r *Receipt) { r.Anchor.CommittedSize = 4 }},
	{"anchor-slot-zero", ErrChain, "anchor.slot", false, func(r *Receipt) { r.Anchor.Slot = 0 }},
	{"anchor-cluster-no-hash", ErrChain, "anchor.cluster", false, func(r *Receipt) { r.Anchor.Cluster = "mainnet" }},
	{"anchor-programid-no-address", ErrChain, "anchor.programId", false, func(r *Receipt) { r.Anchor.ProgramID = "l0O" }},
	{"anchor-account-no-address", ErrChain, "anchor.account", false, func(r *Receipt) { r.Anchor.Account = "" }},
	{"anchor-txsignature-no-signature", ErrChain, "anchor.txSignature", false, func(r *Receipt) { r.Anchor.TxSignature = genesis }},
	{"onchain-cluster-another", ErrChain, "anchor.cluster", true, func(r *Receipt) { r.Anchor.Cluster = authority }},
	{"onchain-programid-another", ErrChain, "anchor.programId", true, func(r *Receipt) { r.Anchor.ProgramID = authority }},
	{"onchain-account-not-there", ErrChain, "anchor.account", true, func(r *Receipt) { r.Anchor.Account = authority }},
	{"onchain-txsignature-not-there", ErrChain, "anchor.txSignature", true, func(r *Receipt) { r.Anchor.TxSignature = base58.Encode(bytes.Repeat([]byte{8}, 64)) }},
	{"onchain-slot-another", ErrChain, "anchor.slot", true, func(r *Receipt) { r.Anchor.Slot++ }},
}

// malformed are vectors with values that no receipt has in that place. The file's name
// says what is wrong.
var malformed = []struct {
	name, path string
	value      any
	field      string
}{
	{"version-null", "version", nil, "version"},
	{"entry-null", "entry", nil, "entry"},
	{"entry-content-null", "entry.content", nil, "entry.content"},
	{"entry-content-a-number", "entry.content", 2, "entry.content"},
	{"entry-metadata-null", "entry.metadata", nil, "entry.metadata"},
	{"entry-metadata-an-array", "entry.metadata", []any{}, "entry.metadata"},
	{"entry-owner-null", "entry.owner", nil, "entry.owner"},
	{"entry-salt-null", "entry.salt", nil, "entry.salt"},
	{"entry-v-null", "entry.v", nil, "entry.v"},
	{"leafhash-null", "leafHash", nil, "leafHash"},
	{"leafindex-null", "leafIndex", nil, "leafIndex"},
	{"leafindex-a-text", "leafIndex", "2", "leafIndex"},
	{"treesize-null", "treeSize", nil, "treeSize"},
	{"siblings-null", "siblings", nil, "siblings"},
	{"siblings-one-null", "siblings.1", nil, "siblings"},
	{"siblings-one-a-number", "siblings.1", 1, "siblings"},
	{"directions-null", "directions", nil, "directions"},
	// The decoder decodes null as false, which is the value there in a good receipt.
	{"directions-one-null", "directions.1", nil, "directions"},
	{"directions-one-a-number", "directions.1", 0, "directions"},
	{"batchroot-null", "batchRoot", nil, "batchRoot"},
	{"consistency-null", "consistency", nil, "consistency"},
	{"consistency-one-null", "consistency.0", nil, "consistency"},
	{"anchor-a-text", "anchor", "none", "anchor"},
	{"anchor-slot-null", "anchor.slot", nil, "anchor.slot"},
	{"anchor-txsignature-null", "anchor.txSignature", nil, "anchor.txSignature"},
	{"anchor-committedroot-null", "anchor.committedRoot", nil, "anchor.committedRoot"},
}

// with returns the text of a good receipt with the value at path replaced.
func with(t *testing.T, path string, value any) []byte {
	t.Helper()
	var text any
	d := stdjson.NewDecoder(bytes.NewReader(encode(t, good())))
	d.UseNumber()
	noErr(t, d.Decode(&text))
	steps := strings.Split(path, ".")
	at := text
	for _, step := range steps[:len(steps)-1] {
		at = at.(map[string]any)[step]
	}
	switch last := steps[len(steps)-1]; at := at.(type) {
	case map[string]any:
		at[last] = value
	case []any:
		at[must(strconv.Atoi(last))] = value
	}
	out, err := stdjson.MarshalIndent(text, "", "  ")
	noErr(t, err)
	return append(out, '\n')
}

// encode returns the text of a receipt's file.
func encode(t *testing.T, r *Receipt) []byte {
	t.Helper()
	var out bytes.Buffer
	e := stdjson.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	noErr(t, e.Encode(r))
	return out.Bytes()
}

// current compares a file with its wanted contents, or writes the file.
func current(t *testing.T, name string, want []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", "receipt", name)
	if *update {
		noErr(t, os.MkdirAll(filepath.Dir(file), 0o755))
		noErr(t, os.WriteFile(file, want, 0o644))
	}
	got, err := os.ReadFile(file)
	noErr(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run make generate", file)
	}
	return got
}

func TestGood(t *testing.T) {
	r, err := ParseReceipt(current(t, "good.json", encode(t, good())))
	noErr(t, err)
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	for _, size := range []uint64{committedSize, committedSize + 5} { // now, and after the account moved on
		if _, err := r.VerifyOnchain(t.Context(), node(t, size)); err != nil {
			t.Errorf("account of %d leaves: %v", size, err)
		}
	}
	for size, want := range map[uint64]string{committedSize - 1: "anchor.committedSize", 0: "anchor.account"} {
		_, err := r.VerifyOnchain(t.Context(), node(t, size))
		expect(t, err, ErrChain, want)
	}
	unanchored := good()
	unanchored.Anchor, unanchored.Consistency = nil, []Hash{}
	if r, err = ParseReceipt(current(t, "good-not-anchored.json", encode(t, unanchored))); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
}

// A value of the wrong kind, or null, is refused with a finding for its member.
// (TestAltered counts the files of both.)
func TestAlteredForm(t *testing.T) {
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			r, err := ParseReceipt(current(t, filepath.Join("bad", m.name+".json"), with(t, m.path, m.value)))
			if err == nil {
				err = r.Verify()
			}
			expect(t, err, ErrMalformed, m.field)
		})
	}
}

func TestAltered(t *testing.T) {
	chain := node(t, committedSize)
	for _, a := range alterations {
		t.Run(a.name, func(t *testing.T) {
			r := good()
			a.change(r)
			r, err := ParseReceipt(current(t, filepath.Join("bad", a.name+".json"), encode(t, r)))
			noErr(t, err)
			err = r.Verify()
			if a.onchain {
				if err != nil {
					t.Fatalf("offline: %v", err)
				}
				_, err = r.VerifyOnchain(t.Context(), chain)
			}
			expect(t, err, a.kind, a.field)
		})
	}
	files := must(filepath.Glob("testdata/receipt/bad/*.json"))
	if len(files) != len(alterations)+len(malformed) {
		t.Errorf("%d files for %d alterations and %d malformed values", len(files), len(alterations), len(malformed))
	}
}

func TestMalformed(t *testing.T) {
	text := string(encode(t, good()))
	for what, c := range map[string]struct {
		text, field string
	}{
		"empty":            {"", NoReceipt},
		"not JSON":         {"receipt", NoReceipt},
		"an array":         {"[]", NoReceipt},
		"another object":   {`{"a":1}`, NoReceipt},
		"trailing data":    {text + "{}", NoReceipt},
		"a name twice":     {strings.Replace(text, `"treeSize"`, `"version": 1, "treeSize"`, 1), NoReceipt},
		"too long":         {strings.Repeat(" ", MaxReceipt) + text, NoReceipt},
		"a member missing": {strings.Replace(text, `"treeSize": 5,`, ``, 1), "treeSize"},
		"one more member":  {strings.Replace(text, `"version"`, `"extra": 1, "version"`, 1), "extra"},
		"uppercase hex":    {strings.Replace(text, `"leafHash": "`, `"leafHash": "AB`, 1), "leafHash"},
		"a null":           {strings.Replace(text, `"treeSize": 5`, `"treeSize": null`, 1), "treeSize"},
		"a float":          {strings.Replace(text, `"treeSize": 5`, `"treeSize": 5.5`, 1), "treeSize"},
	} {
		_, err := ParseReceipt([]byte(c.text))
		if v, ok := errors.AsType[*Error](err); !ok || v.Kind != ErrMalformed || v.Field != c.field || strings.Contains(err.Error(), "lies") != (c.field != NoReceipt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A hostile file does not keep a service busy: an import is read by one.
func TestDeepArrays(t *testing.T) {
	t.Parallel()
	const depth = 9_000
	deep := strings.Repeat("[", depth) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("]", depth)
	begun := time.Now()
	if _, err := ParseReceipt([]byte(`{"version":1,"entry":{},"leafHash":` + deep + `}`)); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := ReadExport(strings.NewReader(`{"format":` + deep + "}\n")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// For every leaf position in every tree up to a size, the verifier's own arithmetic must
// agree with the tree.
func TestEveryPlace(t *testing.T) {
	all := leaves()
	hashes := make([]Hash, len(all))
	for i := range all {
		hashes[i] = must(all[i].Hash())
	}
	for to := uint64(1); to <= committedSize; to++ {
		for from := uint64(1); from <= to; from++ {
			for index := range from {
				r := good()
				l := all[index]
				r.Entry = Entry{Content: l.Content, Metadata: []byte(l.Metadata.String()), Owner: owner, Salt: l.Salt, V: 1}
				r.LeafHash, r.LeafIndex, r.TreeSize, r.BatchRoot, r.Siblings, r.Directions = hashes[index], index, from, rootOf(hashes[:from]), inclusionOf(int(index), hashes[:from]), Directions(index, from)
				r.Anchor.CommittedSize, r.Anchor.CommittedRoot = to, rootOf(hashes[:to])
				r.Consistency = consistencyOf(int(from), hashes[:to], true)
				if err := r.Verify(); err != nil {
					t.Fatalf("leaf %d of %d in %d: %v", index, from, to, err)
				}
			}
		}
	}
}

// noErr ends the test on an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
