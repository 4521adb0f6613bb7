package verify

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"
)

// The golden files of the repository's verifiers.
const (
	receipts = "testdata/receipt/"
	journey  = "../../docs/journey/"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	noErr(t, err)
	return text
}

func parse[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	noErr(t, json.Unmarshal(text, &v))
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

// TestJourney: the files of the worked story hold.
func TestJourney(t *testing.T) {
	t.Parallel()
	leaf := parse[struct {
		LeafHash Hash `json:"leafHash"`
	}](t, read(t, journey+"leaf.json"))
	tree := parse[struct {
		Leaves []Hash          `json:"leaves"`
		Roots  map[string]Hash `json:"roots"`
	}](t, read(t, journey+"tree.json"))
	r := mustReceipt(t, journey+"receipt.json")
	if r.LeafHash != leaf.LeafHash {
		t.Errorf("leaf %s", r.LeafHash)
	}
	log := NewTree()
	for _, hash := range tree.Leaves {
		log.Append(hash)
		if root := log.Root(); root != tree.Roots[fmt.Sprint(log.Size())] {
			t.Errorf("root of %d: %s", log.Size(), root)
		}
	}
	c := parse[commitmentFile](t, read(t, journey+"commitment.json"))
	if at := CommitmentAddress(c.ProgramID, c.Authority, c.Owner); at != c.Account {
		t.Errorf("derived %s, want %s", at, c.Account)
	}
}

// journeyChain serves the commitments of the journey, newest first, behind one failed
// transaction.
func journeyChain(t *testing.T, f commitmentFile) string {
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
			result = f.Cluster
		case "getSignaturesForAddress":
			page := []any{}
			if options, _ := call.Params[1].(map[string]any); call.Params[0] == f.Account && options["before"] == nil {
				page = append(page, map[string]any{"signature": "failed", "err": "why"})
				for i := len(f.Commits) - 1; i >= 0; i-- {
					page = append(page, map[string]any{"signature": f.Commits[i].TxSignature, "err": nil})
				}
			}
			result = page
		case "getTransaction":
			for _, c := range f.Commits {
				if c.TxSignature != call.Params[0] {
					continue
				}
				instruction, err := hex.DecodeString(c.Instruction)
				if err != nil {
					t.Error(err)
				}
				result = map[string]any{"slot": c.Slot, "meta": map[string]any{"err": nil}, "transaction": map[string]any{"message": map[string]any{
					"accountKeys":  []string{f.Authority, f.Account, f.ProgramID},
					"instructions": []any{map[string]any{"programIdIndex": 2, "accounts": []int{0, 1}, "data": base58.Encode(instruction)}},
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

// early returns a receipt as it was before its anchor.
func early(t *testing.T, path string) *Receipt {
	t.Helper()
	r := *mustReceipt(t, path)
	r.Anchor, r.Consistency = nil, []Hash{}
	return &r
}

// TestNotAnchoredIsNoLie: a receipt that was saved before its anchor is not wrong.
func TestNotAnchoredIsNoLie(t *testing.T) {
	t.Parallel()
	r := early(t, journey+"receipt.json")
	_, onchain := r.VerifyOnchain(t.Context(), "http://127.0.0.1:1")
	header := ExportHeader{Owner: r.Entry.Owner}
	_, export := header.VerifyOnchain(t.Context(), "http://127.0.0.1:1")
	by := Issuer{ProgramID: "8C3odsbKGYCEipcgRMnCek1xY9oXRbmqKpEkFaeoF9Cp"}
	for name, err := range map[string]error{
		"a receipt": onchain, "an export": export, "a receipt's issuer": r.VerifyIssuer(by), "an export's issuer": header.Anchor.VerifyIssuer(by, header.Owner),
	} {
		var v *Error
		if !errors.Is(err, ErrNotAnchored) || errors.As(err, &v) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCompleteFrom: a later receipt completes an earlier one, if it is of the same memory or
// of the same tree.
func TestCompleteFrom(t *testing.T) {
	t.Parallel()
	r, later := early(t, receipts+"good.json"), mustReceipt(t, receipts+"good.json")
	done, err := r.CompleteFrom(later)
	if err != nil || done.Verify() != nil || done.Anchor.CommittedSize != 11 {
		t.Errorf("%+v, %v", done, err)
	}
	if again, err := done.CompleteFrom(r); err != nil || again != done {
		t.Errorf("a complete one: %v", err)
	}
	if _, err := r.CompleteFrom(r); !errors.Is(err, ErrNotAnchored) {
		t.Errorf("from one without an anchor: %v", err)
	}
	_, err = r.CompleteFrom(mustReceipt(t, journey+"receipt.json"))
	expect(t, err, ErrWrongOwner, "entry.owner")
	bad := *later
	bad.BatchRoot[0] ^= 1
	if _, err := r.CompleteFrom(&bad); err == nil {
		t.Error("from one that does not hold")
	}
	// Two leaves of one tree, and of two trees.
	leaves := []Hash{}
	entries := []Entry{}
	for _, text := range []string{"a", "b", "c"} {
		e := Entry{Content: text, Metadata: jsontext.Value("{}"), Owner: r.Entry.Owner, Salt: r.Entry.Salt, V: 1}
		hash, err := e.LeafHash()
		noErr(t, err)
		leaves, entries = append(leaves, hash), append(entries, e)
	}
	two, anchor := rootOf(leaves[:2]), *later.Anchor
	anchor.CommittedSize, anchor.CommittedRoot = 3, rootOf(leaves)
	first := &Receipt{Version: 1, Entry: entries[0], LeafHash: leaves[0], TreeSize: 2, Siblings: leaves[1:2], Directions: []bool{true}, BatchRoot: two, Consistency: []Hash{}}
	second := &Receipt{Version: 1, Entry: entries[1], LeafHash: leaves[1], LeafIndex: 1, TreeSize: 2, Siblings: leaves[:1], Directions: []bool{false}, BatchRoot: two, Anchor: &anchor, Consistency: leaves[2:]}
	if done, err := first.CompleteFrom(second); err != nil || done.LeafHash != leaves[0] || done.Anchor.CommittedSize != 3 {
		t.Errorf("from another leaf of the same tree: %+v, %v", done, err)
	}
	third := &Receipt{Version: 1, Entry: entries[2], LeafHash: leaves[2], LeafIndex: 2, TreeSize: 3, Siblings: []Hash{two}, Directions: []bool{false}, BatchRoot: rootOf(leaves), Anchor: &anchor, Consistency: []Hash{}}
	if _, err := first.CompleteFrom(third); !errors.Is(err, ErrCantComplete) {
		t.Errorf("from another tree: %v", err)
	}
	// From before its owner moved, with another operator's anchor of the same tree.
	before, moved := anchor, *first
	before.Account = anchor.ProgramID
	moved.Anchor, moved.Consistency = &before, leaves[2:]
	for _, later := range []*Receipt{second, third} {
		if done, err := moved.CompleteFrom(later); err != nil || done.LeafHash != leaves[0] || done.Anchor.Account != anchor.Account {
			t.Errorf("from before a move: %+v, %v", done, err)
		}
	}
	other := *third
	other.LeafIndex, other.TreeSize, other.Siblings, other.Directions, other.BatchRoot = 0, 2, leaves[1:2], []bool{true}, Hash(hasher.HashChildren(leaves[2][:], leaves[1][:]))
	other.Anchor = nil
	_, err = first.CompleteFrom(&other)
	expect(t, err, ErrForked, "leafHash")
}

// TestCompleteOnchain: the chain completes a receipt whose tree was committed.
func TestCompleteOnchain(t *testing.T) {
	t.Parallel()
	f := parse[commitmentFile](t, read(t, journey+"commitment.json"))
	r, by := early(t, journey+"receipt.json"), Issuer{f.ProgramID, f.Authority}
	done, err := r.CompleteOnchain(t.Context(), journeyChain(t, f), by)
	if err != nil || done.Verify() != nil || done.VerifyIssuer(by) != nil || done.Anchor.TxSignature != f.Commits[0].TxSignature || done.Anchor.Slot != 4100 {
		t.Errorf("%+v, %v", done, err)
	}
	without := f
	without.Commits = f.Commits[1:]
	if _, err := r.CompleteOnchain(t.Context(), journeyChain(t, without), by); !errors.Is(err, ErrNotAnchored) {
		t.Errorf("only a larger tree is committed: %v", err)
	}
	forked := f
	forked.Commits = slices.Clone(f.Commits)
	for i := range forked.Commits {
		in := &forked.Commits[i].Instruction
		last := "0"
		if (*in)[159:] == last {
			last = "1"
		}
		*in = (*in)[:159] + last
	}
	_, err = r.CompleteOnchain(t.Context(), journeyChain(t, forked), by)
	expect(t, err, ErrForked, "batchRoot")
	// From before its owner moved: the chain may also have the tree that was anchored there.
	moved := *mustReceipt(t, journey+"receipt.json")
	before := *moved.Anchor
	before.Account, moved.Anchor = before.ProgramID, &before
	for _, chain := range []commitmentFile{f, without} {
		done, err := moved.CompleteOnchain(t.Context(), journeyChain(t, chain), by)
		if err != nil || done.VerifyIssuer(by) != nil || done.Anchor.CommittedSize != before.CommittedSize {
			t.Errorf("from before a move: %+v, %v", done, err)
		}
	}
	_, err = moved.CompleteOnchain(t.Context(), journeyChain(t, forked), by)
	expect(t, err, ErrForked, "anchor.committedRoot")
	if _, err := r.CompleteOnchain(t.Context(), "http://127.0.0.1:1", by); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	for _, by := range []Issuer{{}, {ProgramID: f.ProgramID}} {
		if _, err := r.CompleteOnchain(t.Context(), "http://127.0.0.1:1", by); err == nil || errors.Is(err, ErrUnreachable) {
			t.Errorf("%+v: %v", by, err)
		}
	}
}
