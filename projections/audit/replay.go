package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/partition"
)

// message is one message of the log, taken apart. bad says what was wrong with
// it, or is nil.
type message struct {
	seq     uint64
	record  eventlog.Record
	subject events.Subject
	batch   []events.Event
	bad     error
}

// replay reads the log up to a.through and folds it. Messages are decoded while
// those before them are folded.
func (a *auditor) replay(ctx context.Context, db *snapshot) (err error) {
	a.fold = newFold(a)
	defer func() { err = errors.Join(err, a.fold.ids.close()) }()
	if db != nil {
		where, args := a.onlyOwner()
		if a.fold.memories, err = openMemories(ctx, db.conn, a.report, where, args); err != nil {
			return err
		}
		defer a.fold.memories.rows.Close()
	}
	read := eventlog.ReadConfig{To: a.through}
	if a.cfg.Owner != "" {
		read.Subject = events.OwnerFilter(events.FamilyAny, a.cfg.Owner)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoded, failed := make(chan []message, 2), make(chan error, 1)
	subjects := map[string]events.Subject{}
	go func() {
		defer close(decoded)
		failed <- a.cfg.Log.Read(ctx, read, func(slice eventlog.Slice) error {
			select {
			case decoded <- decode(slice, subjects):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	for slice := range decoded {
		for i := range slice {
			if err := a.fold.message(ctx, &slice[i]); err != nil {
				return err
			}
		}
		if a.cfg.Progress != nil && len(slice) > 0 {
			a.cfg.Progress(slice[len(slice)-1].seq, a.through)
		}
	}
	if err := <-failed; err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if db != nil {
		if err := a.fold.memories.skip(nil); err != nil {
			return err
		}
	}
	return a.afterReplay(ctx)
}

// afterReplay looks at what only the whole log can tell.
func (a *auditor) afterReplay(ctx context.Context) error {
	f := a.fold
	a.report.summary.Owners = uint64(len(f.owners))
	err := f.ids.twice(func(kind idKind, first, again uint64) {
		a.report.add(Finding{Check: CheckUnique, Seq: again, Owner: a.ownerAt(ctx, again), Detail: fmt.Sprintf(
			"%s was used at sequence %d already", idNames[kind], first)})
	})
	if err != nil {
		return err
	}
	return a.lookBack(ctx)
}

// ownerAt names the owner of a message; for findings, which are few.
func (a *auditor) ownerAt(ctx context.Context, seq uint64) (owner events.Owner) {
	_ = a.cfg.Log.Read(ctx, eventlog.ReadConfig{From: seq, To: seq}, func(slice eventlog.Slice) error {
		if s, err := events.ParseSubject(slice.Records[0].Subject); err == nil {
			owner = s.Owner
		}
		return nil
	}) // without an answer the finding lacks the name
	return owner
}

// maxSubjects bounds the memory of subjects that were parsed already.
const maxSubjects = 1 << 16

// decode takes messages apart, and remembers their subjects: an owner has some
// few, and checking one takes as long as a tenth of the message.
func decode(slice eventlog.Slice, subjects map[string]events.Subject) []message {
	messages := make([]message, len(slice.Records))
	for i, r := range slice.Records {
		m := message{seq: r.Seq, record: r}
		if m.subject, m.bad = parseSubject(r.Subject, subjects); m.bad == nil {
			if m.batch, m.bad = events.DecodeBatch(r.Payload); m.bad == nil {
				m.bad = m.check()
			}
		}
		m.record.Payload = nil // worth nothing once the log reads on
		messages[i] = m
	}
	return messages
}

func parseSubject(text string, known map[string]events.Subject) (events.Subject, error) {
	if subject, ok := known[text]; ok {
		return subject, nil
	}
	subject, err := events.ParseSubject(text)
	if err != nil {
		return subject, err
	}
	if len(known) >= maxSubjects {
		clear(known)
	}
	known[text] = subject
	return subject, nil
}

// check holds a message against its subject and the catalogue.
func (m *message) check() error {
	if err := m.subject.Admits(m.batch); err != nil {
		return err
	}
	if m.record.CommandID != "" && m.record.CommandID != m.batch[0].CommandID {
		return fmt.Errorf("message of command %s holds events of command %s", m.record.CommandID, m.batch[0].CommandID)
	}
	return nil
}

// message folds one message.
func (f *fold) message(ctx context.Context, m *message) error {
	f.passed(m)
	if p, ok := partition.In(m.record.Subject); ok && m.seq > f.at.At(p) {
		return nil // the read models are not that far with its owner
	}
	s := &f.report.summary
	s.Messages++
	if m.bad != nil {
		f.report.add(Finding{Check: CheckDecode, Owner: m.subject.Owner, Seq: m.seq, Detail: m.bad.Error()})
	}
	if m.subject.Owner == "" {
		return nil
	}
	o := f.owner(m.subject.Owner)
	if m.batch == nil {
		// Its version is unknown; it takes the next one, so that one damaged
		// message is one finding.
		o.skip(m.subject.Family, m.seq)
		return nil
	}
	c := &current{owner: o, seq: m.seq}
	c.withMemory = slices.ContainsFunc(m.batch, func(e events.Event) bool { return e.Type() == events.TypeMemoryWritten })
	f.version(c, m)
	if err := f.ids.add(idCommand, m.seq, m.batch[0].CommandID); err != nil {
		return err
	}
	for i := range m.batch {
		s.Events++
		c.position, c.event = i, &m.batch[i]
		if err := f.ids.add(idEvent, m.seq, m.batch[i].ID); err != nil {
			return err
		}
		if err := f.event(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// passed notes when a message was stored that a row of the checkpoint names.
func (f *fold) passed(m *message) {
	for _, mark := range f.at {
		if mark.Seq == m.seq {
			f.stored[m.seq] = m.record.Time
		}
	}
}

// version checks that the message continues its owner's versions, and notes what
// the owner's row says of it.
func (f *fold) version(c *current, m *message) {
	o, got := c.owner, m.batch[0].OwnerVersion
	counted := &o.versions
	if m.subject.Family == events.FamilyChain {
		counted = &o.chainVersions
		o.chainVersion, o.chainLastSeq = max(o.chainVersion, got), m.seq
	} else {
		o.messages++
		if o.named = &m.seq; c.withMemory {
			o.named = nil
		}
	}
	if want := *counted + 1; got != want {
		f.report.add(Finding{Check: CheckVersion, Owner: o.name, Seq: m.seq, Detail: fmt.Sprintf(
			"owner version %d of the %s family where %d should be: a message is missing, too many, or out of place", got, m.subject.Family, want)})
	}
	*counted = got
}

// errStop ends a read that has seen enough.
var errStop = errors.New("enough")
