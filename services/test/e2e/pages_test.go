package e2e_test

import (
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var asForm = stacktest.With("Content-Type", "application/x-www-form-urlencoded")

// formOf returns the target of a page's form, as a path of the API.
func formOf(t *testing.T, path string, page stacktest.Answer) string {
	t.Helper()
	found := regexp.MustCompile(`<form method="post"(?: action="([^"]*)")?>`).FindSubmatch(page.Body)
	if found == nil {
		t.Fatalf("no form in %s", page.Body)
	}
	base := must(url.Parse(path))
	action, err := base.Parse(html.UnescapeString(string(found[1])))
	noErr(t, err)
	return action.RequestURI()
}

// isPage checks what every page guarantees: no script, and a policy that would allow
// none.
func isPage(t *testing.T, a stacktest.Answer, title string) {
	t.Helper()
	policy := a.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") ||
		a.Header.Get("Referrer-Policy") != "no-referrer" || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", a.Header)
	}
	if !strings.Contains(string(a.Body), "<h1>"+title+"</h1>") || strings.Contains(string(a.Body), "<script") {
		t.Errorf("not the page %q: %s", title, a.Body[max(0, len(a.Body)-1500):])
	}
}

// TestDropPage: people leave memories with a form.
func TestDropPage(t *testing.T) {
	s := shared(t)
	c := s.Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	made := c.Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": 3}, session)
	path := "/memory-drops/" + tokenOf(made)
	left := func() int {
		return c.Expect(200, "GET", "/memory-drops/"+made.Text("id")+"/status", nil, session).Number("remainingWrites")
	}
	for range 5 { // viewing the form spends nothing
		isPage(t, c.Expect(200, "GET", path, nil, navigates), "Leave a memory")
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html", "text/html;q=0.5, application/json"} {
		if a := c.Expect(405, "GET", path, nil, stacktest.With("Accept", accept)); a.Header.Get("Allow") != "POST" {
			t.Errorf("Accept %q: %v", accept, a.Header)
		}
	}
	c.Expect(200, "HEAD", path, nil, navigates)
	page := c.Expect(200, "GET", path, nil, navigates)
	action := formOf(t, path, page)
	note := url.Values{"content": {"Left by a friend:\r\n<b>hello</b> & \U0001F41D"}, "source": {"a friend"}}.Encode()
	first := c.Expect(201, "POST", action, note, asForm, navigates)
	isPage(t, first, "Your memory was left")
	// A form that is sent twice, as by a reload, leaves one memory, on any replica.
	isPage(t, s.Extension[1].Expect(201, "POST", action, note, asForm, navigates), "Your memory was left")
	if left() != 2 {
		t.Errorf("%d are left", left())
	}
	held := decode[struct{ Memories []view }](t, c.Expect(200, "GET", "/memories", nil, session).Body).Memories
	if len(held) != 1 || held[0].Content != "Left by a friend:\n<b>hello</b> & \U0001F41D" || !strings.Contains(string(first.Body), held[0].LeafHash) {
		t.Fatalf("held %+v", held)
	}
	// A form that is changed and sent again is shown again for confirmation; its text is
	// not lost.
	changed := url.Values{"content": {"</textarea><script>alert(1)</script>"}, "source": {`"><script>`}}.Encode()
	again := c.Expect(422, "POST", action, changed, asForm, navigates)
	isPage(t, again, "Leave a memory")
	if !strings.Contains(string(again.Body), "&lt;/textarea&gt;&lt;script&gt;alert(1)") || !strings.Contains(string(again.Body), `role="alert"`) || left() != 2 {
		t.Errorf("%s", again.Body)
	}
	isPage(t, c.Expect(201, "POST", formOf(t, path, again), changed, asForm, navigates), "Your memory was left")
	// A form with bad input is shown again with the reason.
	for name, form := range map[string]url.Values{
		"empty": {"content": {""}}, "none": {"source": {"x"}},
		"long": {"content": {strings.Repeat("ä", 10001)}}, "long source": {"content": {"x"}, "source": {strings.Repeat("x", 81)}},
	} {
		refused := c.Expect(400, "POST", formOf(t, path, page), form.Encode(), asForm, navigates)
		isPage(t, refused, "Leave a memory")
		if !strings.Contains(string(refused.Body), "Nothing was stored") {
			t.Errorf("%s: %s", name, refused.Body)
		}
	}
	for _, bad := range []string{"content=%ff", "content=%zz", "content=a&content=b", "content=a&metadata=%7B%7D"} {
		isPage(t, c.Expect(400, "POST", path, bad, asForm, navigates), "This was not accepted")
	}
	c.Expect(415, "POST", path, "content=x", asForm, stacktest.With("Content-Encoding", "gzip"))
	isPage(t, c.Expect(415, "POST", path, "content=x", asForm, navigates, stacktest.With("Content-Encoding", "gzip")), "This was not accepted")
	isPage(t, c.Expect(413, "POST", path, "content="+strings.Repeat("x", 1<<20), asForm, navigates), "This was not accepted")
	// A program that sends a form gets JSON, by the same rules.
	if a := c.Expect(400, "POST", path, "content=x&tags=a", asForm); a.Text("error") != `unknown member "tags"; the members here are "content", "source"` {
		t.Errorf("%s", a.Body)
	}
	key := stacktest.With("Idempotency-Key", "once")
	a := c.Expect(201, "POST", path, "content=by+a+program", asForm, key)
	b := c.Expect(201, "POST", path, "content=by+a+program&source=", asForm, key)
	if a.Text("memoryId") == "" || a.Text("memoryId") != b.Text("memoryId") || left() != 0 {
		t.Errorf("%s, %s, %d left", a.Body, b.Body, left())
	}
	c.Expect(404, "POST", path, "content=x", asForm)
	// The link is used up, but a repeated form still gets its first answer.
	isPage(t, c.Expect(201, "POST", action, note, asForm, navigates), "Your memory was left")
	isPage(t, c.Expect(404, "POST", action, changed, asForm, navigates), "This link opens nothing")
	if n := len(decode[struct{ Memories []view }](t, c.Expect(200, "GET", "/memories", nil, session).Body).Memories); n != 3 {
		t.Errorf("%d memories", n)
	}
}

// TestCasePage: people see what opening a case spends before they open it.
func TestCasePage(t *testing.T) {
	c := shared(t).Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	c.Expect(201, "POST", "/memories", map[string]any{"content": "to be read", "source": "s"}, session)
	made := c.Expect(201, "POST", "/agent-cases", map[string]any{"maxReads": 3}, session)
	path := "/agent-cases/" + tokenOf(made)
	left := func() int {
		return c.Expect(200, "GET", "/agent-cases/"+made.Text("id")+"/status", nil, session).Number("remainingReads")
	}
	for range 5 {
		page := c.Expect(200, "GET", path, nil, navigates)
		isPage(t, page, "Someone shares their memories with you")
		if !strings.Contains(string(page.Body), "one of 3 reads") || strings.Contains(string(page.Body), "to be read") || left() != 3 {
			t.Errorf("%d left, %s", left(), page.Body)
		}
	}
	c.Expect(403, "GET", path, nil, navigates, stacktest.With("Sec-Purpose", "prefetch"))
	c.Expect(403, "POST", path, nil, navigates, stacktest.With("Sec-Purpose", "prefetch"))
	opened := c.Expect(200, "POST", formOf(t, path, c.Expect(200, "GET", path, nil, navigates)), "", asForm, navigates)
	if !strings.HasPrefix(opened.Header.Get("Content-Type"), "text/markdown") || !strings.Contains(string(opened.Body), "to be read") || left() != 2 {
		t.Errorf("%d left, %v", left(), opened.Header)
	}
	// The button's form gets a page, which ends with the document.
	for _, text := range []string{strings.Repeat("long, ", 1600), strings.Repeat("longer, ", 1200), "<script>alert(1)</script>"} {
		c.Expect(201, "POST", "/memories", map[string]any{"content": text, "source": "s", "tags": []string{"a&b"}}, session)
	}
	c.Expect(201, "POST", "/memories", map[string]any{"content": "long ago", "source": "s", "occurredAt": "1999-12-31"}, session)
	shown := c.Expect(200, "POST", path, "as=page", asForm, navigates)
	isPage(t, shown, "5 memories")
	page := string(shown.Body)
	for _, words := range []string{"to be read", "31 December 1999", "&lt;script&gt;", "a&amp;b"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page has no %q: %s", words, page[:2000])
		}
	}
	if strings.Index(page, "long ago") < strings.Index(page, "to be read") {
		t.Error("what happened first is not at the end")
	}
	link := regexp.MustCompile(`href="data:text/markdown;charset=utf-8;base64,([^"]*)"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("no document in %s", page[max(0, len(page)-1000):])
	}
	text, err := base64.StdEncoding.DecodeString(link[1])
	if noErr(t, err); !strings.HasPrefix(string(text), "# Memories of ") || strings.Count(string(text), "\n## Memory ") != 5 || left() != 1 {
		t.Errorf("%d left, %.200s", left(), text)
	}
	if page := c.Expect(200, "GET", path, nil, navigates); !strings.Contains(string(page.Body), "uses the link up") {
		t.Errorf("%s", page.Body)
	}
	// A program still reads by GET, whatever else it accepts.
	if a := c.Expect(200, "GET", path, nil, stacktest.With("Accept", "text/markdown, text/html")); !strings.HasPrefix(a.Header.Get("Content-Type"), "text/markdown") || left() != 0 {
		t.Errorf("%v", a.Header)
	}
	isPage(t, c.Expect(404, "GET", path, nil, navigates), "This link opens nothing")
	isPage(t, c.Expect(404, "POST", path, nil, navigates), "This link opens nothing")
	isPage(t, c.Expect(404, "POST", path, "as=page", asForm, navigates), "This link opens nothing")
	if a := c.Expect(404, "POST", path, nil); string(a.Body) != "not found\n" {
		t.Errorf("%s", a.Body)
	}
}

// TestPagesOfAnOutage: people get pages and programs get JSON, even while nothing works.
// A refused form that is sent again is stored once.
func TestPagesOfAnOutage(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t, natstest.Sync())
	c := stacktest.Start(t, stacktest.Options{NATSURL: server.URL()}).Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	drop := "/memory-drops/" + tokenOf(c.Expect(201, "POST", "/memory-drops", nil, session))
	reading := "/agent-cases/" + tokenOf(c.Expect(201, "POST", "/agent-cases", nil, session))
	action := formOf(t, drop, c.Expect(200, "GET", drop, nil, navigates))

	server.Kill()
	var waits sync.WaitGroup // each request waits for the log until its timeout
	refused := func(method, path string, body any, with ...stacktest.Header) {
		waits.Go(func() {
			person := c.Expect(503, method, path, body, append(with, navigates)...)
			isPage(t, person, "Memory Ledger can't answer now")
			if person.Header.Get("Retry-After") == "" || !strings.Contains(person.Header.Get("Vary"), "Accept") {
				t.Errorf("%s %s: %v", method, path, person.Header)
			}
			if stored := strings.Contains(string(person.Body), "It is stored once"); stored != (path == action) {
				t.Errorf("%s %s: %s", method, path, person.Body)
			}
		})
		waits.Go(func() {
			if program := c.Expect(503, method, path, body, with...); program.Text("error") == "" {
				t.Errorf("%s %s: %s", method, path, program.Body)
			}
		})
	}
	refused("POST", action, "content=x", asForm)
	refused("POST", reading, "", asForm)
	waits.Go(func() { isPage(t, c.Expect(503, "GET", drop, nil, navigates), "Memory Ledger can't answer now") })
	waits.Go(func() { isPage(t, c.Expect(503, "GET", reading, nil, navigates), "Memory Ledger can't answer now") })
	waits.Go(func() { c.Expect(503, "POST", drop, map[string]any{"content": "x"}, navigates) })
	waits.Wait()

	server.Start()
	if a := c.Persist("POST", action, "content=x", asForm, navigates); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	isPage(t, c.Expect(201, "POST", action, "content=x", asForm, navigates), "Your memory was left")
	if n := len(decode[struct{ Memories []view }](t, c.Expect(200, "GET", "/memories", nil, session).Body).Memories); n != 1 {
		t.Errorf("%d memories", n)
	}
}
