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
	"sync"
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

func must2[T, U any](v T, _ U, err error) T { return must(v, err) }

// leaves returns the owner's memories, salted with a key used only for the vectors.
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
	return must2(commitment.Address(program.LocalID, authority, solana.PublicKey(owner.Bytes())))
}

func good() *receipt.Receipt { return receiptOf(leaves(), leafIndex, treeSize) }

// newest returns a good receipt whose own batch is the newest commitment.
func newest() *receipt.Receipt { return receiptOf(leaves(), leafIndex, committedSize) }

// receiptOf returns the receipt of a leaf whose batch committed the first size leaves.
func receiptOf(all []leaf.Leaf, index, size uint64) *receipt.Receipt {
	hashes := make([]events.Hash, len(all))
	for i := range all {
		hashes[i] = must(all[i].Hash())
	}
	p := must(tree.InclusionOf(hashes, index, size))
	l := all[index]
	return &receipt.Receipt{
		Version: receipt.Version,
		Entry:   receipt.Entry{Content: l.Content, Metadata: l.Metadata.Bytes(), Owner: owner, Salt: l.Salt, V: leaf.Version},
		Leaf:    p.Leaf, LeafIndex: index, TreeSize: size, Siblings: p.Siblings, Directions: p.Directions, BatchRoot: p.Root,
		Anchor: &receipt.Anchor{
			Cluster: genesis, ProgramID: program.LocalID.String(), Account: account().String(), TxSignature: signature,
			Slot: slot, CommittedSize: committedSize, CommittedRoot: tree.RootOf(hashes),
		},
		Consistency: must(tree.ConsistencyOf(hashes, size, committedSize)),
	}
}

// saltedInCapitals returns a consistent receipt with a salt that no leaf can have.
func saltedInCapitals() *receipt.Receipt {
	all := leaves()
	all[leafIndex].Salt = strings.ToUpper(all[leafIndex].Salt)
	return receiptOf(all, leafIndex, treeSize)
}

// other returns a hash that differs from h.
func other(h events.Hash) events.Hash { return sha256.Sum256(h[:]) }

// alterations are vectors of altered receipts. The file's name says what is wrong, and
// the message begins with want. Only a node can detect those with onchain set.
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
	{"entry-salt-in-capitals", "entry.salt:", false, func(r *receipt.Receipt) { *r = *saltedInCapitals() }},
	{"leafhash-altered", "leafHash:", false, func(r *receipt.Receipt) { r.Leaf = other(r.Leaf) }},
	{"leafindex-of-another-leaf", "leafIndex:", false, func(r *receipt.Receipt) { r.LeafIndex = 3 }},
	{"leafindex-outside-the-tree", "leafIndex:", false, func(r *receipt.Receipt) { r.LeafIndex = treeSize }},
	// The path of a tree's only leaf is empty, whatever index the receipt claims.
	{"leafindex-outside-a-tree-of-one", "leafIndex:", false, func(r *receipt.Receipt) {
		*r = *receiptOf(leaves(), 0, 1)
		r.LeafIndex = 1
	}},
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
	{"consistency-where-nothing-is-to-prove", "consistency:", false, func(r *receipt.Receipt) {
		*r = *newest()
		r.Consistency = []events.Hash{other(r.BatchRoot)}
	}},
	{"anchor-committedroot-is-not-batchroot", "anchor.committedRoot:", false, func(r *receipt.Receipt) {
		*r = *newest()
		r.Anchor.CommittedRoot = other(r.BatchRoot)
	}},
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

// malformed are vectors with values that no receipt has in that place. The file's name
// says what is wrong, and the message begins with want.
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
	// The decoder decodes null as false, which is the value there in a good receipt.
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

// with returns the text of a good receipt with the value at path replaced.
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

// encode returns the text of a receipt's file.
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

// current compares a file with its wanted contents, or writes the file.
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

// A value of the wrong kind, or null, is refused with a finding for its member.
// (TestAltered counts the files of both.)
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

// nodeSays is the set of answers of a node.
type nodeSays struct {
	genesis string
	at      string // address of the account
	account *nodeAccount
	tx      *nodeTransaction

	asked sync.Map // requested commitment, by method
}

type nodeAccount struct {
	Owner string   `json:"owner"`
	Data  []string `json:"data"`
}

type nodeTransaction struct {
	Slot        uint64           `json:"slot"`
	Meta        *nodeMeta        `json:"meta"`
	Transaction nodeInstructions `json:"transaction"`
}

type nodeMeta struct {
	Err any `json:"err"`
}

type nodeInstructions struct {
	Message struct {
		AccountKeys  []string          `json:"accountKeys"`
		Instructions []nodeInstruction `json:"instructions"`
	} `json:"message"`
}

type nodeInstruction struct {
	Program  int    `json:"programIdIndex"`
	Accounts []int  `json:"accounts"`
	Data     string `json:"data"`
}

// holding is an account of the program that holds a commitment.
func holding(c commitment.Account) *nodeAccount {
	return &nodeAccount{program.LocalID.String(), []string{base64.StdEncoding.EncodeToString(c.Encode()), "base64"}}
}

// committed returns the vectors' account when their commit was its newest.
func committed() commitment.Account {
	return commitment.Account{
		Authority: authority, Owner: solana.PublicKey(owner.Bytes()), Size: committedSize,
		Root: [32]byte(good().Anchor.CommittedRoot), Slot: slot, Count: 1,
	}
}

// truth returns a chain that holds the vectors' commitment. If size is larger, the
// account has moved on. If size is 0, the account does not exist.
func truth(size uint64) *nodeSays {
	held := committed()
	if size != committedSize {
		held.Size, held.Root, held.Slot = size, [32]byte{1}, slot+100
	}
	says := &nodeSays{genesis: genesis, at: account().String(), tx: &nodeTransaction{Slot: slot, Meta: &nodeMeta{}}}
	if size > 0 {
		says.account = holding(held)
	}
	message := &says.tx.Transaction.Message
	message.AccountKeys = []string{authority.String(), account().String(), program.LocalID.String()}
	message.Instructions = []nodeInstruction{{2, []int{0, 1}, commitOf(committed())}}
	return says
}

// commitOf returns the data of the instruction that writes an account.
func commitOf(a commitment.Account) string {
	return base58.Encode(commitment.Commit{Owner: a.Owner, Size: a.Size, Root: a.Root}.Encode())
}

// node serves the chain of truth.
func node(t *testing.T, size uint64) string { return truth(size).serve(t) }

func (n *nodeSays) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var call struct {
			Method string
			Params []any
		}
		_ = stdjson.NewDecoder(q.Body).Decode(&call)
		if len(call.Params) == 2 {
			n.asked.Store(call.Method, call.Params[1].(map[string]any)["commitment"])
		}
		var result any
		switch call.Method {
		case "getGenesisHash":
			result = n.genesis
		case "getAccountInfo":
			value := n.account
			if call.Params[0] != n.at {
				value = nil
			}
			result = map[string]any{"value": value}
		case "getTransaction":
			if call.Params[0] == signature {
				result = n.tx
			}
		}
		_ = stdjson.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestWhatTheChainSays: each case changes one thing on the chain, and Check of a good
// receipt finds that change.
func TestWhatTheChainSays(t *testing.T) {
	t.Parallel()
	somebody := solana.PublicKey(filled(0x42))
	message := func(n *nodeSays) *nodeInstruction { return &n.tx.Transaction.Message.Instructions[0] }
	for name, c := range map[string]struct {
		change func(*nodeSays, *receipt.Receipt)
		want   string
	}{
		"all that the receipt says": {func(*nodeSays, *receipt.Receipt) {}, ""},
		"another instruction before it": {func(n *nodeSays, _ *receipt.Receipt) {
			list := &n.tx.Transaction.Message.Instructions
			*list = append([]nodeInstruction{{0, nil, ""}, {7, []int{9, -1}, ""}}, *list...)
		}, ""},
		"the account of somebody else's log": {func(n *nodeSays, r *receipt.Receipt) {
			held := committed()
			held.Owner = somebody
			n.at = must2(commitment.Address(program.LocalID, authority, somebody)).String()
			n.account, r.Anchor.Account = holding(held), n.at
		}, "anchor.account: " + must2(commitment.Address(program.LocalID, authority, somebody)).String() + " commits to the log of"},
		"an account at another place": {func(n *nodeSays, r *receipt.Receipt) {
			n.at = somebody.String()
			n.tx.Transaction.Message.AccountKeys[1], r.Anchor.Account = n.at, n.at
		}, "anchor.account: the program keeps this owner's commitment at " + account().String()},
		"the account of another authority at this one's place": {func(n *nodeSays, _ *receipt.Receipt) {
			held := committed()
			held.Authority = somebody
			n.account = holding(held)
		}, "anchor.account: the program keeps this owner's commitment at"},
		"an account with other magic": {func(n *nodeSays, _ *receipt.Receipt) {
			data := committed().Encode()
			data[7]++
			n.account.Data[0] = base64.StdEncoding.EncodeToString(data)
		}, "anchor.account: " + account().String() + " holds no commitment"},
		"a longer account": {func(n *nodeSays, _ *receipt.Receipt) {
			n.account.Data[0] = base64.StdEncoding.EncodeToString(append(committed().Encode(), 0))
		}, "anchor.account: " + account().String() + " holds no commitment"},
		"another root": {func(n *nodeSays, _ *receipt.Receipt) {
			held := committed()
			held.Root[0]++
			n.account = holding(held)
		}, "anchor.committedRoot:"},
		"an account that was written in another slot": {func(n *nodeSays, _ *receipt.Receipt) {
			held := committed()
			held.Slot++
			n.account = holding(held)
		}, "anchor.slot: it is 4242, the account"},
		"no such transaction":                  {func(n *nodeSays, _ *receipt.Receipt) { n.tx = nil }, "anchor.txSignature: the node knows no such"},
		"a transaction whose fate is not said": {func(n *nodeSays, _ *receipt.Receipt) { n.tx.Meta = nil }, "anchor.txSignature: the node knows no such"},
		"a transaction that failed":            {func(n *nodeSays, _ *receipt.Receipt) { n.tx.Meta.Err = "InstructionError" }, "anchor.txSignature: that transaction failed"},
		"a transaction in another slot":        {func(n *nodeSays, _ *receipt.Receipt) { n.tx.Slot++ }, "anchor.slot: it is 4242, the transaction"},
		"a commit of another root": {func(n *nodeSays, _ *receipt.Receipt) {
			other := committed()
			other.Root[0]++
			message(n).Data = commitOf(other)
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit of another size": {func(n *nodeSays, _ *receipt.Receipt) {
			other := committed()
			other.Size++
			message(n).Data = commitOf(other)
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit of somebody else's log": {func(n *nodeSays, _ *receipt.Receipt) {
			other := committed()
			other.Owner = somebody
			message(n).Data = commitOf(other)
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit by another program": {func(n *nodeSays, _ *receipt.Receipt) {
			n.tx.Transaction.Message.AccountKeys[2] = somebody.String()
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit to another account": {func(n *nodeSays, _ *receipt.Receipt) {
			n.tx.Transaction.Message.AccountKeys[1] = somebody.String()
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit without accounts": {func(n *nodeSays, _ *receipt.Receipt) { message(n).Accounts = nil }, "anchor.txSignature: that transaction does not commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says, r := truth(committedSize), good()
			c.change(says, r)
			_, err := receipt.Check(t.Context(), says.serve(t), r)
			var finding *receipt.Finding
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.As(err, &finding) || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("got %v, want a finding that begins with %q", err, c.want)
			}
			// State that is not final yet may still be rolled back.
			if is, _ := says.asked.Load("getAccountInfo"); is != "finalized" {
				t.Errorf("the account is asked for as it is %v", is)
			}
			if is, _ := says.asked.Load("getTransaction"); is != nil && is != "confirmed" {
				t.Errorf("the transaction is asked for as it is %v", is)
			}
		})
	}
}

// For every leaf position in every tree up to a size, the verifier's own arithmetic must
// agree with the tree.
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
