package journey_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/services/test/journey"
)

const folder = "../../../docs/journey"

var update = flag.Bool("update", false, "write the files anew")

func TestFilesAreCurrent(t *testing.T) {
	files, err := journey.Files(t.Context())
	must(t, err)
	for name, want := range files {
		if *update {
			must(t, os.WriteFile(filepath.Join(folder, name), want, 0o644))
		}
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
	must(t, err)
	if out, err := exec.Command(program, filepath.Join(folder, "verify.mjs")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The parts of the files that the tests below read, as a verifier without our code would.
type (
	requestFile struct{ Body, Owner, MemoryID, Subject string }
	leafFile    struct {
		MemoryID, DataKey, RootKey, LeafSecret, Salted, Salt, Entry, LeafHash, Nonce, AssociatedData, Ciphertext string
		LeafIndex                                                                                                int
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
			Supersedes                                   []int
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
	must(t, err)
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
	must(t, err)
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
	must(t, err)
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
	key := unhex(t, l.RootKey)
	for bit := 31; bit >= 0; bit-- { // down the tree of keys
		step := hmac.New(sha256.New, key)
		step.Write([]byte{byte(l.LeafIndex >> bit & 1)})
		key = step.Sum(nil)
	}
	block, err := aes.NewCipher(key)
	must(t, err)
	aead, err := cipher.NewGCM(block)
	must(t, err)
	content, err := aead.Open(nil, unhex(t, l.Nonce), unhex(t, l.Ciphertext), unhex(t, l.AssociatedData))
	must(t, err)
	var body struct{ Content string }
	must(t, json.Unmarshal([]byte(request.Body), &body))
	same(t, "opened content", string(content), body.Content)
}

// TestLog: subjects, versions, leaves and batches of the whole log.
func TestLog(t *testing.T) {
	t.Parallel()
	request, tr, c := read[requestFile](t, "command.json"), read[treeFile](t, "tree.json"), read[commitmentFile](t, "commitment.json")
	versions, leaves, confirmed, found, corrected, forgotten := map[string]int{}, 0, 0, false, 0, -1
	for i, line := range bytes.Split(bytes.TrimSpace(raw(t, "log.jsonl")), []byte("\n")) {
		var r record
		var batch []event
		must(t, json.Unmarshal(line, &r))
		must(t, json.Unmarshal(r.Payload, &batch))
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
			for _, other := range data.Supersedes { // the metadata, which the leaf proves, names it
				corrected++
				if tr.Leaves[other] != tr.Leaves[1] || !strings.Contains(string(data.Metadata), tr.Leaves[other]) {
					t.Errorf("leaf %d corrects leaf %d: %s", data.LeafIndex, other, data.Metadata)
				}
			}
		case "MemoryForgotten":
			forgotten = data.LeafIndex
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
	if !found || leaves != len(tr.Leaves) || confirmed != len(c.Commits) || corrected != 2 || forgotten != 4 {
		t.Errorf("message found: %v; %d leaves, %d batches, %d corrected, forgotten %d", found, leaves, confirmed, corrected, forgotten)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
