package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// only is a log with one message, or one that does not answer.
type only struct {
	eventlog.Reader // for the methods that are not called here
	message         eventlog.Record
	away            error
	asked           int
}

func (l *only) At(_ context.Context, seq uint64) (r eventlog.Record, found bool, err error) {
	l.asked++
	if l.away != nil || l.message.Seq != seq {
		return r, false, l.away
	}
	return l.message, true, nil
}

func TestStoredAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	owner := events.OwnerFromBytes([32]byte{1})
	subject := events.Subject{Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory}.String()
	unknown := eventlog.Record{Seq: 7, Subject: subject}
	for name, c := range map[string]struct {
		record eventlog.Record
		log    only
		asks   int
		fails  error
	}{
		"the record says it":  {eventlog.Record{Seq: 7, Time: at}, only{away: eventlog.ErrUnavailable}, 0, nil},
		"the log says it":     {unknown, only{message: eventlog.Record{Seq: 7, Subject: subject, Time: at}}, 1, nil},
		"it is another's":     {unknown, only{message: eventlog.Record{Seq: 7, Subject: "x", Time: at}}, 1, eventlog.ErrGap},
		"the log has lost it": {unknown, only{message: eventlog.Record{Seq: 6, Subject: subject, Time: at}}, 1, eventlog.ErrGap},
		"the log is away":     {unknown, only{away: eventlog.ErrUnavailable}, 1, eventlog.ErrUnavailable},
	} {
		stored, err := eventlog.StoredAt(t.Context(), &c.log, c.record)
		if !errors.Is(err, c.fails) || (err == nil) != stored.Equal(at) || c.log.asked != c.asks {
			t.Errorf("%s: %v, %v after %d questions", name, stored, err, c.log.asked)
		}
		// A log that does not answer has lost nothing. A caller that took it for another
		// log would rebuild all state.
		if errors.Is(err, eventlog.ErrUnavailable) && errors.Is(err, eventlog.ErrGap) {
			t.Errorf("%s: %v is said of a log that did not answer", name, err)
		}
	}
}
