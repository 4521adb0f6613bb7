package cuts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// step is an operation that was answered, between two moments.
type step struct {
	what       string // "write", "read", "key" or "grant"
	replica    int
	began, end time.Time
	size       int // write: of the log, with this memory; read: of the log
}

// load is clients that write, read, revoke and use grants through both replicas, all the
// time. Each repeats a request until it is answered by something other than 503.
type load struct {
	t       *testing.T
	apis    []replica
	session stacktest.Header
	ext     stacktest.Header
	done    chan struct{}
	group   sync.WaitGroup
	rounds  [2][3]atomic.Int64 // of each client, by replica
	wrong   atomic.Int64

	mu    sync.Mutex
	steps []step
	acked map[string]stacktest.Answer // by content
}

func startLoad(t *testing.T, apis []replica) *load {
	t.Helper()
	wallet := stacktest.NewWallet()
	l := &load{t: t, apis: apis, done: make(chan struct{}), acked: map[string]stacktest.Answer{}}
	l.session, l.ext = apis[0].core.SignIn(wallet), apis[0].extension.SignIn(wallet)
	for at := range apis {
		for kind, client := range []func(at, n int){l.write, l.read, l.access} {
			l.group.Go(func() {
				for n := 0; l.running(); n++ {
					client(at, n)
					l.rounds[at][kind].Add(1)
				}
			})
		}
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	if l.running() {
		close(l.done)
	}
	l.group.Wait()
}

func (l *load) running() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// do repeats a request until it is answered.
func (l *load) do(what string, at int, c *stacktest.Client, method, path string, body any, headers ...stacktest.Header) (stacktest.Answer, step) {
	s := step{what: what, replica: at, began: time.Now()}
	for {
		answer, err := c.Try(method, path, body, headers...)
		s.end = time.Now()
		if err == nil && answer.Status != http.StatusServiceUnavailable {
			return answer, s
		}
		if err == nil && strings.Contains(string(answer.Body), "older than the read models") {
			l.t.Errorf("%s %s: %s", method, path, answer.Body)
		}
		if s.end.Sub(s.began) > 90*time.Second {
			l.t.Errorf("%s %s through replica %d: no answer: %v %s", method, path, at, err, answer.Body)
			return answer, s
		}
		eventlog.Pause(l.t.Context(), 20*time.Millisecond)
	}
}

func (l *load) note(s step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, s)
}

func (l *load) expect(status int, answer stacktest.Answer, what string) bool {
	if answer.Status != status && l.running() && l.wrong.Add(1) <= 20 { // the first ones tell enough
		l.t.Errorf("%s: status %d, want %d: %.300s", what, answer.Status, status, answer.Body)
	}
	return answer.Status == status
}

// write stores a memory, and reads it through the other replica.
func (l *load) write(at, n int) {
	content := fmt.Sprintf("replica %d number %d", at, n)
	answer, s := l.do("write", at, l.apis[at].core, "POST", "/memories", map[string]any{"content": content}, l.session,
		stacktest.With("Idempotency-Key", fmt.Sprintf("%x", content)))
	if !l.expect(http.StatusCreated, answer, content) {
		return
	}
	if made := idTime(l.t, answer.Text("id")); clocks && at == 1 && made.Before(s.began.Add(ahead-time.Second)) {
		l.t.Errorf("%s: written at %s by a clock that is ahead: %s", content, s.began, answer.Body)
	}
	s.size = answer.Number("leafIndex") + 1
	l.note(s)
	l.mu.Lock()
	l.acked[content] = answer
	l.mu.Unlock()
	other := 1 - at
	answer, s = l.do("read", other, l.apis[other].core, "GET", "/memories/"+answer.Text("id"), nil, l.session)
	l.expect(http.StatusOK, answer, "stale read of "+content)
	s.size = -1
	l.note(s)
}

// read asks for the size of the log.
func (l *load) read(at, _ int) {
	answer, s := l.do("read", at, l.apis[at].core, "GET", "/log", nil, l.session)
	if l.expect(http.StatusOK, answer, "GET /log") {
		s.size = answer.Number("treeSize")
		l.note(s)
	}
}

// access makes and revokes a key, or hands out a grant that is used too often.
func (l *load) access(at, n int) {
	if n%2 == 0 {
		l.key(at, 1-at, n)
	} else if at == 0 { // an owner's new grant ends the one before
		l.grant(n)
	}
}

// key makes an API key through one replica. From then on the other accepts it, until it is
// revoked.
func (l *load) key(at, other, n int) {
	made, s := l.do("key", at, l.apis[at].core, "POST", "/keys", map[string]any{"label": fmt.Sprint("key ", n), "scopes": []string{"read"}}, l.session)
	if !l.expect(http.StatusCreated, made, "make a key") {
		return
	}
	l.note(s)
	key := stacktest.Bearer(made.Text("key"))
	use := func(status int, what string) {
		answer, s := l.do("key", other, l.apis[other].core, "GET", "/log", nil, key)
		l.expect(status, answer, what)
		l.note(s)
	}
	use(http.StatusOK, "a key that was just made")
	answer, s := l.do("key", at, l.apis[at].core, "DELETE", "/keys/"+made.Text("id"), nil, l.session)
	// A repeated request may find the key revoked.
	if answer.Status != http.StatusNotFound && !l.expect(http.StatusOK, answer, "revoke a key") {
		return
	}
	l.note(s)
	use(http.StatusUnauthorized, "a key that was just revoked")
}

// grant hands out a drop for two memories, and sends four through both replicas.
func (l *load) grant(n int) {
	made, s := l.do("grant", 0, l.apis[0].extension, "POST", "/memory-drops", map[string]any{"maxWrites": 2}, l.ext)
	if !l.expect(http.StatusCreated, made, "make a drop") {
		return
	}
	l.note(s)
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			content := fmt.Sprintf("drop %d number %d", n, i)
			answer, s := l.do("grant", i%2, l.apis[i%2].extension, "POST", "/memory-drops/"+path.Base(made.Text("url")),
				map[string]any{"content": content}, stacktest.With("Idempotency-Key", fmt.Sprintf("%x", content)))
			switch answer.Status {
			case http.StatusCreated:
				taken.Add(1)
			case http.StatusNotFound, http.StatusGone:
			default:
				l.expect(http.StatusCreated, answer, content)
			}
			l.note(s)
		})
	}
	all.Wait()
	if n := taken.Load(); n != 2 && l.running() {
		l.t.Errorf("a drop for two memories took %d", n)
	}
}

// turn returns once each client of these replicas has begun and ended a round.
func (l *load) turn(replicas ...int) {
	l.t.Helper()
	for _, at := range replicas {
		for kind := range l.rounds[at] {
			want := l.rounds[at][kind].Load() + 2
			testkit.Await(l.t, fmt.Sprintf("client %d of replica %d goes on", kind, at), func() bool { return l.rounds[at][kind].Load() >= want })
		}
	}
}

// worst is the longest operation of a kind, and the one that waited longest without the time
// in which the log did not work.
type worst struct {
	took, waited time.Duration
	slowest      step
}

func (w worst) String() string {
	return fmt.Sprintf("through replica %d, from %s to %s", w.slowest.replica, w.slowest.began.Format(seconds), w.slowest.end.Format(seconds))
}

const seconds = "04:05.000"

// longest returns the worst operations of these replicas that ended after a moment.
func (l *load) longest(since time.Time, gaps []gap, replicas ...int) map[string]worst {
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := map[string]worst{}
	for _, s := range l.steps {
		if s.end.Before(since) || !slices.Contains(replicas, s.replica) {
			continue
		}
		is, took := longest[s.what], s.end.Sub(s.began)
		is.took = max(is.took, took)
		if waited := took - down(gaps, s.began, s.end); waited > is.waited {
			is.waited, is.slowest = waited, s
		}
		longest[s.what] = is
	}
	return longest
}

// check compares the acknowledged memories with the stored ones: each is there once, where
// its writer was told.
func (l *load) check() {
	l.t.Helper()
	var all []struct {
		ID, Content string
		LeafIndex   int
	}
	answer := l.apis[1].core.Persist("GET", "/memories", nil, l.session)
	if err := json.Unmarshal(answer.Body, &all); err != nil {
		l.t.Fatalf("status %d: %v", answer.Status, err)
	}
	times := map[string]int{}
	for i, m := range all {
		times[m.Content]++
		if m.LeafIndex != i {
			l.t.Fatalf("position %d holds leaf %d", i, m.LeafIndex)
		}
		if a, ok := l.acked[m.Content]; ok && (a.Text("id") != m.ID || a.Number("leafIndex") != i) {
			l.t.Errorf("acknowledged %s, found %+v", a.Body, m)
		}
	}
	for content := range l.acked {
		if times[content] != 1 {
			l.t.Errorf("%q is there %d times", content, times[content])
		}
	}
	for content, n := range times {
		if n != 1 {
			l.t.Errorf("%q is there %d times", content, n)
		}
	}
	l.t.Logf("%d acknowledged by writes, %d stored, %d operations", len(l.acked), len(all), len(l.steps))
	for _, stale := range staleReads(l.steps) {
		l.t.Error(stale)
	}
}
