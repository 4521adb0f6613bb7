package memoryledger

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/mr-tron/base58"
)

// The golden vectors that every verifier of this repository must pass.
const (
	receipts = "../../../anchoring/receipt/testdata/"
	exports  = "../../../anchoring/export/testdata/"
	journey  = "../../../docs/journey/"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustReceipt(t *testing.T, path string) *Receipt {
	t.Helper()
	r, err := ParseReceipt(read(t, path))
	if err == nil {
		err = r.Verify()
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// expect checks the kind of an error, and its field if one is given.
func expect(t *testing.T, err error, kind error, field string) {
	t.Helper()
	var v *VerificationError
	if !errors.As(err, &v) || !errors.Is(err, kind) || field != "" && v.Field != field {
		t.Errorf("got %v, want %v of %q", err, kind, field)
	}
}

func TestLeaves(t *testing.T) {
	t.Parallel()
	vectors := parse[[]struct {
		Name     string `json:"name"`
		Owner    string `json:"owner"`
		Content  string `json:"content"`
		Metadata string `json:"metadata"`
		Salt     string `json:"salt"`
		Entry    string `json:"entry"`
		LeafHash Hash   `json:"leafHash"`
	}](t, read(t, "../../../events/leaf/testdata/vectors.json"))
	if len(vectors) < 5 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		entry := Entry{Content: v.Content, Metadata: parse[Metadata](t, []byte(v.Metadata)), Owner: v.Owner, Salt: v.Salt, V: 1}
		text, err := canonicalize(&entry)
		hash, malformed := entry.hash()
		if err != nil || malformed != nil || string(text) != v.Entry || hash != v.LeafHash {
			t.Errorf("%s: %s, %s, %v, %v", v.Name, text, hash, err, malformed)
		}
	}
}

func TestNotIJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":1e400}`, `{"a":NaN}`, `{`} {
		var m Metadata
		if err := json.Unmarshal([]byte(text), &m); err == nil {
			t.Errorf("%s is read as %v", text, m)
		}
	}
	if text, err := canonicalize(Metadata{"a": "\xff"}); err == nil {
		t.Errorf("got %s", text)
	}
}

type commitmentFile struct {
	Cluster   string `json:"cluster"`
	ProgramID string `json:"programId"`
	Authority string `json:"authority"`
	Owner     string `json:"owner"`
	Account   string `json:"account"`
	Commits   []struct {
		Size        uint64 `json:"size"`
		Root        Hash   `json:"root"`
		Instruction string `json:"instruction"`
		TxSignature string `json:"txSignature"`
		Slot        uint64 `json:"slot"`
		AccountData string `json:"accountData"`
	} `json:"commits"`
}

func TestJourney(t *testing.T) {
	t.Parallel()
	leaf := parse[struct {
		Entry    string `json:"entry"`
		LeafHash Hash   `json:"leafHash"`
	}](t, read(t, journey+"leaf.json"))
	tree := parse[struct {
		Leaves []Hash          `json:"leaves"`
		Roots  map[string]Hash `json:"roots"`
	}](t, read(t, journey+"tree.json"))
	r := mustReceipt(t, journey+"receipt.json")
	if text, err := canonicalize(&r.Entry); err != nil || string(text) != leaf.Entry || r.LeafHash != leaf.LeafHash {
		t.Errorf("%s, %v", text, err)
	}
	log := newTree()
	for _, hash := range tree.Leaves {
		if err := log.add(hash); err != nil {
			t.Fatal(err)
		}
		if root, err := log.root(); err != nil || root != tree.Roots[fmt.Sprint(log.size())] {
			t.Errorf("root of %d: %s, %v", log.size(), root, err)
		}
	}
	c := parse[commitmentFile](t, read(t, journey+"commitment.json"))
	if at := commitmentAddress(c.ProgramID, c.Authority, c.Owner); at != c.Account {
		t.Errorf("derived %s, want %s", at, c.Account)
	}
	for _, by := range []Issuer{{}, {ProgramID: c.ProgramID}, {c.ProgramID, c.Authority}} {
		if err := r.VerifyIssuer(by); err != nil {
			t.Error(err)
		}
	}
	expect(t, r.VerifyIssuer(Issuer{ProgramID: c.Owner}), ErrChain, "anchor.programId")
	expect(t, r.VerifyIssuer(Issuer{c.ProgramID, c.Owner}), ErrChain, "anchor.account")
	for _, by := range []Issuer{{Authority: c.Authority}, {ProgramID: "x"}, {c.ProgramID, "0"}} {
		var v *VerificationError
		if err := r.VerifyIssuer(by); err == nil || errors.As(err, &v) {
			t.Errorf("%+v: %v", by, err)
		}
	}
	commit := c.Commits[len(c.Commits)-1]
	data, err := hex.DecodeString(commit.AccountData)
	if err != nil {
		t.Fatal(err)
	}
	instruction, err := hex.DecodeString(commit.Instruction)
	if err != nil {
		t.Fatal(err)
	}
	chain := &testChain{c.Cluster, c.ProgramID, c.Account, c.Authority, commit.TxSignature, commit.Slot, data, instruction}
	held, err := r.VerifyOnchain(t.Context(), chain.serve(t))
	if err != nil || *held != (Onchain{c.Authority, commit.Size, commit.Root}) {
		t.Errorf("%+v, %v", held, err)
	}
}

// TestEveryProof tries the consistency proof between every two sizes, as RFC 9162, section
// 2.1.4.1, defines it.
func TestEveryProof(t *testing.T) {
	t.Parallel()
	var leaves []Hash
	for n := range 20 {
		leaves = append(leaves, Hash(hasher.HashLeaf(fmt.Append(nil, n))))
	}
	rootOf := func(part []Hash) Hash {
		log := newTree()
		for _, leaf := range part {
			if err := log.add(leaf); err != nil {
				t.Fatal(err)
			}
		}
		root, err := log.root()
		if err != nil {
			t.Fatal(err)
		}
		return root
	}
	var proofOf func(m int, part []Hash, whole bool) []Hash
	proofOf = func(m int, part []Hash, whole bool) []Hash {
		if m == len(part) && whole {
			return nil
		}
		if m == len(part) {
			return []Hash{rootOf(part)}
		}
		k := 1 << (bits.Len(uint(len(part)-1)) - 1)
		if m <= k {
			return append(proofOf(m, part[:k], whole), rootOf(part[k:]))
		}
		return append(proofOf(m-k, part[k:], false), rootOf(part[:k]))
	}
	for to := 1; to <= len(leaves); to++ {
		for from := 1; from <= to; from++ {
			proof, first, second := proofOf(from, leaves[:to], true), rootOf(leaves[:from]), rootOf(leaves[:to])
			good := func(path []Hash) bool {
				got, err := consistency(uint64(from), uint64(to), first, path)
				return err == nil && got == second
			}
			if !good(proof) {
				t.Errorf("%d to %d", from, to)
			}
			for i := range proof {
				altered := append([]Hash{}, proof...)
				altered[i][0] ^= 1
				if good(altered) {
					t.Errorf("%d to %d, hash %d altered", from, to, i)
				}
			}
			if good(append(append([]Hash{}, proof...), second)) || len(proof) > 0 && good(proof[1:]) {
				t.Errorf("%d to %d: another number of hashes", from, to)
			}
		}
	}
	if _, err := consistency(0, 1, emptyRoot, nil); err == nil {
		t.Error("a proof from an empty log")
	}
}

// testChain is a node that holds one commitment.
type testChain struct {
	cluster, program, account, authority, signature string
	slot                                            uint64 // of the transaction
	data, instruction                               []byte
}

func (c *testChain) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string `json:"method"`
			Params []any  `json:"params"`
		}
		if err := json.UnmarshalRead(r.Body, &call); err != nil {
			t.Error(err)
		}
		var result any
		switch call.Method {
		case "getGenesisHash":
			result = c.cluster
		case "getAccountInfo":
			var value any
			if call.Params[0] == c.account {
				value = map[string]any{"owner": c.program, "data": []string{base64.StdEncoding.EncodeToString(c.data), "base64"}}
			}
			result = map[string]any{"context": map[string]any{"slot": 1}, "value": value}
		case "getTransaction":
			if call.Params[0] == c.signature {
				result = map[string]any{"slot": c.slot, "meta": map[string]any{"err": nil}, "transaction": map[string]any{"message": map[string]any{
					"accountKeys":  []string{c.authority, c.account, c.program},
					"instructions": []any{map[string]any{"programIdIndex": 2, "accounts": []int{0, 1}, "data": base58.Encode(c.instruction)}},
				}}}
			}
		}
		if err := json.MarshalWrite(w, map[string]any{"jsonrpc": "2.0", "id": 1, "result": result}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// vectorChain returns the chain of the receipts, with an account that commits to size
// leaves.
func vectorChain(t *testing.T, size uint64) *testChain {
	t.Helper()
	r := mustReceipt(t, receipts+"good.json")
	authority := make([]byte, 32)
	for i := range authority {
		authority[i] = 0x21 + byte(i)
	}
	owner, err := base58.Decode(r.Entry.Owner)
	if err != nil {
		t.Fatal(err)
	}
	u64 := binary.LittleEndian.AppendUint64
	a := r.Anchor
	root, slot := a.CommittedRoot, a.Slot
	if size != a.CommittedSize {
		root, slot = Hash{1}, a.Slot+100
	}
	data := append(append([]byte(accountMagic), authority...), owner...)
	data = u64(u64(append(u64(data, size), root[:]...), slot), 1)
	instruction := append(u64(append(u64(nil, 1), owner...), a.CommittedSize), a.CommittedRoot[:]...)
	return &testChain{a.Cluster, a.ProgramID, a.Account, base58.Encode(authority), a.TxSignature, a.Slot, data, instruction}
}

func TestGoodReceipts(t *testing.T) {
	t.Parallel()
	unanchored := mustReceipt(t, receipts+"good-not-anchored.json")
	_, err := unanchored.VerifyOnchain(t.Context(), "")
	if !errors.Is(err, ErrNotAnchored) {
		t.Errorf("not anchored: %v", err)
	}
	r := mustReceipt(t, receipts+"good.json")
	for _, size := range []uint64{11, 16} {
		if held, err := r.VerifyOnchain(t.Context(), vectorChain(t, size).serve(t)); err != nil || held.Size != size {
			t.Errorf("%d: %+v, %v", size, held, err)
		}
	}
	_, err = r.VerifyOnchain(t.Context(), vectorChain(t, 10).serve(t))
	expect(t, err, ErrChain, "anchor.committedSize")
	// A receipt stored as JSON reads back as a valid receipt.
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseReceipt(text); err != nil || again.Verify() != nil {
		t.Errorf("%v: %s", err, text)
	}
}

func TestChainUnreachable(t *testing.T) {
	t.Parallel()
	r := mustReceipt(t, receipts+"good.json")
	for _, body := range []string{"<html>", "{}", `{"result":1}`, `{"error":{"message":"busy"}}`} {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		if _, err := r.VerifyOnchain(t.Context(), node.URL+"/secret"); !errors.Is(err, ErrChainUnreachable) {
			t.Errorf("%s: %v", body, err)
		}
		node.Close()
		if _, err := r.VerifyOnchain(t.Context(), node.URL+"/secret"); !errors.Is(err, ErrChainUnreachable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("closed: %v", err)
		}
	}
}

// altered has the expected error for each altered receipt. A file that is not listed must
// give ErrMalformed, for the member that the file's name begins with.
var altered = map[string]struct {
	kind  error
	field string
}{
	"version-unknown":                            {ErrMalformed, "version"},
	"entry-content-altered":                      {ErrWrongText, "entry"},
	"entry-metadata-altered":                     {ErrWrongText, "entry"},
	"entry-owner-of-somebody-else":               {ErrWrongText, "entry"},
	"entry-owner-no-key":                         {ErrMalformed, "entry.owner"},
	"entry-salt-altered":                         {ErrWrongText, "entry"},
	"entry-v-unknown":                            {ErrMalformed, "entry.v"},
	"entry-salt-in-capitals":                     {ErrMalformed, "entry.salt"},
	"leafhash-altered":                           {ErrWrongLeaf, "leafHash"},
	"leafindex-of-another-leaf":                  {ErrBadProof, "leafIndex"},
	"leafindex-outside-the-tree":                 {ErrBadProof, "leafIndex"},
	"leafindex-outside-a-tree-of-one":            {ErrBadProof, "leafIndex"},
	"treesize-larger":                            {ErrBadProof, "treeSize"},
	"treesize-smaller":                           {ErrBadProof, "treeSize"},
	"siblings-one-altered":                       {ErrBadProof, "siblings"},
	"siblings-one-missing":                       {ErrBadProof, "siblings"},
	"directions-one-altered":                     {ErrBadProof, "directions"},
	"directions-one-missing":                     {ErrBadProof, "directions"},
	"batchroot-altered":                          {ErrWrongRoot, "batchRoot"},
	"consistency-one-altered":                    {ErrBadConsistency, "consistency"},
	"consistency-one-missing":                    {ErrBadConsistency, "consistency"},
	"consistency-without-anchor":                 {ErrBadConsistency, "consistency"},
	"consistency-where-nothing-is-to-prove":      {ErrBadConsistency, "consistency"},
	"anchor-committedroot-is-not-batchroot":      {ErrChain, "anchor.committedRoot"},
	"anchor-committedroot-altered":               {ErrChain, "anchor.committedRoot"},
	"anchor-committedsize-larger":                {ErrBadConsistency, "consistency"},
	"anchor-committedsize-smaller-than-treesize": {ErrChain, "anchor.committedSize"},
	"anchor-slot-zero":                           {ErrChain, "anchor.slot"},
	"anchor-cluster-no-hash":                     {ErrChain, "anchor.cluster"},
	"anchor-programid-no-address":                {ErrChain, "anchor.programId"},
	"anchor-account-no-address":                  {ErrChain, "anchor.account"},
	"anchor-txsignature-no-signature":            {ErrChain, "anchor.txSignature"},
	"onchain-cluster-another":                    {ErrChain, "anchor.cluster"},
	"onchain-programid-another":                  {ErrChain, "anchor.programId"},
	"onchain-account-not-there":                  {ErrChain, "anchor.account"},
	"onchain-txsignature-not-there":              {ErrChain, "anchor.txSignature"},
	"onchain-slot-another":                       {ErrChain, "anchor.slot"},
}

func TestBadReceipts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(receipts + "bad/*.json")
	if err != nil || len(files) < len(altered) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	chain, found := vectorChain(t, 11).serve(t), 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			r, err := ParseReceipt(read(t, file))
			if err == nil {
				err = r.Verify()
			}
			if err == nil && strings.HasPrefix(name, "onchain-") {
				_, err = r.VerifyOnchain(t.Context(), chain)
			}
			var v *VerificationError
			if !errors.As(err, &v) || v.Liar != LiarIssuer {
				t.Fatalf("it is not refused: %v", err)
			}
			if want, listed := altered[name]; listed {
				found++
				expect(t, err, want.kind, want.field)
				return
			}
			expect(t, err, ErrMalformed, "")
			if field := strings.ToLower(strings.ReplaceAll(v.Field, ".", "-")); !strings.HasPrefix(name, field) {
				t.Errorf("it names %s", v.Field)
			}
		})
	}
	if found != len(altered) {
		t.Errorf("%d of %d altered receipts are there", found, len(altered))
	}
}

func TestNoReceipt(t *testing.T) {
	t.Parallel()
	good := string(read(t, receipts+"good.json"))
	for _, text := range []string{
		"", "receipt", "[]", "null", `{"a":1}`, good + "{}", strings.Replace(good, `"treeSize": 5,`, "", 1),
		strings.Replace(good, `"version"`, `"extra": 1, "version"`, 1), strings.Replace(good, `"version"`, `"treeSize": 5, "version"`, 1),
		strings.Replace(good, `"leafHash": "`, `"leafHash": "AB`, 1), strings.Replace(good, `"treeSize": 5`, `"treeSize": 5.5`, 1),
		strings.Replace(good, `"treeSize": 5`, `"treeSize": 1e30`, 1),
	} {
		_, err := ParseReceipt([]byte(text))
		expect(t, err, ErrMalformed, "")
	}
}

func TestGoodExports(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ leaves, opened int }{"good": {7, 6}, "good-not-anchored": {7, 6}, "good-empty": {0, 0}} {
		text := string(read(t, exports+name+".ndjson"))
		e, err := ReadExport(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		leaves, opened := 0, 0
		for m, err := range e.Memories() {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if leaves++; m.Entry != nil {
				opened++
			}
		}
		if leaves != want.leaves || opened != want.opened || e.Header.TreeSize != uint64(leaves) {
			t.Errorf("%s: %d leaves, %d opened", name, leaves, opened)
		}
	}
}

// alteredExports has the expected error and line for each bad export. The lines are the
// same as in anchoring/export.
var alteredExports = map[string]struct {
	kind  error
	line  uint64
	field string
}{
	"empty":                               {ErrIncomplete, 1, "line"},
	"no-json":                             {ErrMalformed, 1, "header"},
	"format-unknown":                      {ErrMalformed, 1, "format"},
	"header-with-another-member":          {ErrMalformed, 1, "more"},
	"anchor-missing":                      {ErrMalformed, 1, "anchor"},
	"owner-no-key":                        {ErrMalformed, 1, "owner"},
	"owner-another":                       {ErrWrongOwner, 2, "entry.owner"},
	"root-altered":                        {ErrWrongRoot, 1, "root"},
	"treesize-smaller":                    {ErrMalformed, 8, "complete"},
	"treesize-larger":                     {ErrMalformed, 9, "index"},
	"anchor-cluster-no-hash":              {ErrChain, 1, "anchor.cluster"},
	"anchor-slot-zero":                    {ErrChain, 1, "anchor.slot"},
	"anchor-committedsize-zero":           {ErrChain, 1, "anchor.committedSize"},
	"anchor-committedsize-beyond":         {ErrChain, 1, "anchor.committedSize"},
	"anchor-committedsize-another":        {ErrWrongRoot, 1, "anchor.committedRoot"},
	"anchor-committedroot-altered":        {ErrWrongRoot, 1, "anchor.committedRoot"},
	"content-altered":                     {ErrWrongLeaf, 4, "leafHash"},
	"metadata-altered":                    {ErrWrongLeaf, 4, "leafHash"},
	"metadata-an-array":                   {ErrMalformed, 4, "entry.metadata"},
	"salt-altered":                        {ErrWrongLeaf, 4, "leafHash"},
	"salt-no-hex":                         {ErrMalformed, 4, "entry.salt"},
	"entry-of-another-owner":              {ErrWrongOwner, 4, "entry.owner"},
	"entry-v-unknown":                     {ErrMalformed, 4, "entry.v"},
	"entry-of-another-leaf":               {ErrWrongLeaf, 4, "leafHash"},
	"leafhash-altered":                    {ErrWrongLeaf, 4, "leafHash"},
	"leafhash-of-an-erased-one-altered":   {ErrWrongRoot, 1, "anchor.committedRoot"},
	"leaf-forged-whole":                   {ErrWrongRoot, 1, "anchor.committedRoot"},
	"leaf-forged-after-the-anchor":        {ErrWrongRoot, 1, "root"},
	"leaves-swapped":                      {ErrHidden, 4, "index"},
	"leaf-twice":                          {ErrHidden, 5, "index"},
	"leaf-missing":                        {ErrHidden, 4, "index"},
	"entry-missing":                       {ErrMalformed, 5, "entry"},
	"leaf-with-another-member":            {ErrMalformed, 2, "more"},
	"last-line-missing":                   {ErrIncomplete, 9, "line"},
	"breaks-off":                          {ErrIncomplete, 4, "line"},
	"breaks-off-before-the-last-line-end": {ErrIncomplete, 9, "line"},
	"end-not-complete":                    {ErrIncomplete, 9, "complete"},
	"end-counts-otherwise":                {ErrIncomplete, 9, "leaves"},
	"more-after-the-end":                  {ErrMalformed, 10, "line"},
}

func verifyExport(r io.Reader) error {
	e, err := ReadExport(r)
	if err != nil {
		return err
	}
	return e.Verify()
}

func TestBadExports(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(exports + "bad/*.ndjson")
	if err != nil || len(files) != len(alteredExports) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".ndjson")
		t.Run(name, func(t *testing.T) {
			want := alteredExports[name]
			err := verifyExport(strings.NewReader(string(read(t, file))))
			if want.kind == nil {
				t.Fatalf("the vector is not listed: %v", err)
			}
			expect(t, err, want.kind, want.field)
			var v *VerificationError
			if errors.As(err, &v); v.Line != want.line || v.Liar != LiarIssuer {
				t.Errorf("line %d, %s", v.Line, v.Liar)
			}
		})
	}
}

// TestEveryCut: an export that is cut off anywhere before its end is incomplete.
func TestEveryCut(t *testing.T) {
	t.Parallel()
	text := string(read(t, exports+"good.ndjson"))
	for n := range len(text) {
		expect(t, verifyExport(strings.NewReader(text[:n])), ErrIncomplete, "line")
	}
	broken := io.MultiReader(strings.NewReader(text[:300]), iotest.ErrReader(io.ErrClosedPipe))
	if err := verifyExport(broken); !errors.Is(err, io.ErrClosedPipe) || !errors.Is(err, ErrIncomplete) {
		t.Errorf("a file that can't be read: %v", err)
	}
}

// BenchmarkExport reports leaves per second.
func BenchmarkExport(b *testing.B) {
	text, err := os.ReadFile(exports + "good.ndjson")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := verifyExport(strings.NewReader(string(text))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*7/b.Elapsed().Seconds(), "leaves/s")
}
