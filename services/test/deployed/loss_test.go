package deployed_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// writers write memories through all APIs, each with an Idempotency-Key. They read each
// memory at once from another replica.
type writers struct {
	t       *testing.T
	apis    []*api
	session stacktest.Header // of the core API
	ext     stacktest.Header

	mu    sync.Mutex
	acked map[string]stacktest.Answer // by content
	reads atomic.Int64
}

type api struct {
	client    *stacktest.Client
	extension bool
	gone      atomic.Bool // killed: errors are expected
}

func (w *writers) header(a *api) stacktest.Header {
	if a.extension {
		return w.ext
	}
	return w.session
}

// run writes until the channel closes.
func (w *writers) run(number int, done <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		default:
		}
		content := fmt.Sprintf("writer %d number %d", number, n)
		if answer, ok := w.write(content, number); ok {
			w.mu.Lock()
			w.acked[content] = answer
			w.mu.Unlock()
			w.read(answer, number+n)
		}
	}
}

// write writes one memory. After a 503 it repeats the request with the same key at the
// same API, because a key counts for one API. It gives up if that API is killed.
func (w *writers) write(content string, number int) (stacktest.Answer, bool) {
	a := w.apis[number%len(w.apis)]
	for deadline := time.Now().Add(45 * time.Second); time.Now().Before(deadline); {
		if a.gone.Load() {
			return stacktest.Answer{}, false
		}
		body := map[string]any{"content": content, "source": "test", "metadata": map[string]any{}}
		answer, err := a.client.Try("POST", "/memories", body, w.header(a), stacktest.With("Idempotency-Key", fmt.Sprintf("%x", content)))
		switch {
		case err != nil && !a.gone.Load():
			w.t.Errorf("%s: %v", content, err)
			return stacktest.Answer{}, false
		case err == nil && answer.Status == 201:
			return answer, true
		case err == nil && (answer.Status != 503 || tooShort(answer)):
			w.t.Errorf("%s: status %d: %s", content, answer.Status, answer.Body)
			return stacktest.Answer{}, false
		}
	}
	w.t.Errorf("%s: could not be written", content)
	return stacktest.Answer{}, false
}

// tooShort reports whether an answer says that the log has lost messages. No answer may
// say that, even if the log's leader stores a message later than its replicas.
func tooShort(a stacktest.Answer) bool {
	return strings.Contains(string(a.Body), "older than the read models")
}

// read requests a memory that was just acknowledged from a surviving core replica. The
// replica may be busy, but must not answer that the memory does not exist.
func (w *writers) read(wrote stacktest.Answer, number int) {
	a := w.apis[number%len(w.apis)]
	if a.extension || a.gone.Load() {
		return
	}
	answer, err := a.client.Try("GET", "/memories/"+wrote.Text("id"), nil, w.session)
	switch {
	case err != nil && a.gone.Load(), err == nil && answer.Status == 503 && !tooShort(answer):
	case err != nil:
		w.t.Errorf("read: %v", err)
	case answer.Status != 200:
		w.t.Errorf("stale read of %s: status %d: %s", wrote.Body, answer.Status, answer.Body)
	default:
		w.reads.Add(1)
	}
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// more waits until n more writes are acknowledged.
func (w *writers) more(n int) {
	w.t.Helper()
	want := w.count() + n
	for deadline := time.Now().Add(60 * time.Second); w.count() < want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d were acknowledged", w.count(), want)
		}
	}
}

// TestLosesNothing kills a node of the log, an API and a projector during writes. Two
// projectors share the consumer: one works, one stands by. Not parallel, because it starts many
// processes.
func TestLosesNothing(t *testing.T) {
	d := deploy(t)
	projectors := []*process{d.projector(), d.projector()}
	_, first := d.api("core-api")
	doomed, second := d.api("core-api")
	_, extension := d.api("extension-api")
	wallet := stacktest.NewWallet()
	w := &writers{t: t, acked: map[string]stacktest.Answer{}, apis: []*api{
		{client: first}, {client: second}, {client: extension, extension: true},
	}}
	w.session, w.ext = first.SignIn(wallet), extension.SignIn(wallet)
	d.settled(first, w.session)

	done := make(chan struct{})
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() { w.run(i, done) })
	}
	stop := sync.OnceFunc(func() { close(done); group.Wait() })
	defer stop()
	w.more(50)
	t.Log("a node dies")
	node := d.Nodes[d.bringer()] // it also leads the projectors' consumer
	node.Kill()
	w.more(50)
	t.Log("a core API dies")
	w.apis[1].gone.Store(true)
	doomed.Kill()
	w.more(50)
	t.Log("the projectors die, the standby last")
	projectors[0].Kill()
	w.more(20)
	projectors[1].Kill()
	time.Sleep(time.Second) // some writes without a projector
	projectors[0].start()
	projectors[1].start()
	w.more(50)
	t.Log("the node is back")
	must(t, node.Start())
	w.more(50)
	stop()
	w.check(first)
}

// bringer returns the index of the node that leads the projector's consumer.
func (d *deployment) bringer() (n int) {
	d.t.Helper()
	consumer, err := d.admin().Consumer(d.t.Context(), eventlog.StreamName, "projector")
	must(d.t, err)
	if _, err := fmt.Sscanf(consumer.CachedInfo().Cluster.Leader, "nats-%d", &n); err != nil {
		d.t.Fatal(err)
	}
	return n - 1
}

// check compares the acknowledged memories with the stored ones.
func (w *writers) check(c *stacktest.Client) {
	w.t.Helper()
	var all []struct {
		ID, Content string
		LeafIndex   int
	}
	answer := c.Do("GET", "/memories", nil, w.session)
	for deadline := time.Now().Add(2 * time.Minute); answer.Status == 503 && time.Now().Before(deadline); {
		answer = c.Do("GET", "/memories", nil, w.session)
	}
	if err := json.Unmarshal(answer.Body, &all); err != nil {
		w.t.Fatalf("status %d: %v", answer.Status, err)
	}
	times := map[string]int{}
	for i, m := range all {
		times[m.Content]++
		if m.LeafIndex != i {
			w.t.Fatalf("position %d holds leaf %d", i, m.LeafIndex)
		}
		if a, ok := w.acked[m.Content]; ok && (a.Text("id") != m.ID || a.Number("leafIndex") != i) {
			w.t.Errorf("acknowledged %s, found %+v", a.Body, m)
		}
	}
	for content := range w.acked {
		if times[content] != 1 {
			w.t.Errorf("%q is there %d times", content, times[content])
		}
	}
	w.t.Logf("%d acknowledged, %d there, %d read at once from another replica", len(w.acked), len(all), w.reads.Load())
	if w.reads.Load() == 0 {
		w.t.Error("nothing was read")
	}
}
