package receipt_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/anchoring/receipt"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/tree"
)

var update = flag.Bool("update", false, "write the vector files anew")

// The world of the vectors: an owner with eleven leaves. The batch of leaf 2
// committed five of them, the newest commitment all eleven.
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
	owner     = events.OwnerFromBytes(filled(0x41))
	authority = solana.PublicKey(filled(0x21))
	genesis   = base58.Encode(bytes.Repeat([]byte{7}, 32))
	signature = base58.Encode(bytes.Repeat([]byte{9}, 64))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// leaves are the owner's memories, salted with a key of the vectors' own.
func leaves() []leaf.Leaf {
	secret := must(leaf.DeriveSecret(filled(0x61)))
	out := make([]leaf.Leaf, committedSize)
	for i := range out {
		metadata := must(canonical.Canonicalize(fmt.Appendf(nil, `{"n":%d,"source":"vector"}`, i)))
		out[i] = must(leaf.New(secret, leaf.Memory{Content: fmt.Sprintf("memory %d ☂", i), Metadata: metadata, Owner: owner}))
	}
	return out
}

func account() solana.PublicKey {
	address, _, err := commitment.Address(program.LocalID, authority, solana.PublicKey(owner.Bytes()))
	return must(address, err)
}

func good() *receipt.Receipt {
	all := leaves()
	hashes := make([]events.Hash, len(all))
	for i := range all {
		hashes[i] = must(all[i].Hash())
	}
	p := must(tree.InclusionOf(hashes, leafIndex, treeSize))
	l := all[leafIndex]
	return &receipt.Receipt{
		Version: receipt.Version,
		Entry:   receipt.Entry{Content: l.Content, Metadata: l.Metadata.Bytes(), Owner: owner, Salt: l.Salt, V: leaf.Version},
		Leaf:    p.Leaf, LeafIndex: leafIndex, TreeSize: treeSize, Siblings: p.Siblings, Directions: p.Directions, BatchRoot: p.Root,
		Anchor: &receipt.Anchor{
			Cluster: genesis, ProgramID: program.LocalID.String(), Account: account().String(), TxSignature: signature,
			Slot: slot, CommittedSize: committedSize, CommittedRoot: tree.RootOf(hashes),
		},
		Consistency: must(tree.ConsistencyOf(hashes, treeSize, committedSize)),
	}
}

// other is a hash that is not the one given.
func other(h events.Hash) events.Hash { return sha256.Sum256(h[:]) }

// alterations: the file's name says what is wrong, want is what the message
// begins with. Those marked onchain only a node can tell.
var alterations = []struct {
	name, want string
	onchain    bool
	change     func(*receipt.Receipt)
}{
	{"version-unknown", "version:", false, func(r *receipt.Receipt) { r.Version = 2 }},
	{"entry-content-altered", "entry: content", false, func(r *receipt.Receipt) { r.Entry.Content += "." }},
	{"entry-metadata-altered", "entry: content, metadata", false, func(r *receipt.Receipt) { r.Entry.Metadata = []byte(`{"n":3,"source":"vector"}`) }},
	{"entry-owner-of-somebody-else", "entry: content, metadata, owner", false, func(r *receipt.Receipt) { r.Entry.Owner = events.OwnerFromBytes(filled(0x42)) }},
	{"entry-owner-no-key", "entry.owner:", false, func(r *receipt.Receipt) { r.Entry.Owner = "nobody" }},
	{"entry-salt-altered", "entry: content, metadata, owner, salt", false, func(r *receipt.Receipt) { r.Entry.Salt = other(events.Hash{}).String() }},
	{"entry-v-unknown", "entry.v:", false, func(r *receipt.Receipt) { r.Entry.V = 2 }},
	{"leafhash-altered", "leafHash:", false, func(r *receipt.Receipt) { r.Leaf = other(r.Leaf) }},
	{"leafindex-of-another-leaf", "leafIndex:", false, func(r *receipt.Receipt) { r.LeafIndex = 3 }},
	{"leafindex-outside-the-tree", "leafIndex:", false, func(r *receipt.Receipt) { r.LeafIndex = treeSize }},
	{"treesize-larger", "treeSize:", false, func(r *receipt.Receipt) { r.TreeSize = 9 }},
	{"treesize-smaller", "treeSize:", false, func(r *receipt.Receipt) { r.TreeSize = 4 }},
	{"siblings-one-altered", "siblings:", false, func(r *receipt.Receipt) { r.Siblings[1] = other(r.Siblings[1]) }},
	{"siblings-one-missing", "siblings:", false, func(r *receipt.Receipt) { r.Siblings = r.Siblings[:2] }},
	{"directions-one-altered", "directions:", false, func(r *receipt.Receipt) { r.Directions[0] = !r.Directions[0] }},
	{"directions-one-missing", "directions:", false, func(r *receipt.Receipt) { r.Directions = r.Directions[:2] }},
	{"batchroot-altered", "batchRoot:", false, func(r *receipt.Receipt) { r.BatchRoot = other(r.BatchRoot) }},
	{"consistency-one-altered", "consistency:", false, func(r *receipt.Receipt) { r.Consistency[0] = other(r.Consistency[0]) }},
	{"consistency-one-missing", "consistency:", false, func(r *receipt.Receipt) { r.Consistency = r.Consistency[1:] }},
	{"consistency-without-anchor", "consistency:", false, func(r *receipt.Receipt) { r.Anchor = nil }},
	{"anchor-committedroot-altered", "anchor.committedRoot:", false, func(r *receipt.Receipt) { r.Anchor.CommittedRoot = other(r.Anchor.CommittedRoot) }},
	{"anchor-committedsize-larger", "consistency:", false, func(r *receipt.Receipt) { r.Anchor.CommittedSize = 20 }},
	{"anchor-committedsize-smaller-than-treesize", "anchor.committedSize:", false, func(r *receipt.Receipt) { r.Anchor.CommittedSize = 4 }},
	{"anchor-slot-zero", "anchor.slot:", false, func(r *receipt.Receipt) { r.Anchor.Slot = 0 }},
	{"anchor-cluster-no-hash", "anchor.cluster:", false, func(r *receipt.Receipt) { r.Anchor.Cluster = "mainnet" }},
	{"anchor-programid-no-address", "anchor.programId:", false, func(r *receipt.Receipt) { r.Anchor.ProgramID = "l0O" }},
	{"anchor-account-no-address", "anchor.account:", false, func(r *receipt.Receipt) { r.Anchor.Account = "" }},
	{"anchor-txsignature-no-signature", "anchor.txSignature:", false, func(r *receipt.Receipt) { r.Anchor.TxSignature = genesis }},
	{"onchain-cluster-another", "anchor.cluster:", true, func(r *receipt.Receipt) { r.Anchor.Cluster = authority.String() }},
	{"onchain-programid-another", "anchor.programId:", true, func(r *receipt.Receipt) { r.Anchor.ProgramID = authority.String() }},
	{"onchain-account-not-there", "anchor.account:", true, func(r *receipt.Receipt) { r.Anchor.Account = authority.String() }},
	{"onchain-txsignature-not-there", "anchor.txSignature:", true, func(r *receipt.Receipt) { r.Anchor.TxSignature = base58.Encode(bytes.Repeat([]byte{8}, 64)) }},
	{"onchain-slot-another", "anchor.slot:", true, func(r *receipt.Receipt) { r.Anchor.Slot++ }},
}

// malformed: values that no receipt has in that place. The file's name says what
// is wrong, want is what the message begins with.
var malformed = []struct {
	name, path string
	value      any
	want       string
}{
	{"version-null", "version", nil, "version:"},
	{"entry-null", "entry", nil, "entry:"},
	{"entry-content-null", "entry.content", nil, "entry.content:"},
	{"entry-content-a-number", "entry.content", 2, "entry.content:"},
	{"entry-metadata-null", "entry.metadata", nil, "entry.metadata:"},
	{"entry-metadata-an-array", "entry.metadata", []any{}, "entry.metadata:"},
	{"entry-owner-null", "entry.owner", nil, "entry.owner:"},
	{"entry-salt-null", "entry.salt", nil, "entry.salt:"},
	{"entry-v-null", "entry.v", nil, "entry.v:"},
	{"leafhash-null", "leafHash", nil, "leafHash:"},
	{"leafindex-null", "leafIndex", nil, "leafIndex:"},
	{"leafindex-a-text", "leafIndex", "2", "leafIndex:"},
	{"treesize-null", "treeSize", nil, "treeSize:"},
	{"siblings-null", "siblings", nil, "siblings:"},
	{"siblings-one-null", "siblings.1", nil, "siblings: element 1"},
	{"siblings-one-a-number", "siblings.1", 1, "siblings:"},
	{"directions-null", "directions", nil, "directions:"},
	// The decoder takes it for false, which is what stands there in a good one.
	{"directions-one-null", "directions.1", nil, "directions: element 1"},
	{"directions-one-a-number", "directions.1", 0, "directions:"},
	{"batchroot-null", "batchRoot", nil, "batchRoot:"},
	{"consistency-null", "consistency", nil, "consistency:"},
	{"consistency-one-null", "consistency.0", nil, "consistency: element 0"},
	{"anchor-a-text", "anchor", "none", "anchor:"},
	{"anchor-slot-null", "anchor.slot", nil, "anchor.slot:"},
	{"anchor-txsignature-null", "anchor.txSignature", nil, "anchor.txSignature:"},
	{"anchor-committedroot-null", "anchor.committedRoot", nil, "anchor.committedRoot:"},
}

// with is the text of a good receipt with another value in one place.
func with(t *testing.T, path string, value any) []byte {
	t.Helper()
	var text any
	d := stdjson.NewDecoder(bytes.NewReader(encode(t, good())))
	d.UseNumber()
	if err := d.Decode(&text); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// encode is the file of a receipt.
func encode(t *testing.T, r *receipt.Receipt) []byte {
	t.Helper()
	var out bytes.Buffer
	e := stdjson.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// current compares a file with what it should be, or writes it.
func current(t *testing.T, name string, want []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run make generate", file)
	}
	return got
}

func TestGood(t *testing.T) {
	r, err := receipt.Parse(current(t, "good.json", encode(t, good())))
	if err != nil {
		t.Fatal(err)
	}
	if err := receipt.Verify(r); err != nil {
		t.Error(err)
	}
	for _, size := range []uint64{committedSize, committedSize + 5} { // now, and after the account moved on
		if _, err := receipt.Check(t.Context(), node(t, size), r); err != nil {
			t.Errorf("account of %d leaves: %v", size, err)
		}
	}
	for size, want := range map[uint64]string{committedSize - 1: "anchor.committedSize:", 0: "anchor.account:"} {
		if _, err := receipt.Check(t.Context(), node(t, size), r); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("account of %d leaves: %v", size, err)
		}
	}
	unanchored := good()
	unanchored.Anchor, unanchored.Consistency = nil, []events.Hash{}
	if r, err = receipt.Parse(current(t, "good-not-anchored.json", encode(t, unanchored))); err != nil {
		t.Fatal(err)
	}
	if err := receipt.Verify(r); err != nil {
		t.Error(err)
	}
}

// A value of another kind, or none, is refused where it stands. (TestAltered counts
// the files of both.)
func TestAlteredForm(t *testing.T) {
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			r, err := receipt.Parse(current(t, filepath.Join("bad", m.name+".json"), with(t, m.path, m.value)))
			if err == nil {
				err = receipt.Verify(r)
			}
			var finding *receipt.Finding
			if !errors.As(err, &finding) || !strings.HasPrefix(err.Error(), m.want) {
				t.Errorf("got %v, want a finding that begins with %q", err, m.want)
			}
		})
	}
}

func TestAltered(t *testing.T) {
	chain := node(t, committedSize)
	for _, a := range alterations {
		t.Run(a.name, func(t *testing.T) {
			r := good()
			a.change(r)
			r, err := receipt.Parse(current(t, filepath.Join("bad", a.name+".json"), encode(t, r)))
			if err != nil {
				t.Fatal(err)
			}
			err = receipt.Verify(r)
			if a.onchain {
				if err != nil {
					t.Fatalf("offline: %v", err)
				}
				_, err = receipt.Check(t.Context(), chain, r)
			}
			var finding *receipt.Finding
			if !errors.As(err, &finding) || !strings.HasPrefix(err.Error(), a.want) {
				t.Errorf("got %v, want a finding that begins with %q", err, a.want)
			}
		})
	}
	files := must(filepath.Glob("testdata/bad/*.json"))
	if len(files) != len(alterations)+len(malformed) {
		t.Errorf("%d files for %d alterations and %d malformed values", len(files), len(alterations), len(malformed))
	}
}

func TestMalformed(t *testing.T) {
	text := string(encode(t, good()))
	for what, c := range map[string]struct {
		text, want string
		garbage    bool
	}{
		"empty":            {"", "", true},
		"not JSON":         {"receipt", "", true},
		"an array":         {"[]", "", true},
		"another object":   {`{"a":1}`, "", true},
		"trailing data":    {text + "{}", "", true},
		"a name twice":     {strings.Replace(text, `"treeSize"`, `"version": 1, "treeSize"`, 1), "", true},
		"too long":         {strings.Repeat(" ", receipt.MaxBytes) + text, "", true},
		"a member missing": {strings.Replace(text, `"treeSize": 5,`, ``, 1), "treeSize:", false},
		"one more member":  {strings.Replace(text, `"version"`, `"extra": 1, "version"`, 1), "extra:", false},
		"uppercase hex":    {strings.Replace(text, `"leafHash": "`, `"leafHash": "AB`, 1), "leafHash:", false},
		"a null":           {strings.Replace(text, `"treeSize": 5`, `"treeSize": null`, 1), "treeSize:", false},
		"a float":          {strings.Replace(text, `"treeSize": 5`, `"treeSize": 5.5`, 1), "treeSize:", false},
	} {
		_, err := receipt.Parse([]byte(c.text))
		var finding *receipt.Finding
		if c.garbage != errors.Is(err, receipt.ErrGarbage) || !c.garbage && (!errors.As(err, &finding) || !strings.HasPrefix(finding.Field+":", c.want)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// node is a chain that holds the vectors' commitment, and has moved on where
// size is larger; 0 is without the account.
func node(t *testing.T, size uint64) string {
	t.Helper()
	r := good()
	root, last := [32]byte(r.Anchor.CommittedRoot), uint64(slot)
	if size != committedSize {
		root, last = [32]byte{1}, slot+100
	}
	data := commitment.Account{Authority: authority, Owner: solana.PublicKey(owner.Bytes()), Size: size, Root: root, Slot: last, Count: 1}.Encode()
	commit := commitment.Commit{Owner: solana.PublicKey(owner.Bytes()), Size: committedSize, Root: [32]byte(r.Anchor.CommittedRoot)}.Encode()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var call struct {
			Method string
			Params []any
		}
		_ = stdjson.NewDecoder(q.Body).Decode(&call)
		var result any
		switch call.Method {
		case "getGenesisHash":
			result = genesis
		case "getAccountInfo":
			value := any(nil)
			if call.Params[0] == account().String() && size > 0 {
				value = map[string]any{"owner": program.LocalID.String(), "data": []string{base64.StdEncoding.EncodeToString(data), "base64"}}
			}
			result = map[string]any{"value": value}
		case "getTransaction":
			if call.Params[0] == signature {
				result = map[string]any{"slot": slot, "meta": map[string]any{"err": nil}, "transaction": map[string]any{"message": map[string]any{
					"accountKeys":  []string{authority.String(), account().String(), program.LocalID.String()},
					"instructions": []any{map[string]any{"programIdIndex": 2, "accounts": []int{0, 1}, "data": base58.Encode(commit)}},
				}}}
			}
		}
		_ = stdjson.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Every place in every tree up to a size: what the verifier's own arithmetic
// says must be what the tree says.
func TestEveryPlace(t *testing.T) {
	all := leaves()
	hashes := make([]events.Hash, len(all))
	for i := range all {
		hashes[i] = must(all[i].Hash())
	}
	for to := uint64(1); to <= committedSize; to++ {
		for from := uint64(1); from <= to; from++ {
			for index := range from {
				r := good()
				p := must(tree.InclusionOf(hashes, index, from))
				l := all[index]
				r.Entry = receipt.Entry{Content: l.Content, Metadata: l.Metadata.Bytes(), Owner: owner, Salt: l.Salt, V: 1}
				r.Leaf, r.LeafIndex, r.TreeSize, r.BatchRoot, r.Siblings, r.Directions = p.Leaf, index, from, p.Root, p.Siblings, p.Directions
				r.Anchor.CommittedSize, r.Anchor.CommittedRoot = to, tree.RootOf(hashes[:to])
				r.Consistency = must(tree.ConsistencyOf(hashes, from, to))
				if err := receipt.Verify(r); err != nil {
					t.Fatalf("leaf %d of %d in %d: %v", index, from, to, err)
				}
			}
		}
	}
}
