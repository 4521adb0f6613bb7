package deployed_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestRestartsBehindTheGateway: services restart one after the other, as in an upgrade, and
// no client notices. Not parallel, because it starts many processes.
func TestRestartsBehindTheGateway(t *testing.T) {
	nginxPath(t)
	d := deploy(t)
	d.projector()
	var addrs []string
	var replicas []*process
	for range 2 {
		p, client := d.api("core-api")
		addrs, replicas = append(addrs, addrOf(client)), append(replicas, p)
		if len(replicas) == 1 {
			d.settled(client, client.SignIn(stacktest.NewWallet()))
		}
	}
	g := startGateway(t, addrs, []string{freeAddr(t)})
	core := g.client(t, coreHost)
	load, stop := context.WithCancel(t.Context())
	var answered atomic.Int64
	var group sync.WaitGroup
	for client := range 4 {
		session := core.SignIn(stacktest.NewWallet())
		group.Go(func() {
			for n := 0; load.Err() == nil; n++ {
				wrote := core.Do("POST", "/memories", map[string]any{"content": fmt.Sprintf("client %d, %d", client, n)}, session)
				if wrote.Status != 201 {
					t.Errorf("write: %d %s", wrote.Status, wrote.Body)
				} else if read := core.Do("GET", "/memories/"+wrote.Text("id"), nil, session); read.Status != 200 {
					t.Errorf("read: %d %s", read.Status, read.Body)
				}
				answered.Add(1)
				eventlog.Pause(t.Context(), 20*time.Millisecond) // the gateway limits each client
			}
		})
	}
	more := func() {
		for want := answered.Load() + 100; answered.Load() < want; {
			eventlog.Pause(t.Context(), 10*time.Millisecond)
		}
	}
	for range 2 {
		for i, replica := range replicas {
			// A server that refused connections gets none for two seconds. Only then the other may
			// stop.
			for !strings.Contains(exported(t, "http://"+addrs[i^1]+"/metrics"), `route="/memories"`) {
				eventlog.Pause(t.Context(), 50*time.Millisecond)
			}
			more()
			must(t, syscall.Kill(replica.PID(), syscall.SIGTERM))
			<-replica.Done()
			more() // through the other one
			replica.start()
			waitFor(t, "http://"+addrs[i]+"/readyz", replica.Done(), replica.log)
		}
	}
	more()
	stop()
	group.Wait()
	if t.Failed() {
		t.Logf("the gateway says:\n%s", g.log)
	}
}
