package projector

import (
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// decoder reads messages. It is for one goroutine.
type decoder struct {
	only     func(events.Subject) bool // subjects whose messages are decoded; nil means all
	subjects map[string]events.Subject // parsed and valid
}

// decode decodes a slice's messages after a sequence, except those that only rejects.
func (d *decoder) decode(raw eventlog.Slice, after uint64) (Slice, error) {
	slice := Slice{First: raw.First, Last: raw.Last}
	for i := range raw.Records {
		r := &raw.Records[i]
		slice.Stored = r.Time
		if r.Seq <= after {
			continue
		}
		record, wanted, err := d.record(r)
		if err != nil {
			return Slice{}, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		if wanted {
			if slice.Records == nil {
				slice.Records = make([]Record, 0, len(raw.Records)-i)
			}
			slice.Records = append(slice.Records, record)
		}
	}
	return slice, nil
}

// record decodes a message, unless its subject is not wanted. It checks that the events
// match the subject, so that a reader of subjects and a reader of events agree.
func (d *decoder) record(r *eventlog.Record) (record Record, wanted bool, err error) {
	subject, known := d.subjects[r.Subject]
	if !known {
		if subject, err = events.ParseSubject(r.Subject); err != nil {
			return Record{}, false, err
		}
		if len(d.subjects) >= 1<<16 || d.subjects == nil {
			d.subjects = make(map[string]events.Subject)
		}
		d.subjects[r.Subject] = subject
	}
	if d.only != nil && !d.only(subject) {
		return Record{}, false, nil
	}
	batch, err := events.DecodeBatch(r.Payload)
	if err != nil {
		return Record{}, false, err
	}
	if err := subject.Admits(batch); err != nil {
		return Record{}, false, err
	}
	return Record{Seq: r.Seq, Family: subject.Family, Owner: subject.Owner, Stored: r.Time, Events: batch}, true, nil
}
