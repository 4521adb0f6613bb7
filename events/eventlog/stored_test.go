package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// tailOf is a log with one message, or one that does not answer.
type tailOf struct {
	eventlog.Reader // for what is not called here
	only            eventlog.Record
	away            error
	asked           int
}

func (l *tailOf) OwnerTail(_ context.Context, f events.Family, o events.Owner, after uint64, yield func(eventlog.Record) error) error {
	l.asked++
	if want := (events.Subject{Family: f, Owner: o, Kind: events.KindMemory}).String(); l.away != nil || l.only.Subject != want || l.only.Seq <= after {
		return l.away
	}
	return yield(l.only)
}

func TestStoredAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	owner := events.OwnerFromBytes([32]byte{1})
	subject := events.Subject{Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory}.String()
	unknown := eventlog.Record{Seq: 7, Subject: subject}
	for name, c := range map[string]struct {
		record eventlog.Record
		log    tailOf
		asks   int
		fails  error
	}{
		"the record says it":     {eventlog.Record{Seq: 7, Time: at}, tailOf{away: eventlog.ErrUnavailable}, 0, nil},
		"the log says it":        {unknown, tailOf{only: eventlog.Record{Seq: 7, Subject: subject, Time: at}}, 1, nil},
		"another one is next":    {unknown, tailOf{only: eventlog.Record{Seq: 8, Subject: subject, Time: at}}, 1, eventlog.ErrGap},
		"the log has lost it":    {unknown, tailOf{only: eventlog.Record{Seq: 6, Subject: subject, Time: at}}, 1, eventlog.ErrGap},
		"the log is away":        {unknown, tailOf{away: eventlog.ErrUnavailable}, 1, eventlog.ErrUnavailable},
		"a subject that is none": {eventlog.Record{Seq: 7, Subject: "x"}, tailOf{}, 0, events.ErrSubject},
	} {
		stored, err := eventlog.StoredAt(t.Context(), &c.log, c.record)
		if !errors.Is(err, c.fails) || (err == nil) != stored.Equal(at) || c.log.asked != c.asks {
			t.Errorf("%s: %v, %v after %d questions", name, stored, err, c.log.asked)
		}
		// A log that is away has lost nothing. A caller that took it for another log
		// would build all state again.
		if errors.Is(err, eventlog.ErrUnavailable) && errors.Is(err, eventlog.ErrGap) {
			t.Errorf("%s: %v is said of a log that did not answer", name, err)
		}
	}
}
