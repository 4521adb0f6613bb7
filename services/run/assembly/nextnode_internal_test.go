package assembly

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// TestNextNode: a client goes round its nodes, and leaves out a node that did not answer in
// the last seconds.
func TestNextNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := nextNode()
		nodes := []nats.Server{{URL: &url.URL{Host: "a"}}, {URL: &url.URL{Host: "b"}}, {URL: &url.URL{Host: "c"}}}
		goes := func(want string) {
			t.Helper()
			node, wait := next(nodes, nats.ServerInfo{})
			time.Sleep(wait)
			if node.URL.Host != want {
				t.Errorf("goes to %s, want %s", node.URL.Host, want)
			}
			time.Sleep(time.Second)
		}
		for _, want := range []string{"c", "b", "a", "c", "b", "a"} {
			goes(want)
		}
		nodes[2].Reconnects = 1                        // the last attempt failed
		for _, want := range []string{"b", "a", "c"} { // its rest is over
			goes(want)
		}
		for _, want := range []string{"b", "a", "b", "a", "c"} {
			goes(want)
		}
		alone := nodes[:1]
		if _, wait := next(alone, nats.ServerInfo{}); wait != 0 {
			t.Errorf("waits %s", wait)
		}
		if _, wait := next(alone, nats.ServerInfo{}); wait == 0 {
			t.Error("tries its only node without a pause")
		}
	})
}
