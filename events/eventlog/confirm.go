package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/events"
)

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
