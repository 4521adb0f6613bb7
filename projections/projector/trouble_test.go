package projector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/schema"
)

// TestAMessageThatCantBeAppliedStopsEverythingLoudly: the messages before it are applied,
// no message after it is, and the error names it.
func TestAMessageThatCantBeAppliedStopsEverythingLoudly(t *testing.T) {
	t.Parallel()
	leafFarAhead := func(a *fixture.Actor) []byte {
		m := a.Memory(`{}`)
		m.LeafIndex += 10
		return a.Say(m).Payload(t)
	}
	strange := fixture.NewActor()
	for name, bad := range map[string]struct {
		subject string
		payload func(*fixture.Actor) []byte
		reason  string
	}{
		"bytes that are no event":          {"", func(*fixture.Actor) []byte { return []byte("\x00{") }, "malformed"},
		"a subject that is none of ours":   {"ledger.what", func(a *fixture.Actor) []byte { return a.Write(`{}`).Payload(t) }, "not a subject"},
		"another owner than the subject's": {"", func(*fixture.Actor) []byte { return strange.Write(`{}`).Payload(t) }, "under the subject"},
		"a leaf that does not continue":    {"", leafFarAhead, "does not continue"},
		"a type under another's subject": {"", func(a *fixture.Actor) []byte {
			return a.Say(&events.ApiKeyCreated{KeyID: fixture.UUID(), KeyHash: fixture.Hash("k"), Prefix: "svc_1234"}).Payload(t)
		}, "under a subject of kind memory"},
		"a type of the future": {"", func(a *fixture.Actor) []byte {
			return []byte(strings.ReplaceAll(string(a.Write(`{}`).Payload(t)), "MemoryWritten", "MemoryDreamed"))
		}, "unknown event type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool, log := empty(t)
			history := fixture.NewHistory(21, 5)
			log.Publish(t, history.Messages(50)...)
			a := history.Actors()[0]
			subject := bad.subject
			if subject == "" {
				subject = events.Subject{Family: events.FamilyLedger, Owner: a.Owner, Kind: events.KindMemory}.String()
			}
			at := log.PublishRaw(t, subject, bad.payload(a))
			log.Publish(t, fixture.NewHistory(22, 5).Messages(50)...)
			r, _ := project(t, pool, log)
			fixture.Eventually(t, 2*time.Minute, func() error {
				is, err := projector.ReadCheckpoint(t.Context(), pool)
				if err == nil && is.Seq != at-1 {
					err = fmt.Errorf("at %d, want %d", is.Seq, at-1)
				}
				return err
			})
			fixture.Eventually(t, 2*time.Minute, func() error {
				err := r.Ready()
				if err == nil || !strings.Contains(err.Error(), bad.reason) || !strings.Contains(err.Error(), fmt.Sprint(at)) {
					return fmt.Errorf("ready says %w", err)
				}
				return nil
			})
			if is, err := projector.ReadCheckpoint(t.Context(), pool); err != nil || is.Seq != at-1 {
				t.Errorf("position %d, %v", is.Seq, err)
			}
		})
	}
}

// troubled is a projection that writes nothing and fails as the test says.
type troubled struct {
	apply func(ctx context.Context, w *projector.Writer, s projector.Slice) error
}

func (troubled) Name() string     { return "troubled" }
func (troubled) Tables() []string { return nil }
func (p troubled) Apply(ctx context.Context, w *projector.Writer, s projector.Slice) error {
	return p.apply(ctx, w, s)
}

func with(p troubled) func(*projector.Config) {
	return func(c *projector.Config) { c.Projections = append(readmodel.All(), p) }
}

// TestTroubleThatPassesIsWaitedOut: the trouble is an error, a panic, a statement that
// the database refuses, or a connection that is cut within the transaction.
func TestTroubleThatPassesIsWaitedOut(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	var left atomic.Int64
	left.Store(8)
	r, _ := project(t, pool, log, with(troubled{func(_ context.Context, w *projector.Writer, _ projector.Slice) error {
		switch left.Add(-1) {
		case 7:
			return errors.New("a bad day")
		case 6:
			panic("a very bad day")
		case 5:
			w.Exec(`SELECT 1/0`)
		case 4:
			w.Exec(`SELECT pg_terminate_backend(pg_backend_pid())`)
		case 3:
			w.Exec(`no such statement`)
		case 2:
			w.Copy("no such table", []string{"a"}, pgx.CopyFromRows([][]any{{1}}))
		}
		return nil
	}}), func(c *projector.Config) {
		c.MinBackoff, c.MaxBackoff = time.Millisecond, 2*time.Millisecond
	})
	history := fixture.NewHistory(23, 3)
	log.Publish(t, history.Messages(9)...)
	fixture.Eventually(t, 2*time.Minute, func() error {
		if n := left.Load(); n > 1 {
			return fmt.Errorf("%d to go, %v", n, r.Ready())
		}
		return nil
	})
	log.Publish(t, history.Messages(100)...)
	caughtUp(t, pool, log)
	ready(t, r)
	sameFromTheStart(t, url, pool, log)
}

func TestAProjectorThatIsToldToEndDrains(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	r, stop := project(t, pool, log, with(troubled{func(context.Context, *projector.Writer, projector.Slice) error {
		entered <- struct{}{}
		<-leave
		return nil
	}}))
	log.Publish(t, fixture.NewHistory(24, 3).Messages(5)...)
	<-entered
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	select {
	case err := <-ended:
		t.Fatalf("ended with a slice in flight: %v", err)
	case leave <- struct{}{}:
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	at, err := projector.ReadCheckpoint(t.Context(), pool)
	if err != nil || at.Seq == 0 || at.Seq != r.Status().Position {
		t.Errorf("drained to %d, status %+v, %v", at.Seq, r.Status(), err)
	}
}

func TestASliceThatHangsDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	entered := make(chan struct{}, 1)
	_, stop := project(t, pool, log, with(troubled{func(ctx context.Context, w *projector.Writer, _ projector.Slice) error {
		w.Exec(`SELECT pg_sleep(3600)`)
		entered <- struct{}{}
		return nil
	}}), func(c *projector.Config) { c.DrainTimeout = 100 * time.Millisecond })
	log.Publish(t, fixture.NewHistory(25, 3).Messages(5)...)
	<-entered
	start := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 30*time.Second { // the slice would take an hour
		t.Errorf("it took %s to end", took)
	}
	if at, err := projector.ReadCheckpoint(t.Context(), pool); err != nil || at.Seq != 0 {
		t.Errorf("position %d, %v", at.Seq, err)
	}
}

// TestAnIntruderIsFencedOff: another process moves the checkpoint of a projector that
// holds the lock. The projector notices, even when it has nothing to do, and continues
// from the new checkpoint.
func TestAnIntruderIsFencedOff(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	said := &lines{wanted: `level=WARN msg="projector starts again" because=`, found: make(chan struct{}, 1)}
	r, _ := project(t, pool, log, func(c *projector.Config) { c.Logger = slog.New(slog.NewTextHandler(said, nil)) })
	history := fixture.NewHistory(27, 5)
	log.Publish(t, history.Messages(50)...)
	caughtUp(t, pool, log)
	inState(t, r, projector.Live)
	messages := history.Messages(20)
	// The intruder applies the next messages, which are only published to the log
	// afterwards.
	fixture.Apply(t, pool, fixture.Slice(51, messages...), readmodel.All()...)
	sql(t, pool, `SELECT advance_checkpoint((SELECT generation FROM checkpoint), 50, 70, NULL)`)
	log.Publish(t, messages...)
	log.Publish(t, history.Messages(50)...)
	caughtUp(t, pool, log)
	ready(t, r)
	select {
	case <-said.found:
	case <-time.After(2 * time.Minute):
		t.Error("it does not say who was there")
	}
	sameFromTheStart(t, url, pool, log)
}

// lines reports when a log line contains the wanted words.
type lines struct {
	wanted string
	found  chan struct{}
}

func (l *lines) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.wanted) {
		select {
		case l.found <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// TestAProjectorEndsWhereANewerOneMigrated: an old projector would leave out the new
// data.
func TestAProjectorEndsWhereANewerOneMigrated(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	r := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, Logger: fixture.Quiet()})
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	ready(t, r)
	sql(t, pool, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`)
	if err := <-ended; !errors.Is(err, schema.ErrNewer) {
		t.Errorf("it ended with %v", err)
	}
	if err := r.Ready(); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("ready says %v", err)
	}
	// A projector that starts only now applies nothing.
	log.Publish(t, fixture.NewHistory(39, 3).Messages(5)...)
	if err := r.Run(t.Context()); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("started again, it ended with %v", err)
	}
	if at, err := projector.ReadCheckpoint(t.Context(), pool); err != nil || at.Seq != 0 {
		t.Errorf("it applied messages up to %d, %v", at.Seq, err)
	}
}

// TestAMissingCheckpointIsRefused: if a projector took a missing row for the beginning of
// the log, it would apply everything a second time.
func TestAMissingCheckpointIsRefused(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	log.Publish(t, fixture.NewHistory(40, 3).Messages(5)...)
	sql(t, pool, `TRUNCATE checkpoint`)
	r, _ := project(t, pool, log)
	refuses(t, r, pgx.ErrNoRows)
	if rows := fixture.Dump(t, pool, readmodel.All()...); len(rows) != 0 {
		t.Errorf("it made %d rows", len(rows))
	}
}

// TestTheLagIsSaid: while a projector can't write its rows, its status, its readiness and its
// metrics report the lag, and afterwards none.
func TestTheLagIsSaid(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	history := fixture.NewHistory(33, 3)
	registry := prometheus.NewPedanticRegistry()
	r, _ := project(t, pool, log, func(c *projector.Config) { c.ReadyLag, c.Registerer = time.Nanosecond, registry })
	log.Publish(t, history.Messages(5)...)
	caughtUp(t, pool, log)
	held, err := pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	must(t, errorOf(held.Exec(t.Context(), `LOCK TABLE owners IN EXCLUSIVE MODE`)))
	log.Publish(t, history.Messages(3)...)
	fixture.Eventually(t, 2*time.Minute, func() error {
		if s := r.Status(); s.Head != 8 || s.Position != 5 || s.Lag <= 0 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	if err := r.Ready(); !errors.Is(err, projector.ErrNotReady) || !strings.Contains(err.Error(), "at 5 of 8") {
		t.Errorf("ready says %v", err)
	}
	if seconds := gaugeOf(t, registry, "ledger_projector_lag_seconds"); seconds <= 0 {
		t.Errorf("the metrics say %v s", seconds)
	}
	if messages := gaugeOf(t, registry, "ledger_projector_lag_messages"); messages != 3 {
		t.Errorf("the metrics say %v messages", messages)
	}
	must(t, held.Commit(t.Context()))
	fixture.Eventually(t, 2*time.Minute, func() error {
		if s := r.Status(); s.Lag != 0 || s.Position != 8 {
			return fmt.Errorf("status %+v", s)
		}
		return r.Ready()
	})
}

func gaugeOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
