// Package journey generates docs/journey: files with shared ids that show one memory on
// its whole way, from the request to the receipt. The files are for people who write
// verifiers in other languages. The command side, the keystore, the codec and the
// commitment's bytes are the product's own. Time, ids, keys and the chain are
// invented, so that the files are the same every time.
package journey

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/schema"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

func unmarshal(raw []byte, v any) error { return json.Unmarshal(raw, v) }

// Files returns the journey's files by name.
func Files(ctx context.Context) (map[string][]byte, error) {
	s, err := tell(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"message.json": s.message().Payload, "log.jsonl": s.lines()}
	l, err := s.leaf()
	if err != nil {
		return nil, err
	}
	r, err := s.receipt(l)
	if err != nil {
		return nil, err
	}
	leafFile, err := s.leafFile(l)
	if err != nil {
		return nil, err
	}
	for name, v := range map[string]any{
		"command.json": s.commandFile(), "leaf.json": leafFile, "tree.json": s.treeFile(),
		"commitment.json": s.commitmentFile(), "receipt.json": r,
	} {
		if files[name], err = schema.Encode(v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

// message returns the log's record of the journey's memory. After the sign-in, the log
// has one record for each leaf up to this one.
func (s *story) message() eventlog.Record { return s.log.records[1+leafIndex] }

// lines returns the whole log, one record on each line, with the payload as it is in the
// log.
func (s *story) lines() []byte {
	var out bytes.Buffer
	for _, r := range s.log.records {
		fmt.Fprintf(&out, `{"sequence":%d,"subject":%q,"payload":%s}`+"\n", r.Seq, r.Subject, r.Payload)
	}
	return out.Bytes()
}

type commandFile struct {
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
	Owner    events.Owner      `json:"owner"`
	MemoryID string            `json:"memoryId"`
	Sequence uint64            `json:"sequence"`
	Subject  string            `json:"subject"`
}

func (s *story) commandFile() commandFile {
	return commandFile{
		Method: "POST", Path: "/memories", Body: requests[leafIndex],
		Headers: map[string]string{"Content-Type": "application/json", "Idempotency-Key": idempotencyKey},
		Owner:   s.owner, MemoryID: s.written[leafIndex].MemoryID, Sequence: s.message().Seq, Subject: s.message().Subject,
	}
}

func (s *story) leaf() (leaf.Leaf, error) {
	content, metadata, err := parseRequest(requests[leafIndex])
	if err != nil {
		return leaf.Leaf{}, err
	}
	secret, err := s.secret()
	if err != nil {
		return leaf.Leaf{}, err
	}
	return leaf.New(secret, leaf.Memory{Content: content, Metadata: metadata, Owner: s.owner})
}

// secret returns the secret of the leaf's salt.
func (s *story) secret() (leaf.Secret, error) {
	credential := s.written[leafIndex].Credential
	return s.key.LeafSecret(credential.Salt(), new(credential.Via()))
}

type leafFile struct {
	MemoryID       string      `json:"memoryId"`
	LeafIndex      int         `json:"leafIndex"`
	DataKey        string      `json:"dataKey"`
	RootKey        string      `json:"rootKey"`
	LeafSecret     string      `json:"leafSecret"`
	Salted         string      `json:"salted"`
	Salt           string      `json:"salt"`
	Entry          string      `json:"entry"`
	LeafHash       events.Hash `json:"leafHash"`
	Nonce          string      `json:"nonce"`
	AssociatedData string      `json:"associatedData"`
	Ciphertext     string      `json:"ciphertext"`
}

func (s *story) leafFile(l leaf.Leaf) (leafFile, error) {
	entry, err := l.Entry()
	if err != nil {
		return leafFile{}, err
	}
	secret, err := s.secret()
	if err != nil {
		return leafFile{}, err
	}
	w := s.written[leafIndex]
	salted := bytes.Replace(entry, []byte(`,"salt":"`+l.Salt+`"`), nil, 1)
	const nonceSize = 12
	var rootKey [32]byte
	_, _ = (&stream{label: "keystore", n: 1}).Read(rootKey[:]) // after the data key; never fails
	sealed, err := s.log.sealed(leafIndex)
	if err != nil {
		return leafFile{}, err
	}
	return leafFile{
		MemoryID: w.MemoryID, LeafIndex: leafIndex, DataKey: hex.EncodeToString(s.dataKey[:]), RootKey: hex.EncodeToString(rootKey[:]), LeafSecret: hex.EncodeToString(secret[:]),
		Salted: string(salted), Salt: l.Salt, Entry: string(entry), LeafHash: w.LeafHash,
		Nonce: hex.EncodeToString(sealed[:nonceSize]), Ciphertext: hex.EncodeToString(sealed[nonceSize:]),
		AssociatedData: hex.EncodeToString([]byte("memory-ledger/body/v2\x00" + string(s.owner) + "\x00" + w.MemoryID)),
	}, nil
}

type treeFile struct {
	Leaves []events.Hash          `json:"leaves"`
	Levels [][]events.Hash        `json:"levels"`
	Tiles  []tile                 `json:"tiles"`
	Roots  map[string]events.Hash `json:"roots"`
}

type tile struct {
	Level int    `json:"level"`
	Index int    `json:"index"`
	Width int    `json:"width"`
	Bytes string `json:"bytes"`
}

// treeFile lists the hashes of all perfect subtrees, level by level, the only tile, and
// the root of every size.
func (s *story) treeFile() treeFile {
	f := treeFile{Leaves: s.leaves, Levels: [][]events.Hash{s.leaves}, Roots: map[string]events.Hash{}}
	for below := s.leaves; len(below) > 1; below = f.Levels[len(f.Levels)-1] {
		var level []events.Hash
		for i := 0; i+1 < len(below); i += 2 {
			level = append(level, events.Hash(rfc6962.DefaultHasher.HashChildren(below[i][:], below[i+1][:])))
		}
		f.Levels = append(f.Levels, level)
	}
	var row []byte
	for size := range len(s.leaves) + 1 {
		f.Roots[fmt.Sprint(size)] = s.root(uint64(size))
		if size > 0 {
			row = append(row, s.leaves[size-1][:]...)
		}
	}
	f.Tiles = []tile{{Level: 0, Index: 0, Width: len(s.leaves), Bytes: hex.EncodeToString(row)}}
	return f
}

type commitmentFile struct {
	Cluster   string       `json:"cluster"`
	ProgramID string       `json:"programId"`
	Authority string       `json:"authority"`
	Owner     events.Owner `json:"owner"`
	Account   string       `json:"account"`
	Commits   []commitFile `json:"commits"`
}

type commitFile struct {
	BatchID     string      `json:"batchId"`
	Size        uint64      `json:"size"`
	Root        events.Hash `json:"root"`
	Instruction string      `json:"instruction"`
	Transaction string      `json:"transaction"`
	TxSignature string      `json:"txSignature"`
	Slot        uint64      `json:"slot"`
	AccountData string      `json:"accountData"`
}

func (s *story) commitmentFile() commitmentFile {
	last := s.batches[len(s.batches)-1].confirmed
	f := commitmentFile{
		Cluster: last.Cluster, ProgramID: last.ProgramID, Account: last.Account, Owner: s.owner,
		Authority: base58.Encode(s.authority.Public().(ed25519.PublicKey)),
	}
	for _, b := range s.batches {
		f.Commits = append(f.Commits, commitFile{
			BatchID: b.confirmed.BatchID, Size: b.confirmed.Size, Root: b.confirmed.Root,
			Instruction: hex.EncodeToString(b.commit), Transaction: base64.StdEncoding.EncodeToString(b.submitted.Transaction),
			TxSignature: b.submitted.Signature, Slot: b.confirmed.Slot, AccountData: hex.EncodeToString(b.account),
		})
	}
	return f
}

// receipt returns the answer of GET /memories/:id/receipt after both commits.
func (s *story) receipt(l leaf.Leaf) (*verify.Receipt, error) {
	siblings, err := s.tree().InclusionProof(leafIndex, firstSize)
	if err != nil {
		return nil, err
	}
	consistency, err := s.tree().ConsistencyProof(firstSize, allSize)
	if err != nil {
		return nil, err
	}
	last := s.batches[len(s.batches)-1].confirmed
	return &verify.Receipt{
		Version:  verify.Version,
		Entry:    verify.Entry{Content: l.Content, Metadata: jsontext.Value(l.Metadata.String()), Owner: string(s.owner), Salt: l.Salt, V: leaf.Version},
		LeafHash: s.leaves[leafIndex], LeafIndex: leafIndex, TreeSize: firstSize,
		Siblings: hashesOf(siblings), Directions: verify.Directions(leafIndex, firstSize), BatchRoot: s.root(firstSize),
		Anchor: &verify.Anchor{
			Cluster: last.Cluster, ProgramID: last.ProgramID, Account: last.Account, TxSignature: last.Signature,
			Slot: last.Slot, CommittedSize: last.Size, CommittedRoot: last.Root,
		},
		Consistency: hashesOf(consistency),
	}, nil
}

// tree returns the story's tree.
func (s *story) tree() *testonly.Tree {
	t := testonly.New(rfc6962.DefaultHasher)
	for _, leaf := range s.leaves {
		t.Append(leaf[:])
	}
	return t
}

func (s *story) root(size uint64) events.Hash { return events.Hash(s.tree().HashAt(size)) }

func hashesOf(raw [][]byte) []events.Hash {
	hashes := make([]events.Hash, len(raw))
	for i := range raw {
		hashes[i] = events.Hash(raw[i])
	}
	return hashes
}
