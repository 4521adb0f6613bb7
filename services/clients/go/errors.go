package memoryledger

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/memory-ledger/ledger/events/verify"
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
	return verify.Printable(fmt.Sprintf("memoryledger: %d: %s", e.Status, e.Message))
}

// Is reports whether target is the sentinel of the status.
func (e *Error) Is(target error) bool { return target == sentinelOf(e.Status) }

// Kinds of an *Error, by status.
var (
	// ErrInvalid: 400, 413, 415, 416, 431. The request must be changed. Also a redirect.
	ErrInvalid = errors.New("memoryledger: invalid request")
	// ErrUnauthorized: 401. The credential is missing or no longer valid.
	ErrUnauthorized = errors.New("memoryledger: unauthorized")
	// ErrForbidden: 403. An API key was used where a session, or another scope, is needed.
	ErrForbidden = errors.New("memoryledger: forbidden")
	// ErrNotFound: 404. The resource does not exist, or belongs to another owner.
	ErrNotFound = errors.New("memoryledger: not found")
	// ErrConflict: 409. There are too many API keys, a memory has no key of its own, or an import
	// is in the way.
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
)
