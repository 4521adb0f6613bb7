package eventlog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// TestANodeWithoutItsJetStreamIsNoticed: the node is up, accepts connections, and is in the
// cluster, like a node whose disk is full. The other nodes continue without it.
func TestANodeWithoutItsJetStreamIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	c := newCluster(t)
	log, leader := c.log(t)
	until := func(what string, good func(eventlog.Replication) bool) {
		t.Helper()
		var r eventlog.Replication
		var err error
		for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if r, err = log.Replication(t.Context()); err == nil && good(r) {
				return
			}
		}
		t.Fatalf("%s: %+v, %v", what, r, err)
	}
	until("all", func(r eventlog.Replication) bool { return r.Err() == nil && r.Wanted == 3 && r.Current() == 3 })
	lost := (leader + 1) % len(c.nodes)
	must(t, c.nodes[lost].DisableJetStream())
	until("one is lost", func(r eventlog.Replication) bool {
		return r.Wanted == 3 && r.Current() == 2 && strings.Contains(fmt.Sprint(r.Err()), "2 of 3 replicas of the log are current: "+nodeName(lost)+": ")
	})
}
