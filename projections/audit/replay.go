package audit

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// message is one decoded message of the log. bad is the reason why it is not valid, or
// nil.
type message struct {
	record  eventlog.Record
	subject events.Subject
	batch   []events.Event
	bad     error
}

// replay reads the log up to a.through, folds it, and compares the read models with it.
func (a *auditor) replay(ctx context.Context, db *snapshot) (err error) {
	a.fold = newFold(a)
	if db == nil {
		return a.read(ctx, 1, a.through)
	}
	where, args := a.onlyOwner()
	if a.fold.memories, err = openMemories(ctx, db.conn, a.report, where, args); err != nil {
		return err
	}
	if err := a.read(ctx, 1, a.through); err != nil {
		return err
	}
	if err := a.fold.memories.skip(nil); err != nil {
		return err
	}
	err = a.compareReadModels(ctx, db)
	a.fold.memories = nil
	return err
}

// read folds a part of the log.
func (a *auditor) read(ctx context.Context, from, to uint64) error {
	if from > to {
		return nil
	}
	part := eventlog.ReadConfig{From: from, To: to}
	if a.cfg.Owner != "" {
		part.Subject = events.OwnerFilter(events.FamilyAny, a.cfg.Owner)
	}
	if err := a.readDecoded(ctx, part, func(messages []message) error {
		for i := range messages {
			if a.cfg.Owner != "" && messages[i].subject.Owner != a.cfg.Owner {
				continue // a single node's log is read without a filter
			}
			if err := a.fold.message(ctx, &messages[i]); err != nil {
				return err
			}
		}
		if n := len(messages); n > 0 && a.cfg.Progress != nil {
			a.cfg.Progress(messages[n-1].record.Seq, to)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return nil
}

// readDecoded reads the log, and decodes a slice while yield works on the previous
// slice.
func (a *auditor) readDecoded(ctx context.Context, cfg eventlog.ReadConfig, yield func([]message) error) error {
	group, ctx := errgroup.WithContext(ctx)
	decoded := make(chan []message, 2)
	subjects := map[string]events.Subject{}
	group.Go(func() error {
		defer close(decoded)
		return a.cfg.Log.Read(ctx, cfg, func(slice eventlog.Slice) error {
			select {
			case decoded <- decode(slice, subjects):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	group.Go(func() error {
		for messages := range decoded {
			if err := yield(messages); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// readOn yields the events that the log got since the audit read it.
func (a *auditor) readOn(ctx context.Context, subject string, yield func(*events.Event)) error {
	head, err := a.cfg.Log.Head(ctx)
	if err == nil && head > a.through {
		err = a.readDecoded(ctx, eventlog.ReadConfig{From: a.through + 1, To: head, Subject: subject}, func(messages []message) error {
			for _, m := range messages {
				for i := range m.batch {
					yield(&m.batch[i])
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read the log's end: %w", err)
	}
	return nil
}

// afterReplay runs the checks that need the whole log.
func (a *auditor) afterReplay(ctx context.Context) error {
	f := a.fold
	a.report.summary.Owners = uint64(len(f.owners))
	f.ids.twice(func(kind idKind, first, again uint64) {
		a.report.wrong(CheckUnique, a.ownerAt(ctx, again), again, "%s was used at sequence %d already", idNames[kind], first)
	})
	return a.unexplained(ctx)
}

// ownerAt returns the owner of a message. It reads the log again, but only for findings,
// which are few.
func (a *auditor) ownerAt(ctx context.Context, seq uint64) (owner events.Owner) {
	_ = a.cfg.Log.Read(ctx, eventlog.ReadConfig{From: seq, To: seq}, func(slice eventlog.Slice) error {
		if s, err := events.ParseSubject(slice.Records[0].Subject); err == nil {
			owner = s.Owner
		}
		return nil
	}) // if this read fails, the finding lacks the owner
	return owner
}

// decode decodes the messages of a slice. It keeps no reference to the payloads, so the
// log can reuse those bytes. It caches parsed subjects in known: an owner has few
// subjects, and each parse decodes base58.
func decode(slice eventlog.Slice, known map[string]events.Subject) []message {
	messages := make([]message, len(slice.Records))
	for i, r := range slice.Records {
		m := &messages[i]
		m.record = r
		if m.subject = known[r.Subject]; m.subject.Owner == "" {
			if m.subject, m.bad = events.ParseSubject(r.Subject); m.bad == nil {
				known[r.Subject] = m.subject
			}
		}
		if m.bad == nil {
			if m.batch, m.bad = events.DecodeBatch(r.Payload); m.bad == nil {
				m.bad = m.check()
			}
		}
		m.record.Payload = nil
	}
	return messages
}

// check compares a message with its subject and the catalogue.
func (m *message) check() error {
	if err := m.subject.Admits(m.batch); err != nil {
		return err
	}
	if m.record.CommandID != "" && m.record.CommandID != m.batch[0].CommandID {
		return fmt.Errorf("message of command %s holds events of command %s", m.record.CommandID, m.batch[0].CommandID)
	}
	return nil
}

func (f *fold) message(ctx context.Context, m *message) error {
	f.last, f.stored = m.record.Seq, m.record.Time
	s := &f.report.summary
	s.Messages++
	if m.bad != nil {
		f.report.wrong(CheckDecode, m.subject.Owner, m.record.Seq, "%s", m.bad)
	}
	if m.subject.Owner == "" {
		return nil
	}
	o := f.owner(m.subject.Owner)
	if m.batch == nil {
		// The message's version is unknown. Assume the next version, so that one damaged
		// message is one finding.
		o.skip(m.subject.Family, m.record.Seq)
		return nil
	}
	c := &current{owner: o, seq: m.record.Seq}
	c.withMemory = slices.ContainsFunc(m.batch, func(e events.Event) bool { return e.Type() == events.TypeMemoryWritten })
	f.version(c, m)
	f.ids.add(idCommand, m.record.Seq, m.batch[0].CommandID)
	for i := range m.batch {
		s.Events++
		c.position, c.event = i, &m.batch[i]
		f.ids.add(idEvent, m.record.Seq, m.batch[i].ID)
		if err := f.event(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// version checks that the message has its owner's next version, and records the values
// for the owner's row.
func (f *fold) version(c *current, m *message) {
	o, got := c.owner, m.batch[0].OwnerVersion
	counted := &o.versions
	if m.subject.Family == events.FamilyChain {
		counted = &o.chainVersions
		o.chainVersion, o.chainLastSeq = max(o.chainVersion, got), m.record.Seq
	} else {
		o.messages++
		if o.named = &m.record.Seq; c.withMemory {
			o.named = nil
		}
	}
	if want := *counted + 1; got != want {
		f.wrong(c, CheckVersion, "owner version %d of the %s family where %d should be: a message is missing, too many, or out of place", got, m.subject.Family, want)
	}
	*counted = got
}
