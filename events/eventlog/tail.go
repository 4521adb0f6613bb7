package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

// OwnerTail implements Reader. Only the leader is trusted to say where the tail ends.
//
// An owner's messages form a linked list: each names the message that was the owner's
// newest when it was appended, and the server has checked that. So a tail of one message
// takes one question. A tail that starts far back is read along the list, from the newest
// message back. This costs the server a look into one block for each message. To read
// forward, a server whose log has more than 65,536 subjects searches all blocks from after
// on, 8 MB each, with the stream locked. For an owner who was away that is most of the log,
// and no owner can write meanwhile.
func (l *JetStream) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(Record) error) error {
	end, found, err := l.newest(ctx, events.OwnerFilter(f, o))
	if err != nil {
		return fmt.Errorf("owner tail: %w", err)
	}
	if !found || end.Seq <= after {
		return nil
	}
	tail, err := l.back(ctx, f, o, after, end)
	if errors.Is(err, errForward) {
		return l.forward(ctx, events.OwnerFilter(f, o), after, end.Seq, yield)
	}
	if err != nil {
		return fmt.Errorf("owner tail: %w", err)
	}
	for _, record := range tail {
		if err := yield(record); err != nil {
			return err
		}
	}
	return nil
}

// errForward: the tail is long, or it is not a list because another program wrote to the
// log.
var errForward = errors.New("the tail is to be read from its beginning")

// back returns the owner's messages after a sequence, up to end, in order. If there are
// more than 32, the error is errForward: reading them one by one would take longer.
func (l *JetStream) back(ctx context.Context, f events.Family, o events.Owner, after uint64, end Record) (tail []Record, err error) {
	last, err := events.ParseSubject(end.Subject)
	if err != nil {
		return nil, errForward
	}
	families := []events.Family{f}
	if f == events.FamilyAny {
		families = []events.Family{events.FamilyLedger, events.FamilyChain}
	}
	for _, family := range families {
		record, found := end, true
		if family != last.Family {
			if record, found, err = l.newest(ctx, events.OwnerFilter(family, o)); err != nil {
				return nil, err
			}
		}
		for found && record.Seq > after {
			if record.Seq <= end.Seq { // else other messages may lie between end and this one
				tail = append(tail, record)
			}
			at, known := record.previous.in(family, o)
			if !known || at >= record.Seq || at > after && len(tail) >= 32 {
				return nil, errForward
			}
			if at <= after {
				break
			}
			if record, found, err = l.At(ctx, at); err != nil {
				return nil, err
			}
			if of, err := events.ParseSubject(record.Subject); err != nil || of.Family != family || of.Owner != o {
				return nil, errForward
			}
		}
	}
	slices.SortFunc(tail, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return tail, nil
}

// forward yields the messages of a filter after one sequence, up to another that the leader
// has. Any replica may deliver them, because each has a prefix of the log. If it can't be
// reached or has no more, the leader goes on.
func (l *JetStream) forward(ctx context.Context, filter string, after, to uint64, yield func(Record) error) error {
	for after < to {
		records, _, err := l.batch(ctx, after+1, filter, 100, 0, lostResend)
		if err != nil || len(records) == 0 {
			record, found, err := l.next(ctx, after+1, filter)
			if err == nil && !found {
				err = fmt.Errorf("%w: there is no message after sequence %d, but %d", ErrUnavailable, after, to)
			}
			if err != nil {
				return fmt.Errorf("owner tail: %w", err)
			}
			records = []Record{record}
		}
		for _, record := range records {
			if err := yield(record); err != nil {
				return err
			}
			after = record.Seq
		}
	}
	return nil
}

// previous is what a message's append expected: the newest sequence of a filter.
type previous struct{ seq, filter string }

func previousOf(header nats.Header) previous {
	return previous{header.Get(jetstream.ExpectedLastSubjSeqHeader), header.Get(jetstream.ExpectedLastSubjSeqSubjHeader)}
}

// in returns the sequence of the owner's message before this one in a family, 0 for none.
func (p previous) in(f events.Family, o events.Owner) (seq uint64, known bool) {
	seq, err := strconv.ParseUint(p.seq, 10, 64)
	return seq, err == nil && p.filter == events.OwnerFilter(f, o)
}

// ErrContradiction: the read model and the log disagree about an owner. A rebuild
// repairs the read model.
var ErrContradiction = errors.New("the read model contradicts the log; run ledger rebuild --force")

// NewestReader is the part of a Reader that Confirm needs.
type NewestReader interface {
	// OwnerNewest returns the owner's newest message in the family. If kind is not empty,
	// only messages of that kind count. If there is none, found is false and the record
	// is empty.
	OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (r Record, found bool, err error)
}

// Confirm compares a read model with the log. seq is the sequence of the owner's newest
// message in the family according to the read model, and version is the owner's version
// after it; both are 0 for none. Confirm returns the events of that message. An append on
// a wrong version would contradict the log for good, and then no reader of the log could
// continue.
//
// compared is false, without an error, if a newer message arrived meanwhile: the append's
// expectation will detect that message.
func Confirm(ctx context.Context, log NewestReader, f events.Family, o events.Owner, seq uint64, version int) (newest []events.Event, compared bool, err error) {
	r, found, err := log.OwnerNewest(ctx, f, o, "")
	if err != nil || r.Seq > seq {
		return nil, false, err
	}
	is := 0
	if found {
		if newest, err = events.DecodeBatch(r.Payload); err != nil {
			return nil, false, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		is = newest[0].OwnerVersion
	}
	if r.Seq != seq || is != version {
		return nil, false, fmt.Errorf("%w: of %s it has version %d at sequence %d of family %s, the log version %d at %d", ErrContradiction, o, version, seq, f, is, r.Seq)
	}
	return newest, true, nil
}
