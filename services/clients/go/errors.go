package memoryledger

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Error is an answer of the API other than success. Use errors.Is to compare it with
// ErrNotFound and the other errors below.
type Error struct {
	Status  int
	Message string
	// RequestID finds the request in the service's log.
	RequestID string

	retryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	return printable(fmt.Sprintf("memoryledger: %d: %s", e.Status, e.Message))
}

// printable escapes what a terminal would act on: errors quote the service and its files.
func printable(text string) string {
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

// Is reports whether target is the sentinel of the status.
func (e *Error) Is(target error) bool { return target == sentinelOf(e.Status) }

// Kinds of an *Error, by status.
var (
	// ErrInvalid: 400, 413, 415, 416, 431. The request must be changed.
	ErrInvalid = errors.New("memoryledger: invalid request")
	// ErrUnauthorized: 401. The credential is missing or no longer valid.
	ErrUnauthorized = errors.New("memoryledger: unauthorized")
	// ErrForbidden: 403. An API key was used where a session, or another scope, is needed.
	ErrForbidden = errors.New("memoryledger: forbidden")
	// ErrNotFound: 404. The resource does not exist, or belongs to another owner.
	ErrNotFound = errors.New("memoryledger: not found")
	// ErrConflict: 409. There are too many API keys.
	ErrConflict = errors.New("memoryledger: conflict")
	// ErrGone: 410. The text can no longer be read. Its proof remains.
	ErrGone = errors.New("memoryledger: gone")
	// ErrKeyReused: 422. The Idempotency-Key was used with another body, or by a write that
	// was erased since.
	ErrKeyReused = errors.New("memoryledger: idempotency key reused")
	// ErrRateLimited: 429, after all attempts.
	ErrRateLimited = errors.New("memoryledger: rate limited")
	// ErrUnavailable: 408 or 5xx, after all attempts. A write may have been stored:
	// repeat it with the same IdempotencyKey.
	ErrUnavailable = errors.New("memoryledger: unavailable")
)

func sentinelOf(status int) error {
	switch status {
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusConflict:
		return ErrConflict
	case http.StatusGone:
		return ErrGone
	case http.StatusUnprocessableEntity:
		return ErrKeyReused
	case http.StatusTooManyRequests:
		return ErrRateLimited
	case http.StatusRequestTimeout:
		return ErrUnavailable
	}
	if status >= http.StatusInternalServerError {
		return ErrUnavailable
	}
	return ErrInvalid
}

// Errors when no usable answer arrived, after all attempts. A write may have been stored.
var (
	// ErrConnection: the connection failed, or the answer was cut short.
	ErrConnection = errors.New("memoryledger: the connection failed")
	// ErrTimeout: no complete answer arrived within the time of WithTimeout for one
	// attempt.
	ErrTimeout = errors.New("memoryledger: no complete answer in time")
	// ErrChainUnreachable: the Solana node gave no usable answer. This says nothing about
	// the receipt or the service.
	ErrChainUnreachable = errors.New("memoryledger: the Solana node gave no usable answer")
)

// ErrNotAnchored: a receipt or an export was made before its anchor, so it can't be compared
// with the chain or the issuer yet. This is no lie.
var ErrNotAnchored = errors.New("memoryledger: not anchored yet")

// Liar is the party that made a false statement.
type Liar string

const (
	// LiarService: an answer of the API is false.
	LiarService Liar = "service"
	// LiarIssuer: a file is false, and only its maker can have made it false.
	LiarIssuer Liar = "issuer"
)

// VerificationError reports a false statement. Unwrap returns its Kind, so errors.Is
// compares with ErrWrongLeaf and the other kinds below.
type VerificationError struct {
	Kind error
	Liar Liar
	// Field is the wrong member, if the checks can tell which one it is.
	Field   string
	Problem string
	// Line is the line of an export, from 1. It is 0 for anything else.
	Line uint64
}

// Error implements error.
func (e *VerificationError) Error() string {
	where := e.Field
	if e.Line > 0 {
		where = fmt.Sprintf("line %d: %s", e.Line, e.Field)
	}
	return printable(fmt.Sprintf("%v: the %s lies: %s: %s", e.Kind, e.Liar, where, e.Problem))
}

// Unwrap returns the kind.
func (e *VerificationError) Unwrap() error { return e.Kind }

// Kinds of a *VerificationError.
var (
	// ErrMalformed: not the form of a receipt, of an export, or of an answer.
	ErrMalformed = errors.New("memoryledger: malformed")
	// ErrWrongText: text or metadata are not those of the leaf, or not those that were
	// written.
	ErrWrongText = errors.New("memoryledger: wrong text")
	// ErrWrongLeaf: the leaf hash is not the hash of the entry.
	ErrWrongLeaf = errors.New("memoryledger: wrong leaf")
	// ErrBadProof: the path does not lead from the leaf to the root.
	ErrBadProof = errors.New("memoryledger: bad inclusion proof")
	// ErrWrongRoot: the root is not the log's root at that size.
	ErrWrongRoot = errors.New("memoryledger: wrong root")
	// ErrWrongOwner: the answer is about another owner's log.
	ErrWrongOwner = errors.New("memoryledger: wrong owner")
	// ErrBadConsistency: the proof does not show that one tree is a prefix of the other.
	ErrBadConsistency = errors.New("memoryledger: bad consistency proof")
	// ErrShrunk: the log, or its anchored part, is shorter than this client has seen.
	ErrShrunk = errors.New("memoryledger: the log shrank")
	// ErrForked: the log does not extend the one that this client has seen.
	ErrForked = errors.New("memoryledger: the log forked")
	// ErrHidden: a list or an export lacks a memory, repeats one, or has one out of
	// place.
	ErrHidden = errors.New("memoryledger: a memory is hidden")
	// ErrWrongMemory: the answer is valid, but about another memory.
	ErrWrongMemory = errors.New("memoryledger: wrong memory")
	// ErrStale: the answer was true once, but the log or the chain had already advanced.
	ErrStale = errors.New("memoryledger: stale proof")
	// ErrIncomplete: an export ends before its last line. If the connection failed, the
	// error is also ErrConnection or ErrTimeout, and it is not a *VerificationError.
	ErrIncomplete = errors.New("memoryledger: incomplete export")
	// ErrChallenge: the text to sign is not the one of this service, this purpose and this
	// account. Nothing was signed.
	ErrChallenge = errors.New("memoryledger: not the text to sign")
	// ErrTransaction: a staking transaction does something else than was asked for.
	ErrTransaction = errors.New("memoryledger: not the transaction to sign")
	// ErrChain: the anchor is malformed, or differs from the chain.
	ErrChain = errors.New("memoryledger: wrong anchor")
)

func wrong(kind error, field, format string, args ...any) *VerificationError {
	return &VerificationError{Kind: kind, Liar: LiarIssuer, Field: field, Problem: fmt.Sprintf(format, args...)}
}

// serviceLies makes the error for a false answer.
func serviceLies(kind error, field, format string, args ...any) *VerificationError {
	e := wrong(kind, field, format, args...)
	e.Liar = LiarService
	return e
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
