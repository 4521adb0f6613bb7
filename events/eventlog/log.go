// Package eventlog is the log: the one stream that holds every fact.
//
// Three interfaces split the contract by the consistency that callers need.
// [Appender] decides: an append names the owner's version that the decision was based
// on, and the log refuses the append if that version is no longer the newest. When an
// append returns, its message is on stable storage. [Reader] returns the newest state,
// linearizably, also while the network is cut (lease.go). [Follower] replays everything,
// in order, as often as a caller likes. The package's tests state the guarantees as a suite,
// which each way to run the log passes.
package eventlog

import (
	"context"
	"errors"
	"time"

	"github.com/memory-ledger/ledger/events"
)

const StreamName = "LEDGER"

// Errors of the log. Callers tell them apart with errors.Is.
var (
	// ErrConflict: the owner has events that the decision did not know. Read
	// them and decide again. Nothing was stored.
	ErrConflict = errors.New("owner's log has moved on")
	// ErrUnavailable: the log did not answer or refused work. Nothing was
	// stored by the call that reports it.
	ErrUnavailable = errors.New("log unavailable")
	// ErrUncertain: an append was sent, and no answer arrived in time. The message may
	// or may not be stored. Appending the same command again is safe.
	ErrUncertain = errors.New("append may or may not have been stored")
	// ErrTruncated: a reader's position is beyond the end of the log, so the
	// log lost events that the reader has seen.
	ErrTruncated = errors.New("log ends before the given position")
	// ErrGap: the log skipped a sequence number.
	ErrGap = errors.New("log has a gap")
)

// Conflict is ErrConflict, with what the decision did not know.
type Conflict struct {
	// Tail is the owner's messages after Expected, in order. Newer ones may be missing: it is
	// empty if the next message is still in flight.
	Tail []Record
}

func (Conflict) Error() string { return ErrConflict.Error() }
func (Conflict) Unwrap() error { return ErrConflict }

// MaxPayload bounds the payload of a message. The server accepts 2 MiB, headers included.
const MaxPayload = 2<<20 - 4<<10

// Append is the outcome of one command, to be stored in the log.
type Append struct {
	Family    events.Family
	Owner     events.Owner
	Kind      events.SubjectKind
	CommandID string // unique; the same on every retry of the same bytes
	Expected  uint64 // sequence of the owner's newest message in the family, 0 if none
	Payload   []byte // events.EncodeBatch
}

// Record is one message as the log holds it.
type Record struct {
	Seq       uint64
	Subject   string
	Time      time.Time // when the log stored it
	CommandID string
	Payload   []byte

	previous previous // zero if only the log knows
}

type Appender interface {
	// Append stores the message if Expected is still the owner's newest sequence, and
	// returns its sequence once the message is on stable storage.
	//
	// A repeated Append of a stored command returns the command's sequence. The log
	// recognizes the command by its id, so no other writer must use the same id for the
	// owner.
	//
	// Errors: ErrConflict (a Conflict unless the tail is long), ErrUnavailable, ErrUncertain.
	Append(ctx context.Context, a Append) (seq uint64, err error)
}

// Reader looks at the newest state. Its answers reflect every append that was
// acknowledged before the call.
type Reader interface {
	HeadReader
	// OwnerHead returns the sequence of the owner's newest message in the
	// family (FamilyAny: in either family), or 0 if there is none.
	OwnerHead(ctx context.Context, f events.Family, o events.Owner) (uint64, error)
	NewestReader
	// At returns the message at a sequence. If there is none, found is false and the
	// record is empty.
	At(ctx context.Context, seq uint64) (r Record, found bool, err error)
	// OwnerTail calls yield with the owner's messages after a sequence, in
	// order, up to the newest.
	OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(Record) error) error
}

// HeadReader is the part of a Reader that knows where the log ends.
type HeadReader interface {
	// Head returns the sequence of the newest message, 0 for an empty log.
	Head(ctx context.Context) (uint64, error)
	// Lag is how long Head may lack a message that was read from the log.
	Lag() time.Duration
}

// Slice is a run of messages. Every message of the log with a sequence from
// First to Last that passes the follower's filter is in Records, in order.
type Slice struct {
	First, Last uint64
	Records     []Record
}

// FollowConfig says what to follow. The zero value follows everything from
// the first message on.
type FollowConfig struct {
	From       uint64 // first sequence wanted; 0 means 1
	Subject    string // subject filter; empty means all
	MaxRecords int    // most records in a slice; 0 means 1000
	MaxBytes   int    // payload bytes after which a slice ends; 0 means 8 MiB
	// Consumer names a consumer that an administrator made, and that no other follower uses.
	// Empty: the follower makes one, unless Poll is set or Subject is not empty.
	Consumer string
	// Poll is for a client that may not make consumers: it looks for new messages ten times
	// a second. A stranger must not be allowed to make one, because who makes a consumer
	// chooses the subject that the consumer delivers to.
	Poll bool
}

// Follower replays the log and then follows it live.
type Follower interface {
	// Follow calls yield with one slice after the other and returns when ctx
	// ends (nil), when yield fails (its error), or when the log can't deliver
	// the messages (ErrTruncated, ErrGap, ErrUnavailable). If the server goes
	// away, Follow waits until it comes back.
	Follow(ctx context.Context, cfg FollowConfig, yield func(Slice) error) error
}

// ReadConfig says what to read: a part of the log that is complete already.
type ReadConfig struct {
	From     uint64 // first sequence wanted; 0 means 1
	To       uint64 // last sequence wanted; the caller knows that the log holds it
	Subject  string // subject filter; empty means all
	MaxBytes int    // payload bytes after which a slice ends; 0 means 4 MiB
}

// PartReader reads a part of the log that is complete. [JetStream] needs only direct
// gets. [Bulk] needs a consumer and costs the server a fourth of the work.
type PartReader interface {
	// Read calls yield with the log from From to To, slice after slice, and
	// returns nil at To. While yield works on a slice, Read fetches the next
	// ones: at most one waits and one is being fetched. If the server goes
	// away, Read waits until it comes back. Read gives up with ErrUnavailable
	// when ctx ends or the connection is closed for good. It returns yield's
	// error unchanged.
	//
	// Without a filter the slices are contiguous; a missing message is ErrGap. A filtered
	// read trusts the server that answers: on a cluster, a replica that is behind may lack
	// the newest messages.
	Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error
}

type Log interface {
	Appender
	Reader
	PartReader
	Follower
}
