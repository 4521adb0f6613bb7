package verify

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// NoReceipt is the field of the error for input that is not a receipt at all.
const NoReceipt = "receipt"

// ErrUnreachable: the Solana node gave no usable answer. This says nothing about the
// receipt or the service.
var ErrUnreachable = errors.New("the Solana node gave no usable answer")

// ErrNotAnchored: a receipt or an export was made before its anchor, so it can't be compared
// with the chain or the issuer yet. This is no lie.
var ErrNotAnchored = errors.New("not anchored yet")

// Liar is the party that made a false statement.
type Liar string

const (
	// LiarService: an answer of the API is false.
	LiarService Liar = "service"
	// LiarIssuer: a file is false, and only its maker can have made it false.
	LiarIssuer Liar = "issuer"
)

// Error reports a false statement. Unwrap returns its Kind, so errors.Is
// compares with ErrWrongLeaf and the other kinds below.
type Error struct {
	Kind error
	Liar Liar
	// Field is the wrong member, if the checks can tell which one it is.
	Field   string
	Problem string
	// Line is the line of an export, from 1. It is 0 for anything else.
	Line uint64
}

// Error implements error.
func (e *Error) Error() string {
	where := e.Field
	if e.Line > 0 {
		where = fmt.Sprintf("line %d: %s", e.Line, e.Field)
	}
	said := fmt.Sprintf("the %s lies: %s", e.Liar, where)
	if e.Liar == LiarIssuer && (e.Field == NoReceipt || e.Kind == ErrIncomplete && e.Field == "line") { // another file, or one that was cut off
		said = where
	}
	return Printable(fmt.Sprintf("%v: %s: %s", e.Kind, said, e.Problem))
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Kinds of an *Error.
var (
	// ErrMalformed: not the form of a receipt, of an export, or of an answer. The field is
	// NoReceipt if the input is not a receipt at all, neither good nor bad.
	ErrMalformed = errors.New("malformed")
	// ErrWrongText: text or metadata are not those of the leaf, or not those that were
	// written.
	ErrWrongText = errors.New("wrong text")
	// ErrWrongLeaf: the leaf hash is not the hash of the entry.
	ErrWrongLeaf = errors.New("wrong leaf")
	// ErrBadProof: the path does not lead from the leaf to the root.
	ErrBadProof = errors.New("bad inclusion proof")
	// ErrWrongRoot: the root is not the log's root at that size.
	ErrWrongRoot = errors.New("wrong root")
	// ErrWrongOwner: the answer is about another owner's log.
	ErrWrongOwner = errors.New("wrong owner")
	// ErrBadConsistency: the proof does not show that one tree is a prefix of the other.
	ErrBadConsistency = errors.New("bad consistency proof")
	// ErrForked: a log does not extend an older one.
	ErrForked = errors.New("the log forked")
	// ErrHidden: a list or an export lacks a memory, repeats one, or has one out of
	// place.
	ErrHidden = errors.New("a memory is hidden")
	// ErrIncomplete: an export ends before its last line. If reading failed, the error is
	// also the reader's, and it is not an *Error.
	ErrIncomplete = errors.New("incomplete export")
	// ErrChain: the anchor is malformed, or differs from the chain.
	ErrChain = errors.New("wrong anchor")
)

// Wrong makes the error for a file.
func Wrong(kind error, field, format string, args ...any) *Error {
	return &Error{Kind: kind, Liar: LiarIssuer, Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Printable escapes what a terminal would act on: errors quote the service and its files.
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
