package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

type eventView struct {
	ID, Type, Subject string
	Data              map[string]any
}

type eventsPage struct {
	Events []eventView
	Cursor string
}

// pagesOf reads all pages of an owner's history.
func pagesOf(t *testing.T, c *stacktest.Client, session stacktest.Header, limit int) (all []eventView) {
	t.Helper()
	for cursor := "0"; ; {
		page := decode[eventsPage](t, c.Expect(200, "GET", fmt.Sprintf("/events?limit=%d&after=%s", limit, cursor), nil, session).Body)
		if len(page.Events) == 0 {
			if page.Cursor != cursor {
				t.Errorf("the end has cursor %s, was %s", page.Cursor, cursor)
			}
			return all
		}
		all, cursor = append(all, page.Events...), page.Cursor
	}
}

func typesOf(all []eventView) (types []string) {
	for _, e := range all {
		types = append(types, e.Type)
	}
	return types
}

func TestEventPages(t *testing.T) {
	s := shared(t)
	wallet, other := stacktest.NewWallet(), stacktest.NewWallet()
	session, extension := s.Core[0].SignIn(wallet), s.Extension[0].SignIn(wallet)
	stranger := s.Core[1].SignIn(other)
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "hidden words"}, session, stacktest.With("Idempotency-Key", "k"))
	s.Core[1].Expect(201, "POST", "/memories", map[string]any{"content": "hidden words"}, stranger)
	s.Core[0].Expect(201, "POST", "/memories/batch", batchOf("one", "two"), session)
	made := s.Core[1].Expect(201, "POST", "/keys", map[string]any{"label": "laptop"}, session)
	key := stacktest.Bearer(made.Text("key"))
	drop := s.Extension[0].Expect(201, "POST", "/memory-drops", nil, extension)
	s.Extension[0].Expect(201, "POST", "/memory-drops/"+tokenOf(drop), map[string]any{"content": "left"})
	if vary := s.Core[0].Expect(200, "GET", "/events", nil, session).Header.Get("Vary"); !strings.Contains(vary, "Accept") {
		t.Errorf("a page varies by %q, but a stream has the same address", vary)
	}
	want := []string{
		"OwnerRegistered", "SessionIssued", "SessionIssued", "MemoryWritten", "MemoryWritten", "MemoryWritten",
		"ApiKeyCreated", "GrantMinted", "GrantConsumed", "MemoryWritten",
	}
	for _, limit := range []int{1, 3, 1000} {
		all := pagesOf(t, s.Core[limit%2], session, limit)
		if got := typesOf(all); !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
		for _, e := range all {
			if e.Subject != wallet.PublicKey {
				t.Errorf("%+v is another owner's", e)
			}
		}
	}
	whole := s.Core[1].Expect(200, "GET", "/events", nil, key)
	for _, secret := range []string{"sealed", "tokenHash", "keyHash", "idempotencyKeyHash", "hidden", "laptop-secret"} {
		if strings.Contains(string(whole.Body), secret) {
			t.Errorf("%s is shown: %s", secret, whole.Body)
		}
	}
	if got := typesOf(pagesOf(t, s.Core[0], stranger, 100)); !slices.Equal(got, []string{"OwnerRegistered", "SessionIssued", "MemoryWritten"}) {
		t.Errorf("the other owner's: %v", got)
	}
	s.Core[0].Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, session)
	s.Core[1].Expect(401, "GET", "/events", nil, key)
	for _, query := range []string{"?after=-1", "?after=01", "?after=x", "?after=9999999", "?after=9223372036854775807", "?limit=0", "?limit=1001", "?after=1&after=2"} {
		s.Core[0].Expect(400, "GET", "/events"+query, nil, session)
	}
	future := s.Core[0].Expect(400, "GET", "/events", nil, session, stacktest.With("Accept", "text/event-stream"), stacktest.With("Last-Event-ID", "9999999"))
	if text := future.Text("error"); !strings.Contains(text, "cursor") {
		t.Errorf("a cursor of the future: %q", text)
	}
	few, _ := openStream(t, s.Core[0], "?after=0&limit=1", session)
	for seen := 0; seen < len(want); {
		page, err := few.next()
		if err != nil || len(page.Events) > 2 { // the events of one command
			t.Fatalf("a stream with limit 1 sends %d events, %v", len(page.Events), err)
		}
		seen += len(page.Events)
	}
	bad := s.Core[0].Expect(400, "GET", "/events", nil, session, stacktest.With("Accept", "text/event-stream"), stacktest.With("Last-Event-ID", "x"))
	if text := bad.Text("error"); !strings.HasPrefix(text, "Last-Event-ID ") {
		t.Errorf("a bad Last-Event-ID: %q", text)
	}
}

// stream is an open event stream.
type stream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
	id    string // the last one seen
}

// openStream opens an event stream. It bypasses the client that checks answers against
// the document, because that client would read the stream to its end.
func openStream(t *testing.T, c *stacktest.Client, query string, headers ...stacktest.Header) (*stream, int) {
	t.Helper()
	s, status, err := tryStream(t, c, query, headers...)
	if err != nil {
		t.Error(err)
	}
	return s, status
}

// tryStream is openStream for a replica that may be down.
func tryStream(t *testing.T, c *stacktest.Client, query string, headers ...stacktest.Header) (*stream, int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/events"+query, nil)
	noErr(t, err)
	request.Header.Set("Accept", "text/event-stream")
	for _, set := range headers {
		set(request.Header)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	s := &stream{body: answer.Body, lines: bufio.NewScanner(answer.Body)}
	s.lines.Buffer(nil, 4<<20)
	return s, answer.StatusCode, nil
}

// next returns the next page, or the error that ended the stream.
func (s *stream) next() (page eventsPage, err error) {
	for s.lines.Scan() {
		line := s.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			s.id = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			err := json.Unmarshal([]byte(data), &page)
			if err == nil && page.Cursor != s.id {
				err = fmt.Errorf("cursor %s, id %s", page.Cursor, s.id)
			}
			return page, err
		}
	}
	if s.lines.Err() != nil {
		return page, s.lines.Err()
	}
	return page, io.EOF
}

// take returns n events.
func (s *stream) take(t *testing.T, n int) (all []eventView) {
	t.Helper()
	for len(all) < n {
		page, err := s.next()
		if err != nil {
			t.Errorf("after %d events: %v", len(all), err)
			return all
		}
		all = append(all, page.Events...)
	}
	return all
}

func idsOf(all []eventView) (ids []string) {
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	stranger := s.Core[0].SignIn(stacktest.NewWallet())
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "before"}, session)
	fromStart, _ := openStream(t, s.Core[0], "?after=0", session)
	fromNow, _ := openStream(t, s.Core[1], "", session)
	if !fromNow.lines.Scan() || fromNow.lines.Text() != "retry: 1000" { // the stream has begun
		t.Fatalf("begins with %q", fromNow.lines.Text())
	}
	for i := range 20 {
		s.Core[i%2].Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint(i)}, session)
		s.Core[i%2].Expect(201, "POST", "/memories", map[string]any{"content": "not yours"}, stranger)
	}
	s.Core[1].Expect(201, "POST", "/memories/batch", batchOf(numbered(256)...), session)
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "last"}, session)
	want := idsOf(pagesOf(t, s.Core[0], session, 100))
	all := fromStart.take(t, len(want))
	if got := idsOf(all); !slices.Equal(got, want) {
		t.Errorf("%d events from the beginning, want %d", len(got), len(want))
	}
	if got := idsOf(fromNow.take(t, len(want)-3)); !slices.Equal(got, want[3:]) {
		t.Errorf("%d events from now on, want %d", len(got), len(want)-3)
	}
	// The Last-Event-ID header overrides the query, which a client repeats.
	_ = fromNow.body.Close()
	resumed, _ := openStream(t, s.Core[0], "?after=0", session, stacktest.With("Last-Event-ID", fromStart.id))
	s.Core[1].Expect(201, "POST", "/memories", map[string]any{"content": "after"}, session)
	if got := resumed.take(t, 1); len(got) != 1 || slices.Contains(want, got[0].ID) {
		t.Errorf("resumed with %+v", got)
	}
	if _, status := openStream(t, s.Core[1], ""); status != 401 {
		t.Errorf("no credential: %d", status)
	}
	if _, status := openStream(t, s.Core[1], "", session, stacktest.With("Last-Event-ID", "x")); status != 400 {
		t.Errorf("no cursor: %d", status)
	}
	s.Stop()
	if _, err := resumed.next(); err == nil {
		t.Error("the stream goes on after the service")
	}
}

// TestADeadCredentialSeesNoMore: a stream ends within a second of its credential, and shows
// nothing that happened after it.
func TestADeadCredentialSeesNoMore(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2}) // nothing else slows it
	session := s.Core[0].SignIn(stacktest.NewWallet())
	made := s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session)
	open, _ := openStream(t, s.Core[0], "?after=0", stacktest.Bearer(made.Text("key")))
	open.take(t, 3)
	ends := func(name string, open *stream, at time.Time) {
		t.Helper()
		for {
			page, err := open.next()
			if err != nil {
				break
			}
			for _, e := range page.Events {
				if e.Type == "ApiKeyRevoked" || e.Type == "SessionRevoked" || e.Type == "MemoryWritten" {
					t.Errorf("%s: it sees %s", name, e.Type)
				}
			}
		}
		if late := time.Since(at); late > time.Second {
			t.Errorf("%s: the stream ended %v late", name, late)
		}
	}
	s.Core[1].Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, session)
	begun := time.Now()
	s.Core[1].Expect(201, "POST", "/memories", map[string]any{"content": "later"}, session)
	ends("a revoked key", open, begun)

	expires := time.Now().Add(1500 * time.Millisecond)
	short := s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x", "expiresAt": expires}, session)
	open, _ = openStream(t, s.Core[0], "", stacktest.Bearer(short.Text("key")))
	ends("a key that expires", open, expires)

	open, _ = openStream(t, s.Core[0], "", session)
	s.Core[1].Expect(200, "DELETE", "/auth/sessions/"+currentSession(t, s.Core[1], session), nil, session)
	ends("a session that ended", open, time.Now())
}

func currentSession(t *testing.T, c *stacktest.Client, session stacktest.Header) string {
	t.Helper()
	for _, listed := range sessionsOf(t, c, session) {
		if listed.Current {
			return listed.ID
		}
	}
	t.Fatal("no session is the current one")
	return ""
}

// TestAKeySeesNoOtherCredentials: events tell an API key neither the labels of keys nor the
// ids of sessions, in pages and in streams. They tell them to a session.
func TestAKeySeesNoOtherCredentials(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	made := core.Expect(201, "POST", "/keys", map[string]any{"label": "bank laptop", "scopes": []string{"read"}}, session)
	core.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session)
	core.Expect(200, "DELETE", "/auth/sessions", nil, session)
	secrets := []string{"bank laptop", currentSession(t, core, session), made.Text("prefix")}
	key := stacktest.Bearer(made.Text("key"))
	open, _ := openStream(t, core, "?after=0", key)
	var streamed []string
	for _, e := range open.take(t, 4) {
		streamed = append(streamed, e.Type+string(marshal(t, e.Data)))
	}
	page, whole := string(core.Expect(200, "GET", "/events", nil, key).Body), string(core.Expect(200, "GET", "/events", nil, session).Body)
	for _, secret := range secrets {
		if !strings.Contains(whole, secret) || strings.Contains(page, secret) || strings.Contains(fmt.Sprint(streamed), secret) {
			t.Errorf("%s: a session sees it: %v, a key: %s, %v", secret, strings.Contains(whole, secret), page, streamed)
		}
	}
	if !strings.Contains(page, made.Text("id")) || !strings.Contains(page, `"via":{"kind":"session"}`) {
		t.Errorf("a key sees too little: %s", page)
	}
}

// replicas are the replicas that a client may use: the stack's own one, and processes
// that are killed and replaced.
type replicas struct {
	t     *testing.T
	stack *stacktest.Stack
	path  string // of the program
	mu    sync.Mutex
	live  []*stacktest.Client
	alone []*alone // nil: the stack's
}

func newReplicas(t *testing.T, s *stacktest.Stack, processes int) *replicas {
	t.Helper()
	r := &replicas{t: t, stack: s, path: stacktest.Program(t, stacktest.Ledger), live: []*stacktest.Client{s.Core[0]}, alone: []*alone{nil}}
	for range processes {
		p := startAlone(t, s, r.path, "core-api", "CORE_ADDR")
		r.live, r.alone = append(r.live, stacktest.NewClient(t, contracttest.Core, p.url)), append(r.alone, p)
	}
	return r
}

// any returns one of the replicas. It may have been killed, and not yet replaced.
func (r *replicas) any() *stacktest.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[rand.IntN(len(r.live))]
}

// replace kills a process as a power cut does, and starts another one.
func (r *replicas) replace(i int) {
	r.t.Helper()
	r.alone[i].kill()
	next := startAlone(r.t, r.stack, r.path, "core-api", "CORE_ADDR")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alone[i], r.live[i] = next, stacktest.NewClient(r.t, contracttest.Core, next.url)
}

// write stores a memory at any replica that answers, and returns its ID.
func (r *replicas) write(content string, session stacktest.Header) (id string) {
	for r.t.Context().Err() == nil {
		a, err := r.any().Try("POST", "/memories", map[string]any{"content": content}, session, stacktest.With("Idempotency-Key", content))
		switch {
		case err != nil || a.Status == 503: // the replica was killed, or can't tell
		case a.Status == 201:
			return a.Text("id")
		default:
			r.t.Errorf("%s: status %d: %s", content, a.Status, a.Body)
			return ""
		}
	}
	return ""
}

// follow returns the events of an owner, in order of arrival, until one has the type. It
// connects to any replica that answers. It reconnects whenever a stream ends, and
// sometimes at random.
func (r *replicas) follow(session stacktest.Header, until string) (all []eventView) {
	for cursor := "0"; r.t.Context().Err() == nil; {
		open, status, err := tryStream(r.t, r.any(), "", session, stacktest.With("Last-Event-ID", cursor))
		if err != nil || status != 200 {
			continue
		}
		for ended := false; !ended; {
			page, err := open.next()
			if err != nil {
				break
			}
			all, cursor = append(all, page.Events...), page.Cursor
			if len(all) > 0 && all[len(all)-1].Type == until {
				return all
			}
			ended = rand.IntN(20) == 0
		}
		_ = open.body.Close()
	}
	return all
}

// TestFollowersThroughKillsAndARebuild: a hundred followers of ten owners get each event
// once and in order, and every memory that was acknowledged, while replicas are killed
// and tables are swapped. They reconnect to any replica with their cursor.
func TestFollowersThroughKillsAndARebuild(t *testing.T) {
	slow(t)
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	r := newReplicas(t, s, 2)
	const owners, followers, ended = 10, 10, "ApiKeyCreated"
	var (
		group   sync.WaitGroup
		written = make(chan struct{}) // one for each memory, while a receiver waits
		enough  = make(chan struct{})
	)
	for range owners {
		session := s.Core[0].SignIn(stacktest.NewWallet())
		var want []string // IDs of the memories; complete when the events have ended
		group.Go(func() {
			for n := 0; ; n++ {
				want = append(want, r.write(fmt.Sprint("memory-", n), session))
				select {
				case written <- struct{}{}:
				case <-enough:
					s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "end"}, session)
					return
				default:
				}
			}
		})
		whole := sync.OnceValue(func() []string { return idsOf(pagesOf(t, s.Core[0], session, 1000)) })
		for range followers {
			group.Go(func() {
				got := r.follow(session, ended)
				if all := whole(); !slices.Equal(idsOf(got), all) {
					t.Errorf("a follower got %d events, of %d", len(got), len(all))
				}
				var memories []string
				for _, e := range got {
					if id, ok := e.Data["memoryId"].(string); ok {
						memories = append(memories, id)
					}
				}
				if !slices.Equal(memories, want) {
					t.Errorf("a follower got %d memories, %d were acknowledged", len(memories), len(want))
				}
			})
		}
	}
	more := func() {
		for range 20 * owners {
			<-written
		}
	}
	for range 2 {
		for i := range 2 {
			more()
			r.replace(1 + i)
		}
		if result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{}); err != nil || !result.Swapped {
			t.Errorf("%+v, %v", result, err)
		}
	}
	more()
	close(enough)
	group.Wait()
}
