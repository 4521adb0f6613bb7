// Package receipt checks a memory's receipt without trusting or reaching the
// service that issued it.
//
// [Verify] needs only the receipt. It checks that the entry hashes to the leaf, that the
// leaf is in the tree, and that this tree is a prefix of the committed tree. [Check] also
// asks any Solana node whether that commitment is on the chain. The package needs no
// Solana library; docs/verify.md does the same by hand.
package receipt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
)

// Version is the version of the format below.
const Version = 1

// MaxBytes is the size of the largest receipt that Parse accepts.
const MaxBytes = 4 << 20

// Receipt is the response of GET /memories/:id/receipt.
type Receipt struct {
	Version int         `json:"version"`
	Entry   Entry       `json:"entry"`
	Leaf    events.Hash `json:"leafHash"`

	LeafIndex  uint64        `json:"leafIndex"`
	TreeSize   uint64        `json:"treeSize"`
	Siblings   []events.Hash `json:"siblings"`
	Directions []bool        `json:"directions"`
	BatchRoot  events.Hash   `json:"batchRoot"`

	// Anchor is the newest commitment on the chain, or nil while the memory is not
	// anchored. Consistency is the proof from TreeSize to Anchor.CommittedSize.
	Anchor      *Anchor       `json:"anchor"`
	Consistency []events.Hash `json:"consistency"`
}

// Entry is hashed into the leaf, in RFC 8785 form.
type Entry struct {
	Content  string         `json:"content"`
	Metadata jsontext.Value `json:"metadata"`
	Owner    events.Owner   `json:"owner"`
	Salt     string         `json:"salt"`
	V        int            `json:"v"`
}

// Anchor says where on the chain the root is.
type Anchor struct {
	Cluster       string      `json:"cluster"` // genesis hash
	ProgramID     string      `json:"programId"`
	Account       string      `json:"account"`
	TxSignature   string      `json:"txSignature"`
	Slot          uint64      `json:"slot"`
	CommittedSize uint64      `json:"committedSize"`
	CommittedRoot events.Hash `json:"committedRoot"`
}

// ErrGarbage says that the input is not a receipt at all, neither good nor bad.
var ErrGarbage = errors.New("not a receipt")

// ErrNotAnchored says that a receipt or an export was made before its anchor, so it can't be
// compared with the chain or the issuer yet. That is not a Finding.
var ErrNotAnchored = errors.New("not anchored yet: it was made before its anchor; fetch it again")

// Finding says what is wrong with a receipt.
type Finding struct {
	Field   string // the wrong member, if it can be determined
	Problem string
}

func (f *Finding) Error() string { return Printable(f.Field + ": " + f.Problem) }

// Printable escapes what a terminal would act on, for messages that quote a file.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

func wrong(field, format string, args ...any) error {
	return &Finding{field, fmt.Sprintf(format, args...)}
}

// Parse reads a receipt. Input that is not a JSON object, or that has none of a receipt's
// members, is ErrGarbage. A receipt with a malformed, missing or unknown member is a
// Finding.
func Parse(raw []byte) (*Receipt, error) {
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrGarbage, len(raw))
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGarbage, err)
	}
	r := new(Receipt)
	var entry, anchor jsontext.Value
	fields := []field{
		{"version", &r.Version},
		{"entry", &entry},
		{"leafHash", &r.Leaf},
		{"leafIndex", &r.LeafIndex},
		{"treeSize", &r.TreeSize},
		{"siblings", &r.Siblings},
		{"directions", &r.Directions},
		{"batchRoot", &r.BatchRoot},
		{"anchor", &anchor},
		{"consistency", &r.Consistency},
	}
	if !slices.ContainsFunc(fields, func(f field) bool { return members[f.name] != nil }) {
		return nil, fmt.Errorf("%w: it has none of a receipt's members", ErrGarbage)
	}
	if err := read(members, "", fields); err != nil {
		return nil, err
	}
	if err := readObject(entry, "entry", []field{
		{"content", &r.Entry.Content},
		{"metadata", &r.Entry.Metadata},
		{"owner", &r.Entry.Owner},
		{"salt", &r.Entry.Salt},
		{"v", &r.Entry.V},
	}); err != nil {
		return nil, err
	}
	if anchor.Kind() == 'n' {
		return r, nil
	}
	r.Anchor = new(Anchor)
	return r, readObject(anchor, "anchor", []field{
		{"cluster", &r.Anchor.Cluster},
		{"programId", &r.Anchor.ProgramID},
		{"account", &r.Anchor.Account},
		{"txSignature", &r.Anchor.TxSignature},
		{"slot", &r.Anchor.Slot},
		{"committedSize", &r.Anchor.CommittedSize},
		{"committedRoot", &r.Anchor.CommittedRoot},
	})
}

// field is a member of an object and the variable that it is decoded into.
type field struct {
	name string
	into any
}

func readObject(raw jsontext.Value, name string, fields []field) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return wrong(name, "it must be an object")
	}
	return read(members, name+".", fields)
}

func read(members map[string]jsontext.Value, prefix string, fields []field) error {
	for _, f := range fields {
		value, there := members[f.name]
		if !there {
			return wrong(prefix+f.name, "it is missing")
		}
		delete(members, f.name)
		if err := json.Unmarshal(value, f.into); err != nil {
			return wrong(prefix+f.name, "malformed: %s", reason(err))
		}
		if _, raw := f.into.(*jsontext.Value); raw {
			continue
		}
		if value.Kind() == 'n' {
			return wrong(prefix+f.name, "it must not be null")
		}
		if i := firstNull(value); i >= 0 {
			return wrong(prefix+f.name, "element %d must not be null", i)
		}
	}
	for name := range members {
		return wrong(prefix+name, "a receipt has no such member")
	}
	return nil
}

// firstNull returns the index of the first null in an array, or -1. The decoder would
// decode a null as false, or as a hash of zeros.
func firstNull(value jsontext.Value) int {
	var elements []jsontext.Value
	if value.Kind() != '[' || json.Unmarshal(value, &elements) != nil {
		return -1
	}
	return slices.IndexFunc(elements, func(e jsontext.Value) bool { return e.Kind() == 'n' })
}

// reason returns the end of the decoder's long error.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
