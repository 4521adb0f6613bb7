package memoryledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"
)

// Metadata is a memory's metadata. Numbers are float64, as in the log.
type Metadata = map[string]any

// Receipt proves that a memory is in its owner's log. It can be stored as JSON;
// ParseReceipt reads it back.
type Receipt struct {
	Version    int    `json:"version"`
	Entry      Entry  `json:"entry"`
	LeafHash   Hash   `json:"leafHash"`
	LeafIndex  uint64 `json:"leafIndex"`
	TreeSize   uint64 `json:"treeSize"`
	Siblings   []Hash `json:"siblings"`
	Directions []bool `json:"directions"` // true: the sibling is on the right
	BatchRoot  Hash   `json:"batchRoot"`
	// Anchor is the newest commitment on the chain. It is nil while the memory is not
	// anchored. Consistency leads from TreeSize to Anchor.CommittedSize.
	Anchor      *Anchor `json:"anchor"`
	Consistency []Hash  `json:"consistency"`
}

// Entry is the content that hashes to a leaf.
type Entry struct {
	Content  string   `json:"content"`
	Metadata Metadata `json:"metadata"`
	Owner    string   `json:"owner"` // public key, base58
	Salt     string   `json:"salt"`  // 64 lowercase hex characters
	V        int      `json:"v"`
}

// Anchor locates the root of the first CommittedSize leaves on the chain.
type Anchor struct {
	Cluster       string `json:"cluster"` // genesis hash, base58
	ProgramID     string `json:"programId"`
	Account       string `json:"account"`
	TxSignature   string `json:"txSignature"`
	Slot          uint64 `json:"slot"`
	CommittedSize uint64 `json:"committedSize"`
	CommittedRoot Hash   `json:"committedRoot"`
}

// member is a member of a JSON object, and the destination of its value.
type member struct {
	name string
	into any
}

// readMembers reads an object with exactly these members. Only members read into a
// jsontext.Value may be null. The error is a *VerificationError.
func readMembers(raw jsontext.Value, what, prefix string, expected ...member) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return wrong(ErrMalformed, what, "it is not a JSON object")
	}
	for _, m := range expected {
		value, found := members[m.name]
		if !found {
			return wrong(ErrMalformed, prefix+m.name, "it is missing")
		}
		delete(members, m.name)
		_, raw := m.into.(*jsontext.Value)
		if err := json.Unmarshal(value, m.into); err != nil || !raw && hasNull(value) {
			return wrong(ErrMalformed, prefix+m.name, "malformed: %.100s", value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		return wrong(ErrMalformed, prefix+name, "there is no such member")
	}
	return nil
}

// hasNull reports whether a value, or an element of an array, is null. The decoder would
// read null as false, or as a hash of zeros.
func hasNull(value jsontext.Value) bool {
	var elements []jsontext.Value
	if value.Kind() != '[' || json.Unmarshal(value, &elements) != nil {
		return value.Kind() == 'n'
	}
	return slices.ContainsFunc(elements, hasNull)
}

// ParseReceipt reads the JSON of a receipt and checks its form. The error is a
// *VerificationError. Verify checks the statements of the receipt.
func ParseReceipt(text []byte) (*Receipt, error) {
	r := new(Receipt)
	var entry, anchor jsontext.Value
	err := readMembers(text, "receipt", "",
		member{"version", &r.Version}, member{"entry", &entry}, member{"leafHash", &r.LeafHash},
		member{"leafIndex", &r.LeafIndex}, member{"treeSize", &r.TreeSize}, member{"siblings", &r.Siblings},
		member{"directions", &r.Directions}, member{"batchRoot", &r.BatchRoot}, member{"anchor", &anchor},
		member{"consistency", &r.Consistency})
	if err != nil {
		return nil, err
	}
	if err := r.Entry.read(entry); err != nil {
		return nil, err
	}
	r.Anchor, err = readAnchor(anchor)
	return r, err
}

func (e *Entry) read(raw jsontext.Value) error {
	return readMembers(raw, "entry", "entry.", member{"content", &e.Content}, member{"metadata", &e.Metadata},
		member{"owner", &e.Owner}, member{"salt", &e.Salt}, member{"v", &e.V})
}

// readAnchor returns nil for null.
func readAnchor(raw jsontext.Value) (*Anchor, error) {
	if raw.Kind() == 'n' {
		return nil, nil
	}
	a := new(Anchor)
	return a, readMembers(raw, "anchor", "anchor.", member{"cluster", &a.Cluster}, member{"programId", &a.ProgramID},
		member{"account", &a.Account}, member{"txSignature", &a.TxSignature}, member{"slot", &a.Slot},
		member{"committedSize", &a.CommittedSize}, member{"committedRoot", &a.CommittedRoot})
}

// canonicalize encodes a value by RFC 8785. It fails for values that are not I-JSON.
func canonicalize(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	canonical := jsontext.Value(text)
	err = canonical.Canonicalize()
	return canonical, err
}

// hash computes the leaf hash. The error is a *VerificationError.
func (e *Entry) hash() (Hash, error) {
	if e.V != 1 {
		return Hash{}, wrong(ErrMalformed, "entry.v", "%d is not a version that this client knows", e.V)
	}
	if !isBase58(e.Owner, 32) {
		return Hash{}, wrong(ErrMalformed, "entry.owner", "it is not a public key in base58")
	}
	if err := new(Hash).UnmarshalText([]byte(e.Salt)); err != nil {
		return Hash{}, wrong(ErrMalformed, "entry.salt", "%v", err)
	}
	text, err := canonicalize(e)
	if err != nil {
		return Hash{}, wrong(ErrMalformed, "entry", "%v", err)
	}
	return Hash(hasher.HashLeaf(text)), nil
}

// isBase58 reports whether text is the base58 form of size bytes. It refuses longer texts
// before decoding them, because decoding takes quadratic time.
func isBase58(text string, size int) bool {
	if len(text) > size*11/8 {
		return false
	}
	raw, err := base58.Decode(text)
	return err == nil && len(raw) == size && base58.Encode(raw) == text
}

// Verify checks everything in a receipt that needs no chain. It returns nil or a
// *VerificationError that names the first wrong field. If the fault could be in one of
// several members, it names the member that does not match the others.
func (r *Receipt) Verify() error {
	if r.Version != 1 {
		return wrong(ErrMalformed, "version", "%d is not a version that this client knows", r.Version)
	}
	hash, err := r.Entry.hash()
	if err != nil {
		return err
	}
	if r.LeafIndex >= r.TreeSize {
		return wrong(ErrBadProof, "leafIndex", "%d is outside a tree of treeSize %d", r.LeafIndex, r.TreeSize)
	}
	if hash != r.LeafHash {
		if fold(hash, r.Siblings, r.Directions) == r.BatchRoot {
			return wrong(ErrWrongLeaf, "leafHash", "it is %s, but the entry, which the proof leads from, hashes to %s", r.LeafHash, hash)
		}
		return wrong(ErrWrongText, "entry", "content, metadata, owner, salt and v hash to %s, leafHash is %s", hash, r.LeafHash)
	}
	if err := r.verifyInclusion(); err != nil {
		return err
	}
	if r.Anchor == nil {
		if len(r.Consistency) > 0 {
			return wrong(ErrBadConsistency, "consistency", "there is no anchor that it could lead to")
		}
		return nil
	}
	if err := r.Anchor.verifyForm(); err != nil {
		return err
	}
	return r.verifyPrefix()
}

func (r *Receipt) verifyInclusion() error {
	given, right := fold(r.LeafHash, r.Siblings, r.Directions), directionsOf(r.LeafIndex, r.TreeSize)
	takes := fmt.Sprintf("leafIndex %d in treeSize %d takes %d", r.LeafIndex, r.TreeSize, len(right))
	inPlace := slices.Equal(r.Directions, right)
	switch {
	case len(r.Directions) != len(r.Siblings) && len(r.Siblings) == len(right):
		return wrong(ErrBadProof, "directions", "%d of them; %s", len(r.Directions), takes)
	case len(r.Directions) != len(r.Siblings):
		return wrong(ErrBadProof, "siblings", "%d of them; %s", len(r.Siblings), takes)
	case !inPlace && given == r.BatchRoot && r.Anchor != nil && !r.anchors(given):
		return wrong(ErrBadProof, "treeSize", "it is %d, which goes neither with directions nor with consistency", r.TreeSize)
	case !inPlace && given == r.BatchRoot:
		return wrong(ErrBadProof, "leafIndex", "it is %d of treeSize %d, but siblings and directions lead to batchRoot from another place", r.LeafIndex, r.TreeSize)
	case len(r.Siblings) != len(right):
		return wrong(ErrBadProof, "siblings", "%d of them; %s", len(r.Siblings), takes)
	case !inPlace:
		return wrong(ErrBadProof, "directions", "leafIndex %d in treeSize %d takes others", r.LeafIndex, r.TreeSize)
	case given == r.BatchRoot:
		return nil
	case r.Anchor != nil && r.anchors(given):
		return wrong(ErrWrongRoot, "batchRoot", "it is %s, but leaf and siblings fold to %s, which is what was committed", r.BatchRoot, given)
	}
	return wrong(ErrBadProof, "siblings", "they fold to %s, batchRoot is %s", given, r.BatchRoot)
}

// anchors reports whether consistency leads from a root to the committed one.
func (r *Receipt) anchors(root Hash) bool {
	second, err := consistency(r.TreeSize, r.Anchor.CommittedSize, root, r.Consistency)
	return err == nil && second == r.Anchor.CommittedRoot
}

// verifyForm checks an anchor as far as possible offline.
func (a *Anchor) verifyForm() error {
	for _, f := range []struct {
		name, text string
		size       int
	}{{"cluster", a.Cluster, 32}, {"programId", a.ProgramID, 32}, {"account", a.Account, 32}, {"txSignature", a.TxSignature, 64}} {
		if !isBase58(f.text, f.size) {
			return wrong(ErrChain, "anchor."+f.name, "it is not %d bytes in base58", f.size)
		}
	}
	if a.Slot == 0 {
		return wrong(ErrChain, "anchor.slot", "nothing is committed in slot 0")
	}
	return nil
}

// verifyPrefix checks that the tree of batchRoot is a prefix of the committed one.
func (r *Receipt) verifyPrefix() error {
	a := r.Anchor
	if a.CommittedSize < r.TreeSize {
		return wrong(ErrChain, "anchor.committedSize", "it is %d, less than treeSize %d", a.CommittedSize, r.TreeSize)
	}
	second, err := consistency(r.TreeSize, a.CommittedSize, r.BatchRoot, r.Consistency)
	if err != nil {
		return wrong(ErrBadConsistency, "consistency", "from treeSize %d to anchor.committedSize %d: %v", r.TreeSize, a.CommittedSize, err)
	}
	if second != a.CommittedRoot {
		return wrong(ErrChain, "anchor.committedRoot", "it is %s; the proof up to anchor.committedSize %d leads to %s", a.CommittedRoot, a.CommittedSize, second)
	}
	return nil
}
