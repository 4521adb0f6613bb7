package cuts_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
)

const (
	// bound is how much longer than the log's own election an operation may take.
	bound = 2 * time.Second
	// takeOver bounds the take-over of a projector or anchorer whose machine vanished.
	takeOver = 20 * time.Second
	// busy is allowed for a machine with other work on it. A quiet one needs some 200 ms of it.
	busy = 2 * time.Second
)

// TestCutNetworks cuts, pauses and kills the machines of a deployment under load. No
// acknowledged write is lost or doubled, no grant is overspent, no read is stale, and no
// operation takes much longer than the log needs to elect a leader. When a node returns, it
// may start a second election.
func TestCutNetworks(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	if cannot != nil {
		t.Skip(cannot)
	}
	w := newWorld(t)
	l := startLoad(t, w.apis)
	l.turn(0, 1)
	for until := time.Now().Add(time.Minute); !w.works(0); { // or every wait would count as the log's
		if time.Now().After(until) {
			t.Fatal("the watcher can't see that the log works")
		}
	}
	f := &faults{world: w, load: l, seen: &strings.Builder{}}
	f.cutNodes()
	f.loseNodes()
	f.loseWorker("projector")
	f.loseWorker("anchorer")
	f.loseDatabase()
	f.restartNodes()
	l.stop()
	l.check()
	f.verify()
	t.Logf("the longest operations, in seconds (and without the time in which the log did not work):\n%s", f.seen)
}

// faults are what happens to the world.
type faults struct {
	*world
	load *load
	seen *strings.Builder
}

// fault is begun, lasts for a while, and is ended.
type fault struct {
	name       string
	lasts      time.Duration
	begin, end func()
	limit      time.Duration // of an operation, beside the log's election
	except     []int         // replicas that can't be served meanwhile
}

// during begins and ends a fault, and waits until everything is as before.
func (f *faults) during(x fault) {
	f.t.Helper()
	f.election.take()
	began := time.Now()
	x.begin()
	eventlog.Pause(f.t.Context(), x.lasts)
	x.end()
	f.leader()
	f.load.turn(0, 1)
	gaps := f.election.take()
	replicas := []int{0, 1}
	if x.except != nil {
		replicas = []int{1 - x.except[0]}
	}
	longest := f.load.longest(began, gaps, replicas...)
	line := fmt.Sprintf("%-40s elections", x.name)
	for _, g := range gaps {
		line += fmt.Sprintf(" %.1f (from %s)", g.to.Sub(g.from).Seconds(), g.from.Format(seconds))
	}
	for _, what := range []string{"write", "read", "key", "grant"} {
		is := longest[what]
		line += fmt.Sprintf("  %s %.1f (%.1f)", what, is.took.Seconds(), is.waited.Seconds())
		if limit := x.limit*time.Duration(max(1, len(gaps))) + busy; is.waited > limit {
			f.t.Errorf("%s: a %s waited %s longer than the log, and %s are allowed: %s", x.name, what, is.waited, limit, is)
		} else if is.waited > x.limit {
			f.t.Logf("%s: a %s waited %s longer than the log: %s", x.name, what, is.waited, is)
		}
	}
	f.t.Logf("from %s to %s: %s", began.Format(seconds), time.Now().Format(seconds), line)
	fmt.Fprintln(f.seen, line)
}

func (f *faults) node(i int) *machine { return f.nodes[i] }

func (f *faults) cutNodes() {
	leader, others := f.leader()
	f.during(fault{
		name: "leader cut off from the other nodes", lasts: 10 * time.Second, limit: bound,
		begin: func() { f.node(leader).cut(f.node(others[0]), f.node(others[1])) }, end: f.node(leader).heal,
	})
	leader, others = f.leader()
	f.during(fault{
		name: "leader does not hear the others", lasts: 10 * time.Second, limit: bound,
		begin: func() { f.node(leader).deaf(f.node(others[0]), f.node(others[1])) }, end: f.node(leader).heal,
	})
	leader, others = f.leader()
	f.during(fault{
		name: "leader and a follower cut", lasts: 10 * time.Second, limit: bound,
		begin: func() { f.node(leader).cut(f.node(others[0])) }, end: f.node(leader).heal,
	})
	leader, others = f.leader()
	f.during(fault{
		name: "a follower does not hear the leader", lasts: 10 * time.Second, limit: bound,
		begin: func() { f.node(others[0]).deaf(f.node(leader)) }, end: f.node(others[0]).heal,
	})
	leader, others = f.leader()
	f.during(fault{
		name: "an API and a follower, alone", lasts: 8 * time.Second, limit: bound, except: []int{1},
		begin: func() {
			f.node(others[0]).cut(f.node(leader), f.node(others[1]))
			f.machines["api-2"].cut(f.node(leader), f.node(others[1]))
		},
		end: func() { f.node(others[0]).heal(); f.machines["api-2"].heal() },
	})
}

func (f *faults) loseNodes() {
	leader, _ := f.leader()
	f.during(fault{
		name: "leader vanishes", lasts: 10 * time.Second, limit: bound,
		begin: func() { f.node(leader).vanish(); f.Nodes[leader].Kill() },
		end: func() {
			f.node(leader).heal()
			must(f.t, f.Nodes[leader].Start())
		},
	})
	leader, _ = f.leader()
	f.during(fault{
		name: "leader paused", lasts: 8 * time.Second, limit: bound,
		begin: func() { signal(f.t, f.Nodes[leader].PID(), syscall.SIGSTOP) },
		end:   func() { signal(f.t, f.Nodes[leader].PID(), syscall.SIGCONT) },
	})
}

// loseWorker loses the machine of the projector or anchorer that works. Reads wait for the
// projector.
func (f *faults) loseWorker(service string) {
	working := f.working(service)
	f.during(fault{
		name: service + " vanishes", limit: takeOver,
		begin: func() {
			vanished := time.Now()
			f.machines[working].vanish()
			f.workers[working].Kill()
			for f.working(service) == working || f.working(service) == "" {
				if !eventlog.Pause(f.t.Context(), 100*time.Millisecond) || time.Since(vanished) > 2*takeOver {
					f.t.Fatal("nobody takes over the work of the " + service)
				}
			}
			if took := time.Since(vanished); took > takeOver {
				f.t.Errorf("%s: the standby took over after %s", service, took)
			}
		},
		end: func() {
			f.machines[working].heal()
			must(f.t, f.workers[working].Start())
		},
	})
}

func (f *faults) loseDatabase() {
	const paused, halfOpen = 5 * time.Second, 15 * time.Second
	f.during(fault{
		name: "PostgreSQL paused for 5 s", lasts: paused, limit: paused + bound,
		begin: func() { signal(f.t, f.database.PID(), syscall.SIGSTOP) },
		end:   func() { signal(f.t, f.database.PID(), syscall.SIGCONT) },
	})
	f.during(fault{
		name: "PostgreSQL half open for 15 s", lasts: halfOpen, limit: halfOpen + bound,
		begin: f.halfOpen, end: func() { run(f.t, nil, "iptables -F") },
	})
	f.during(fault{
		name: "PostgreSQL killed", limit: 2 * bound,
		begin: func() { _ = f.database.Kill() }, end: f.startDatabase,
	})
}

// restartNodes restarts one node after the other, as an operator does: a node in lame duck
// mode hands over what it leads, and sends its clients away.
func (f *faults) restartNodes() {
	for i := range f.nodes {
		f.during(fault{
			name: fmt.Sprintf("node %d restarted", i+1), lasts: 6 * time.Second, limit: time.Second,
			begin: func() { signal(f.t, f.Nodes[i].PID(), syscall.SIGUSR2) },
			end: func() {
				f.Nodes[i].Kill()
				must(f.t, f.Nodes[i].Start())
			},
		})
	}
}

// verify compares the nodes' copies of the log with each other, and the read models with
// the log.
func (f *faults) verify() {
	for _, args := range [][]string{{"verify"}, {"verify", "--replicas"}} {
		if out, err := f.Command(args, f.As("admin")).CombinedOutput(); err != nil {
			f.t.Errorf("ledger %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
}
