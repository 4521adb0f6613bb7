package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
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
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
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
	for _, query := range []string{"?after=-1", "?after=01", "?after=x", "?limit=0", "?limit=1001", "?after=1&after=2"} {
		s.Core[0].Expect(400, "GET", "/events"+query, nil, session)
	}
}

// stream is an open event stream.
type stream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
	id    string // last seen
}

// openStream opens an event stream, past the client that holds answers to the document,
// which would read it to its end.
func openStream(t *testing.T, c *stacktest.Client, query string, headers ...stacktest.Header) (*stream, int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	for _, set := range headers {
		set(request.Header)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	s := &stream{body: answer.Body, lines: bufio.NewScanner(answer.Body)}
	s.lines.Buffer(nil, 4<<20)
	return s, answer.StatusCode
}

// next returns the next page, or what ended the stream.
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
	s := stacktest.Start(t, stacktest.Options{Core: 2, Configure: func(c *config.Config) { c.MaxStreams = 4 }})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	stranger := s.Core[0].SignIn(stacktest.NewWallet())
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "before"}, session)
	fromStart, _ := openStream(t, s.Core[0], "?after=0", session)
	fromNow, _ := openStream(t, s.Core[1], "", session)
	if !fromNow.lines.Scan() || fromNow.lines.Text() != "retry: 1000" { // it has begun
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
	// The header wins over the query that a client repeats.
	_ = fromNow.body.Close()
	resumed, _ := openStream(t, s.Core[0], "?after=0", session, stacktest.With("Last-Event-ID", fromStart.id))
	s.Core[1].Expect(201, "POST", "/memories", map[string]any{"content": "after"}, session)
	if got := resumed.take(t, 1); len(got) != 1 || slices.Contains(want, got[0].ID) {
		t.Errorf("resumed with %+v", got)
	}
	// So many and no more.
	for range 2 {
		if _, status := openStream(t, s.Core[0], "", session); status != 200 {
			t.Errorf("status %d", status)
		}
	}
	if _, status := openStream(t, s.Core[0], "", session); status != 503 {
		t.Errorf("a stream too many: %d", status)
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

// TestARevokedKeySeesNoMore: within a heartbeat its streams end.
func TestARevokedKeySeesNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	made := s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session)
	open, _ := openStream(t, s.Core[0], "?after=0", stacktest.Bearer(made.Text("key")))
	open.take(t, 3)
	s.Core[1].Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, session)
	begun := time.Now()
	for {
		if _, err := open.next(); err != nil {
			break
		}
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the stream ended after %v", took)
	}
}

// TestFollowersThroughARebuild: followers of both replicas, who connect again with their
// cursor whenever a stream ends, get each event once while tables are exchanged.
func TestFollowersThroughARebuild(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	const owners, writes = 5, 60
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for i := range owners {
		session := s.Core[0].SignIn(stacktest.NewWallet())
		group.Go(func() {
			for n := range writes {
				s.Core[n%2].Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint(n)}, session)
			}
		})
		for follower := range 4 {
			group.Go(func() {
				var got []string
				for cursor := "0"; len(got) < writes+2 && ctx.Err() == nil; {
					open, status := openStream(t, s.Core[(i+follower)%2], "", session, stacktest.With("Last-Event-ID", cursor))
					if status != 200 {
						time.Sleep(20 * time.Millisecond)
						continue
					}
					for len(got) < writes+2 {
						page, err := open.next()
						if err != nil {
							break
						}
						got, cursor = append(got, idsOf(page.Events)...), page.Cursor
						if len(got)%10 == follower {
							break // of its own accord
						}
					}
					_ = open.body.Close()
				}
				if want := idsOf(pagesOf(t, s.Core[0], session, 1000)); !slices.Equal(got, want) {
					t.Errorf("follower %d of owner %d got %d events, want %d", follower, i, len(got), len(want))
				}
			})
		}
	}
	for range 2 {
		if result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{}); err != nil || !result.Swapped {
			t.Errorf("%+v, %v", result, err)
		}
	}
	group.Wait()
}
