package eventlog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// away is a log that does not answer.
type away struct{}

func (away) OwnerNewest(context.Context, events.Family, events.Owner, events.SubjectKind) (eventlog.Record, bool, error) {
	return eventlog.Record{}, false, eventlog.ErrUnavailable
}

// A log that does not answer is not reported as a contradiction.
func TestNothingIsConfirmedWithoutTheLog(t *testing.T) {
	t.Parallel()
	owner := events.OwnerFromBytes([32]byte{1})
	for _, version := range []int{0, 3} {
		_, compared, err := eventlog.Confirm(t.Context(), away{}, events.FamilyLedger, owner, uint64(version), version)
		if compared || !errors.Is(err, eventlog.ErrUnavailable) || errors.Is(err, eventlog.ErrContradiction) {
			t.Errorf("version %d: %t, %v", version, compared, err)
		}
	}
}
