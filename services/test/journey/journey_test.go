package journey_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/services/test/journey"
)

const folder = "../../../docs/journey"

func TestFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := journey.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run make generate", name, err)
		}
	}
	there, err := filepath.Glob(filepath.Join(folder, "*.json*"))
	if err != nil || len(there) != len(files) {
		t.Errorf("%d files, want %d, %v", len(there), len(files), err)
	}
}

// TestWithoutGo runs the page's example in another language.
func TestWithoutGo(t *testing.T) {
	t.Parallel()
	program, err := node.Program(t.Context(), npm.CacheFolder(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, filepath.Join(folder, "verify.mjs")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The parts of the files that the tests below read, as a verifier without our code would.
type (
	requestFile struct{ Body, Owner, MemoryID, Subject string }
	leafFile    struct {
		MemoryID, DataKey, LeafSecret, Salted, Salt, Entry, LeafHash, Nonce, AssociatedData, Ciphertext string
		LeafIndex                                                                                       int
	}
	treeFile struct {
		Leaves []string
		Levels [][]string
		Roots  map[string]string
		Tiles  []struct {
			Width int
			Bytes string
		}
	}
	commitmentFile struct {
		Authority, Owner, Account, ProgramID, Cluster string
		Commits                                       []struct {
			BatchID, Root, Instruction, Transaction, TxSignature, AccountData string
			Size, Slot                                                        uint64
		}
	}
	event struct {
		Type, Subject string
		OwnerVersion  int
		Data          struct {
			MemoryID, LeafHash, Root, BatchID, Signature string
			LeafIndex                                    int
			Size, Slot                                   uint64
			Sealed, Transaction                          []byte
			Metadata                                     json.RawMessage
		}
	}
	record struct {
		Sequence int
		Subject  string
		Payload  json.RawMessage
	}
)

func raw(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func read[T any](t *testing.T, name string) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw(t, name), &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %q, want %q", what, got, want)
	}
}

func sum(parts ...[]byte) string {
	h := sha256.Sum256(bytes.Join(parts, nil))
	return hex.EncodeToString(h[:])
}

// TestLeaf: from the request and the event to the leaf.
func TestLeaf(t *testing.T) {
	t.Parallel()
	request, l := read[requestFile](t, "command.json"), read[leafFile](t, "leaf.json")
	message := read[[]event](t, "message.json")[0]
	secret, err := hkdf.Key(sha256.New, unhex(t, l.DataKey), nil, "memory-ledger/leaf/v1", 32)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "leaf secret", hex.EncodeToString(secret), l.LeafSecret)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(l.Salted))
	same(t, "salt", hex.EncodeToString(mac.Sum(nil)), l.Salt)
	same(t, "entry", strings.Replace(l.Salted, `,"v":1}`, `,"salt":"`+l.Salt+`","v":1}`, 1), l.Entry)
	same(t, "leaf hash", sum([]byte{0}, []byte(l.Entry)), l.LeafHash)
	same(t, "event's leaf hash", message.Data.LeafHash, l.LeafHash)
	same(t, "event's memory", message.Data.MemoryID, l.MemoryID)
	same(t, "request's memory", request.MemoryID, l.MemoryID)
	same(t, "event's owner", message.Subject, request.Owner)
	same(t, "sealed", hex.EncodeToString(message.Data.Sealed), l.Nonce+l.Ciphertext)
	if !strings.Contains(l.Entry, `"metadata":`+string(message.Data.Metadata)+`,`) || message.Data.LeafIndex != l.LeafIndex {
		t.Errorf("entry %s, event %+v", l.Entry, message)
	}
	block, err := aes.NewCipher(unhex(t, l.DataKey))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	content, err := aead.Open(nil, unhex(t, l.Nonce), unhex(t, l.Ciphertext), unhex(t, l.AssociatedData))
	if err != nil {
		t.Fatal(err)
	}
	var body struct{ Content string }
	if err := json.Unmarshal([]byte(request.Body), &body); err != nil {
		t.Fatal(err)
	}
	same(t, "opened content", string(content), body.Content)
}

// TestLog: subjects, versions, leaves and batches of the whole log.
func TestLog(t *testing.T) {
	t.Parallel()
	request, tr, c := read[requestFile](t, "command.json"), read[treeFile](t, "tree.json"), read[commitmentFile](t, "commitment.json")
	versions, leaves, confirmed, found := map[string]int{}, 0, 0, false
	for i, line := range bytes.Split(bytes.TrimSpace(raw(t, "log.jsonl")), []byte("\n")) {
		var r record
		var batch []event
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Payload, &batch); err != nil {
			t.Fatal(err)
		}
		if _, err := events.DecodeBatch(r.Payload); err != nil || r.Sequence != i+1 {
			t.Errorf("sequence %d: %v", r.Sequence, err)
		}
		tokens := strings.Split(r.Subject, ".")
		same(t, "partition", tokens[1], sum([]byte(request.Owner))[:2])
		if versions[tokens[0]]++; batch[0].OwnerVersion != versions[tokens[0]] {
			t.Errorf("sequence %d has version %d of %s", r.Sequence, batch[0].OwnerVersion, tokens[0])
		}
		found = found || r.Subject == request.Subject && bytes.Equal(r.Payload, raw(t, "message.json"))
		data := batch[0].Data
		switch batch[0].Type {
		case "MemoryWritten":
			same(t, "leaf", data.LeafHash, tr.Leaves[leaves])
			leaves++
		case "BatchSubmitted":
			same(t, "transaction", base64.StdEncoding.EncodeToString(data.Transaction), c.Commits[confirmed].Transaction)
		case "BatchConfirmed":
			commit := c.Commits[confirmed]
			confirmed++
			same(t, "batch", data.BatchID+data.Root+data.Signature, commit.BatchID+commit.Root+commit.TxSignature)
			if data.Size != commit.Size || data.Slot != commit.Slot {
				t.Errorf("batch %+v, commit %+v", data, commit)
			}
		}
	}
	if !found || leaves != len(tr.Leaves) || confirmed != len(c.Commits) {
		t.Errorf("message found: %v; %d leaves, %d batches", found, leaves, confirmed)
	}
}

// root is RFC 9162, section 2.1.1, word by word.
func root(t *testing.T, leaves []string) string {
	t.Helper()
	switch len(leaves) {
	case 0:
		return sum()
	case 1:
		return leaves[0]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	return sum([]byte{1}, unhex(t, root(t, leaves[:k])), unhex(t, root(t, leaves[k:])))
}

func TestTree(t *testing.T) {
	t.Parallel()
	tr := read[treeFile](t, "tree.json")
	same(t, "tile", tr.Tiles[0].Bytes, strings.Join(tr.Leaves, ""))
	for n := 1; n < len(tr.Levels); n++ {
		for i, hash := range tr.Levels[n] {
			same(t, "hash", hash, sum([]byte{1}, unhex(t, tr.Levels[n-1][2*i]), unhex(t, tr.Levels[n-1][2*i+1])))
		}
	}
	for size := range len(tr.Leaves) + 1 {
		name, _ := json.Marshal(size)
		same(t, "root of "+string(name), root(t, tr.Leaves[:size]), tr.Roots[string(name)])
	}
}

// TestCommitments: instruction, transaction and account, byte by byte.
func TestCommitments(t *testing.T) {
	t.Parallel()
	c, tr := read[commitmentFile](t, "commitment.json"), read[treeFile](t, "tree.json")
	authority, _ := base58.Decode(c.Authority)
	owner, _ := base58.Decode(c.Owner)
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for i, commit := range c.Commits {
		size, _ := json.Marshal(commit.Size)
		same(t, "root", commit.Root, tr.Roots[string(size)])
		instruction := bytes.Join([][]byte{number(1), owner, number(commit.Size), unhex(t, commit.Root)}, nil)
		same(t, "instruction", hex.EncodeToString(instruction), commit.Instruction)
		account := bytes.Join([][]byte{
			[]byte("MLCOMMT1"), authority, owner, number(commit.Size), unhex(t, commit.Root), number(commit.Slot), number(uint64(i) + 1),
		}, nil)
		same(t, "account", hex.EncodeToString(account), commit.AccountData)
		if _, err := verify.DecodeAccount(account); err != nil {
			t.Error(err)
		}
		transaction, err := base64.StdEncoding.DecodeString(commit.Transaction)
		if err != nil || !bytes.Contains(transaction, instruction) {
			t.Fatalf("the transaction does not hold its commit: %v", err)
		}
		signature, _ := base58.Decode(commit.TxSignature)
		if !bytes.Equal(transaction[1:65], signature) || !ed25519.Verify(authority, transaction[65:], signature) {
			t.Error("the transaction is not signed by the authority")
		}
	}
}

// TestReceipt: the receipt verifies, and agrees with the other files.
func TestReceipt(t *testing.T) {
	t.Parallel()
	r, err := verify.ParseReceipt(raw(t, "receipt.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(); err != nil {
		t.Fatal(err)
	}
	l, tr, c := read[leafFile](t, "leaf.json"), read[treeFile](t, "tree.json"), read[commitmentFile](t, "commitment.json")
	first, last := c.Commits[0], c.Commits[len(c.Commits)-1]
	same(t, "leaf", r.LeafHash.String(), l.LeafHash)
	same(t, "batch root", r.BatchRoot.String(), tr.Roots["5"])
	same(t, "committed root", r.Anchor.CommittedRoot.String(), last.Root)
	same(t, "signature", r.Anchor.TxSignature, last.TxSignature)
	same(t, "place", r.Anchor.Cluster+r.Anchor.ProgramID+r.Anchor.Account, c.Cluster+c.ProgramID+c.Account)
	if r.TreeSize != first.Size || r.Anchor.CommittedSize != last.Size || r.Anchor.Slot != last.Slot || r.LeafIndex != uint64(l.LeafIndex) {
		t.Errorf("receipt %+v, %+v", r, r.Anchor)
	}
}

// TestNothingSecretInTheLog searches the log for the story's secrets: texts, keys and
// salts, in every encoding that an event could use.
func TestNothingSecretInTheLog(t *testing.T) {
	t.Parallel()
	log := raw(t, "log.jsonl")
	absent := func(what string, secret []byte) {
		for _, spelling := range []string{string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret), base58.Encode(secret)} {
			if bytes.Contains(log, []byte(spelling)) {
				t.Errorf("%s is in the log as %q", what, spelling)
			}
		}
	}
	l := read[leafFile](t, "leaf.json")
	absent("the data key", unhex(t, l.DataKey))
	absent("the leaf secret", unhex(t, l.LeafSecret))
	absent("the salt", unhex(t, l.Salt))
	for _, text := range []string{"Grüße", "kettle", "prefers tea", "line one", "Friday", "🗝️"} {
		absent("a memory's text", []byte(text))
	}
	request := read[struct{ Headers map[string]string }](t, "command.json")
	absent("the Idempotency-Key", []byte(request.Headers["Idempotency-Key"]))
}
