package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/events"
)

// ErrContradiction: the read model tells of an owner what the log does not. A rebuild
// mends it.
var ErrContradiction = errors.New("the read model contradicts the log; run ledger rebuild --force")

// NewestReader is the part of a Reader that Confirm needs.
type NewestReader interface {
	// OwnerNewest returns the owner's newest message in the family, of a kind where one
	// is named; found is false, and the record empty, where there is none.
	OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (r Record, found bool, err error)
}

// Confirm compares what a read model tells of an owner's newest message in a family, its
// sequence and the owner's version after it, both 0 for none, with the log, and returns that
// message's events. An append on a wrong version would contradict the log for good, and then
// nothing that reads it could go on.
//
// compared is false, without an error, where a message came meanwhile: that is one that the
// append's expectation will meet.
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
