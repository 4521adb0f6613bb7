package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/schema"
)

func run(t testing.TB, text string) events.Partitions {
	t.Helper()
	r, err := events.ParsePartitions(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// of restricts a projector to some partitions.
func of(t testing.TB, text string) func(*projector.Config) {
	return func(c *projector.Config) { c.Partitions = run(t, text) }
}

// at waits until check accepts the checkpoint, and returns the checkpoint.
func at(t testing.TB, pool *pgxpool.Pool, check func(projector.Vector) bool) projector.Vector {
	t.Helper()
	var is projector.Checkpoint
	fixture.Eventually(t, 2*time.Minute, func() (err error) {
		if is, err = projector.ReadCheckpoint(context.Background(), pool); err == nil && !check(is.Vector) {
			err = fmt.Errorf("the checkpoint is at %s, in %d rows", is, len(is.Vector))
		}
		return err
	})
	return is.Vector
}

// near waits until no partition is far behind a sequence, or ctx ends.
func near(ctx context.Context, pool *pgxpool.Pool, seq uint64) {
	const far = 2000
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if is, err := projector.ReadCheckpoint(ctx, pool); err == nil && is.Lowest()+far > seq {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// reached checks that a run of partitions is at a sequence, in a separate row.
func reached(run events.Partitions, seq uint64) func(projector.Vector) bool {
	return func(v projector.Vector) bool {
		return slices.ContainsFunc(v, func(m projector.Mark) bool { return m.Partitions == run && m.Seq == seq })
	}
}

func head(t testing.TB, log projector.Log) uint64 {
	t.Helper()
	seq, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// spread returns a history whose owners are in all quarters of the partitions.
func spread(t testing.TB, seed uint64) *fixture.History {
	t.Helper()
	for ; ; seed += 1000 {
		h := fixture.NewHistory(seed, 24)
		var in [4]int
		for _, a := range h.Actors() {
			in[events.PartitionOf(a.Owner)/64]++
		}
		if slices.Min(in[:]) > 2 {
			return h
		}
	}
}

// without returns the messages whose owners are not in a run.
func without(run events.Partitions, messages []fixture.Message) []fixture.Message {
	return slices.DeleteFunc(messages, func(m fixture.Message) bool { return run.Has(events.PartitionOf(m.Events[0].Owner)) })
}

// TestTwoMakeWhatOneMakes: two projectors each work on one half at a different pace.
// Together they make the same rows as one projector.
func TestTwoMakeWhatOneMakes(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	history := spread(t, 41)
	log.Publish(t, history.Messages(700)...)
	lower, stopLower := project(t, pool, log, of(t, "00-7f"), func(c *projector.Config) { c.SliceRecords = 30 })
	registry := prometheus.NewPedanticRegistry()
	upper, _ := project(t, pool, log, of(t, "80-ff"), func(c *projector.Config) { c.SliceRecords, c.Registerer = 200, registry })
	for range 20 {
		log.Publish(t, history.Messages(40)...)
		caughtUp(t, pool, log)
	}
	ready(t, lower)
	ready(t, upper)
	last := head(t, log)
	if v := at(t, pool, func(v projector.Vector) bool { return v.Lowest() == last }); len(v) != 2 {
		t.Errorf("two projectors have %d rows: %s", len(v), v)
	}
	mine := len(without(run(t, "00-7f"), published(t, log)))
	values := fixture.Metrics(t, registry)
	for name, want := range map[string]float64{
		"ledger_projector_partitions": 128, "ledger_projector_active": 1, "ledger_projector_position": float64(last),
		"ledger_projector_messages_total": float64(mine), "ledger_projector_failures_total": 0,
	} {
		if got, there := values[name]; !there || got != want {
			t.Errorf("%s is %v, %v, want %v", name, got, there, want)
		}
	}
	if err := stopLower(); err != nil {
		t.Error(err)
	}
	sameFromTheStart(t, url, pool, log)
}

// published returns every message of the log.
func published(t testing.TB, log *fixture.Log) (all []fixture.Message) {
	t.Helper()
	err := direct(log).Read(t.Context(), eventlog.ReadConfig{To: head(t, log)}, func(s eventlog.Slice) error {
		for _, r := range s.Records {
			batch, err := events.DecodeBatch(r.Payload)
			if err != nil {
				return err
			}
			all = append(all, fixture.Message{Events: batch})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func direct(log *fixture.Log) eventlog.Direct { return log.Log.(*eventlog.JetStream).Direct() }

// TestOverlappingOnesTakeOver: while owners write, projectors with overlapping partitions
// are stopped, or cut off from the database, one after the other. No message is lost, and
// none is applied twice.
func TestOverlappingOnesTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	url, pool, log := empty(t)
	runs := []string{"00-7f", "80-ff", "00-ff", "00-7f", "80-ff"} // whichever works, another can take the rest
	quick := func(c *projector.Config) {
		c.MinBackoff, c.MaxBackoff, c.SliceRecords = 5*time.Millisecond, 20*time.Millisecond, 200
	}
	stop := make([]func() error, len(runs))
	for i, text := range runs {
		_, stop[i] = project(t, pool, log, quick, of(t, text))
	}
	// Write in good order, because the audit checks that each owner's messages keep every
	// rule.
	ctx, enough := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for range 6 {
		a := fixture.NewActor()
		writers.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				_, seq := a.AppendMemory(t, log, `{}`)
				if n%100 == 0 { // not faster than the projectors, which share the processors
					near(ctx, pool, seq)
				}
			}
		})
	}
	defer writers.Wait()
	defer enough()
	chance := rand.New(rand.NewPCG(42, 42))
	for round := range 12 {
		before := head(t, log)
		if round%2 == 0 {
			i := chance.IntN(len(runs))
			if err := stop[i](); err != nil {
				t.Error(err)
			}
			_, stop[i] = project(t, pool, log, quick, of(t, runs[i]))
		} else if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = 'memory-ledger projector' AND datname = current_database() AND random() < 0.5`); err != nil {
			t.Fatal(err)
		}
		// Every partition is worked on again: the standbys take over.
		at(t, pool, func(v projector.Vector) bool { return v.Lowest() > before })
	}
	for i, text := range runs {
		if text != "00-ff" {
			if err := stop[i](); err != nil {
				t.Error(err)
			}
		}
	}
	at(t, pool, func(v projector.Vector) bool { return len(v) == 1 })
	enough()
	writers.Wait()
	caughtUp(t, pool, log)
	_, err := audit.Run(t.Context(), audit.Config{Log: direct(log), Pool: pool, Report: func(f audit.Finding) { t.Errorf("audit: %v", f) }})
	if err != nil {
		t.Error(err)
	}
	for _, end := range stop {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d messages", head(t, log))
	sameFromTheStart(t, url, pool, log)
}

// TestDividedAnewAtEveryStart: the partitions are divided into halves, quarters, a run
// across them, and a single run. Each time the rows are at different sequences, and some
// projectors are stopped on the way.
func TestDividedAnewAtEveryStart(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	history := spread(t, 43)
	short := func(c *projector.Config) { c.SliceRecords = 7 }
	// ahead lets a single projector reach the end of the log, and stops it.
	ahead := func(text string) {
		t.Helper()
		log.Publish(t, history.Messages(60)...)
		_, stop := project(t, pool, log, short, of(t, text))
		at(t, pool, reached(run(t, text), head(t, log)))
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	ahead("00-7f")
	ahead("80-ff")
	ahead("00-3f")
	ahead("c0-ff")
	ahead("20-5f")
	ahead("5f-6f") // begins with the last partition of the run before
	before := at(t, pool, func(projector.Vector) bool { return true })
	if len(before.Steps()) < 4 {
		t.Fatalf("they are to be at different sequences: %s", before)
	}
	// A projector of all partitions is stopped before it reaches the highest sequence.
	applied := make(chan uint64, 10_000)
	_, stop := project(t, pool, log, short, func(c *projector.Config) { c.Applied = func(position uint64) { applied <- position } })
	for range 3 {
		<-applied
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	log.Publish(t, history.Messages(60)...)
	var projectors []*projector.Runner
	var stops []func() error
	for _, text := range []string{"00-3f", "40-7f", "80-bf", "c0-ff"} {
		r, stop := project(t, pool, log, short, of(t, text))
		projectors, stops = append(projectors, r), append(stops, stop)
	}
	caughtUp(t, pool, log)
	if v := at(t, pool, func(v projector.Vector) bool { return len(v) == 4 }); v.Lowest() != head(t, log) {
		t.Errorf("the quarters are at %s", v)
	}
	for i, stop := range stops {
		ready(t, projectors[i])
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	project(t, pool, log)
	at(t, pool, reached(events.AllPartitions, head(t, log)))
	log.Publish(t, history.Messages(60)...)
	at(t, pool, reached(events.AllPartitions, head(t, log)))
	sameFromTheStart(t, url, pool, log)
}

// TestManyCutAtOnce: projectors that start together cut the same rows, and none fails.
func TestManyCutAtOnce(t *testing.T) {
	t.Parallel()
	database, _ := fixture.Database(t)
	log := fixture.NewLog(t)
	log.Publish(t, spread(t, 44).Messages(50)...)
	for round := range 5 {
		pool := fixture.Pool(t, database, fmt.Sprintf("round_%d", round))
		registry := prometheus.NewPedanticRegistry()
		var stops []func() error
		for first := 0; first < events.PartitionCount; first += 32 {
			part := events.Partitions{First: first, End: first + 32}
			_, stop := project(t, pool, log, func(c *projector.Config) {
				c.Partitions = part
				c.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"run": part.String()}, registry)
			})
			stops = append(stops, stop)
		}
		caughtUp(t, pool, log)
		if v := at(t, pool, func(v projector.Vector) bool { return len(v) == 8 }); v.Lowest() != 50 {
			t.Errorf("at %s", v)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if n := m.GetCounter().GetValue(); f.GetName() == "ledger_projector_failures_total" && n != 0 {
					t.Errorf("%s failed %v times", m.GetLabel(), n)
				}
			}
		}
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestABuildThatKnowsNoPartitionsIsKeptOut: an old build, which takes the one lock of all
// partitions exclusively, and new projectors keep each other out.
func TestABuildThatKnowsNoPartitionsIsKeptOut(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	old, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Release()
	lock := func(sql string) (mine bool) {
		t.Helper()
		if err := old.QueryRow(t.Context(), sql, schema.LockKey("projector", schema.Live)).Scan(&mine); err != nil {
			t.Fatal(err)
		}
		return mine
	}
	if !lock(`SELECT pg_try_advisory_lock($1)`) {
		t.Fatal("who has it?")
	}
	lower, stopLower := project(t, pool, log, of(t, "00-7f"))
	upper, stopUpper := project(t, pool, log, of(t, "80-ff"))
	inState(t, lower, projector.Standby)
	inState(t, upper, projector.Standby)
	if !lock(`SELECT pg_advisory_unlock($1)`) {
		t.Fatal("it was not held")
	}
	inState(t, lower, projector.Live)
	inState(t, upper, projector.Live)
	if lock(`SELECT pg_try_advisory_lock($1)`) {
		t.Error("two new ones work, and the old one as well")
	}
	if err := errors.Join(stopLower(), stopUpper()); err != nil {
		t.Error(err)
	}
	fixture.Eventually(t, 2*time.Minute, func() error {
		if !lock(`SELECT pg_try_advisory_lock($1)`) {
			return errors.New("it can't go back to work")
		}
		return nil
	})
}

// TestAStandbyHoldsNothing: a projector that does not get all of its partitions keeps
// none, so that others can take the free partitions.
func TestAStandbyHoldsNothing(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	middle, _ := project(t, pool, log, of(t, "70-8f"))
	inState(t, middle, projector.Live)
	all, _ := project(t, pool, log)
	inState(t, all, projector.Standby)
	lower, _ := project(t, pool, log, of(t, "00-6f"))
	upper, _ := project(t, pool, log, of(t, "90-ff"))
	inState(t, lower, projector.Live)
	inState(t, upper, projector.Live)
	log.Publish(t, spread(t, 45).Messages(20)...)
	caughtUp(t, pool, log)
	if s := all.Status(); s.State != projector.Standby || all.Ready() != nil {
		t.Errorf("the one of all: %+v, %v", s, all.Ready())
	}
}

// TestAMessageThatCantBeReadStopsItsPartitionsAlone: projectors of other partitions do
// not decode the message.
func TestAMessageThatCantBeReadStopsItsPartitionsAlone(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	history := spread(t, 46)
	log.Publish(t, history.Messages(30)...)
	i := slices.IndexFunc(history.Actors(), func(a *fixture.Actor) bool { return events.PartitionOf(a.Owner) >= 0x80 })
	bad := log.PublishRaw(t, events.Subject{Family: events.FamilyLedger, Owner: history.Actors()[i].Owner, Kind: events.KindMemory}.String(), []byte("\x00{"))
	log.Publish(t, without(run(t, "80-ff"), history.Messages(200))...)
	lower, _ := project(t, pool, log, of(t, "00-7f"))
	upper, _ := project(t, pool, log, of(t, "80-ff"))
	at(t, pool, func(v projector.Vector) bool { return v.At(0) == head(t, log) && v.At(0xff) == bad-1 })
	ready(t, lower)
	fixture.Eventually(t, 2*time.Minute, func() error {
		if err := upper.Ready(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("sequence %d", bad)) {
			return fmt.Errorf("the upper half says %w", err)
		}
		return nil
	})
}

// TestASubjectThatNamesNoPartitionStopsAll: the partition of such a message is unknown,
// so no projector can leave the message to the others.
func TestASubjectThatNamesNoPartitionStopsAll(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	history := spread(t, 50)
	log.Publish(t, history.Messages(10)...)
	bad := log.PublishRaw(t, "ledger.what", history.Messages(1)[0].Payload(t))
	log.Publish(t, history.Messages(10)...)
	for _, half := range []string{"00-7f", "80-ff"} {
		r, _ := project(t, pool, log, of(t, half))
		fixture.Eventually(t, 2*time.Minute, func() error {
			if err := r.Ready(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("sequence %d", bad)) {
				return fmt.Errorf("ready says %w", err)
			}
			return nil
		})
	}
	at(t, pool, func(v projector.Vector) bool { return v.Lowest() == bad-1 && v.Highest() == bad-1 })
}

// timeless is a log that delivers messages without their store time, as
// eventlog.RecentAppends does.
type timeless struct{ *fixture.Log }

func (l timeless) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	return l.Log.Follow(ctx, cfg, func(s eventlog.Slice) error {
		for i := range s.Records {
			s.Records[i].Time = time.Time{}
		}
		return yield(s)
	})
}

// TestEachRowHasItsProof: if rows are at different sequences, the projector compares each
// row with the log's message at its sequence.
func TestEachRowHasItsProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   string
		want     error
		timeless bool
	}{
		"none":                      {`SELECT 1`, nil, false},
		"none, without times":       {`SELECT 1`, nil, true},
		"the lower":                 {`UPDATE checkpoint SET stored_at = stored_at + interval '1 millisecond' WHERE seq = (SELECT min(seq) FROM checkpoint)`, projector.ErrOtherLog, false},
		"the lower, without times":  {`UPDATE checkpoint SET stored_at = stored_at + interval '1 millisecond' WHERE seq = (SELECT min(seq) FROM checkpoint)`, projector.ErrOtherLog, true},
		"the higher":                {`UPDATE checkpoint SET stored_at = stored_at + interval '1 millisecond' WHERE seq = (SELECT max(seq) FROM checkpoint)`, projector.ErrOtherLog, false},
		"the higher, without times": {`UPDATE checkpoint SET stored_at = stored_at + interval '1 millisecond' WHERE seq = (SELECT max(seq) FROM checkpoint)`, projector.ErrOtherLog, true},
		"the higher is unknown":     {`UPDATE checkpoint SET stored_at = NULL WHERE seq = (SELECT max(seq) FROM checkpoint)`, nil, false},
		"the higher is ahead":       {`UPDATE checkpoint SET seq = seq + 1000 WHERE seq = (SELECT max(seq) FROM checkpoint)`, projector.ErrAheadOfLog, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, pool, log := empty(t)
			history := spread(t, 47)
			for _, half := range []string{"00-7f", "80-ff"} {
				log.Publish(t, history.Messages(30)...)
				_, stop := project(t, pool, log, of(t, half))
				at(t, pool, reached(run(t, half), head(t, log)))
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			log.Publish(t, history.Messages(30)...)
			if _, err := pool.Exec(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			before := at(t, pool, func(projector.Vector) bool { return true })
			var told projector.Log = log
			if c.timeless {
				told = timeless{log}
			}
			r, _ := project(t, pool, told)
			if c.want == nil {
				caughtUp(t, pool, log)
			} else {
				refuses(t, r, c.want)
			}
			if is := at(t, pool, func(projector.Vector) bool { return true }); errors.Is(c.want, projector.ErrAheadOfLog) && is.Lowest() != before.Lowest() {
				t.Errorf("it went on from %s to %s first", before, is)
			}
		})
	}
}

// TestAnIdleOneKeepsThePace: beside a busy projector, an idle one only moves its row, and
// no more often than a busy projector commits.
func TestAnIdleOneKeepsThePace(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	history := spread(t, 48)
	project(t, pool, log, of(t, "00-7f"))
	var commits int
	idle, stop := project(t, pool, log, of(t, "80-ff"), func(c *projector.Config) { c.Applied = func(uint64) { commits++ } })
	inState(t, idle, projector.Live)
	start := time.Now()
	for range 20 {
		log.Publish(t, without(run(t, "80-ff"), history.Messages(100))...)
	}
	caughtUp(t, pool, log)
	took := time.Since(start)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if most := int(took/projector.DefaultPace) + 2; commits == 0 || commits > most {
		t.Errorf("%d commits in %s, at most %d are right", commits, took, most)
	}
	t.Logf("%d commits for %d messages of others in %s", commits, head(t, log), took)
}

// TestTwoProjectTheTail: a slice may end with a message of the other half that arrived
// without a time. Its checkpoint must still identify the log.
func TestTwoProjectTheTail(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	history := spread(t, 49)
	registry := prometheus.NewPedanticRegistry()
	_, stopLower := project(t, pool, timeless{log}, of(t, "00-7f"), func(c *projector.Config) { c.Registerer = registry })
	_, stopUpper := project(t, pool, timeless{log}, of(t, "80-ff"))
	for range 5 {
		log.Publish(t, history.Messages(50)...)
		caughtUp(t, pool, log)
	}
	for _, m := range at(t, pool, func(v projector.Vector) bool { return len(v) == 2 }) {
		if m.Stored.IsZero() {
			t.Errorf("when the message at %d was stored is not known", m.Seq)
		}
	}
	if err := errors.Join(stopLower(), stopUpper()); err != nil {
		t.Error(err)
	}
	if n := fixture.Metrics(t, registry)["ledger_projector_failures_total"]; n != 0 {
		t.Errorf("it got there, and failed %v times on the way", n)
	}
	r, _ := project(t, pool, log)
	ready(t, r)
	sameFromTheStart(t, url, pool, log)
}

func TestPartitionsThatAreNone(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	for _, bad := range []events.Partitions{{First: -1, End: 4}, {First: 4, End: 4}, {First: 5, End: 4}, {First: 0, End: 257}} {
		if _, err := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: fixture.NewLog(t), Partitions: bad}); err == nil {
			t.Errorf("%v is good", bad)
		}
	}
}
