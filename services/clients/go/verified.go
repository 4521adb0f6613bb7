package memoryledger

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events/verify"
)

// These types come with checks that need no service. `ledger verify-receipt` and `ledger
// verify-export` use the same checks.
type (
	Hash           = verify.Hash
	Receipt        = verify.Receipt
	Entry          = verify.Entry
	Anchor         = verify.Anchor
	Issuer         = verify.Issuer
	Onchain        = verify.Onchain
	Export         = verify.Export
	ExportHeader   = verify.ExportHeader
	ExportedMemory = verify.ExportedMemory
	Via            = verify.Via
)

// ParseReceipt reads the JSON of a receipt and checks its form. The error is a
// *VerificationError. Receipt.Verify checks the statements of the receipt.
func ParseReceipt(text []byte) (*Receipt, error) { return verify.ParseReceipt(text) }

// ReadExport reads the header of an export, the answer of GET /export. Export.Memories
// reads the rest. The error is a *VerificationError, or the reader's.
func ReadExport(r io.Reader) (*Export, error) { return verify.ReadExport(r) }

// ErrCantComplete: the later receipt is of another memory and another tree, so nothing
// links it to this receipt.
var ErrCantComplete = verify.ErrCantComplete

// ErrNoCorrection: the error of Receipt.Corrects for memories of which neither names the
// other.
var ErrNoCorrection = verify.ErrNoCorrection

// ErrChainUnreachable: the Solana node gave no usable answer. This says nothing about the
// receipt or the service.
var ErrChainUnreachable = verify.ErrUnreachable

// ErrNotAnchored: a receipt or an export was made before its anchor, so it can't be compared
// with the chain or the issuer yet. This is no lie.
var ErrNotAnchored = verify.ErrNotAnchored

// VerificationError reports a false statement. Unwrap returns its Kind, so errors.Is
// compares with ErrWrongLeaf and the other kinds below.
type VerificationError = verify.Error

// Liar is the party that made a false statement.
type Liar = verify.Liar

const (
	// LiarService: an answer of the API is false.
	LiarService = verify.LiarService
	// LiarIssuer: a file is false, and only its maker can have made it false.
	LiarIssuer = verify.LiarIssuer
)

// Kinds of a *VerificationError.
var (
	// ErrMalformed: not the form of a receipt, of an export, or of an answer.
	ErrMalformed = verify.ErrMalformed
	// ErrWrongText: text or metadata are not those of the leaf, or not those that were
	// written.
	ErrWrongText = verify.ErrWrongText
	// ErrWrongLeaf: the leaf hash is not the hash of the entry.
	ErrWrongLeaf = verify.ErrWrongLeaf
	// ErrBadProof: the path does not lead from the leaf to the root.
	ErrBadProof = verify.ErrBadProof
	// ErrWrongRoot: the root is not the log's root at that size.
	ErrWrongRoot = verify.ErrWrongRoot
	// ErrWrongOwner: the answer is about another owner's log.
	ErrWrongOwner = verify.ErrWrongOwner
	// ErrBadConsistency: the proof does not show that one tree is a prefix of the other.
	ErrBadConsistency = verify.ErrBadConsistency
	// ErrForked: the log does not extend the one that this client has seen.
	ErrForked = verify.ErrForked
	// ErrHidden: a list or an export lacks a memory, repeats one, or has one out of
	// place.
	ErrHidden = verify.ErrHidden
	// ErrIncomplete: an export ends before its last line. If the connection failed, the
	// error is also ErrConnection or ErrTimeout, and it is not a *VerificationError.
	ErrIncomplete = verify.ErrIncomplete
	// ErrChain: the anchor is malformed, or differs from the chain.
	ErrChain = verify.ErrChain
	// ErrShrunk: the log, or its anchored part, is shorter than this client has seen.
	ErrShrunk = errors.New("the log shrank")
	// ErrWrongMemory: the answer is valid, but about another memory.
	ErrWrongMemory = errors.New("wrong memory")
	// ErrStale: the answer was true once, but the log or the chain had already advanced.
	ErrStale = errors.New("stale proof")
	// ErrChallenge: the text to sign is not the one of this service, this purpose and this
	// account. Nothing was signed.
	ErrChallenge = errors.New("not the text to sign")
	// ErrTransaction: a staking transaction does something else than was asked for.
	ErrTransaction = errors.New("not the transaction to sign")
)

// serviceLies makes the error for a false answer.
func serviceLies(kind error, field, format string, args ...any) *VerificationError {
	return &VerificationError{Kind: kind, Liar: LiarService, Field: field, Problem: fmt.Sprintf(format, args...)}
}

// byService blames the service for a bad file that it just sent.
func byService(err error) error {
	var v *VerificationError
	if !errors.As(err, &v) {
		return err
	}
	told := *v
	told.Liar = LiarService
	return &told
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
