package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// told is a memory with what it corrects.
type told struct {
	view
	Supersedes, SupersededBy []string
}

// lifeOf writes and reads the memories of one owner, on either of two replicas in turn.
type lifeOf struct {
	*testing.T
	stack   *stacktest.Stack
	session stacktest.Header
	visitor stacktest.Header
	turn    int
}

func newLife(t *testing.T) *lifeOf {
	s, wallet := shared(t), stacktest.NewWallet()
	return &lifeOf{T: t, stack: s, session: s.Core[0].SignIn(wallet), visitor: s.Extension[0].SignIn(wallet)}
}

func (l *lifeOf) core() *stacktest.Client {
	l.turn++
	return l.stack.Core[l.turn%2]
}

func (l *lifeOf) write(content string, members map[string]any) string {
	l.Helper()
	body := map[string]any{"content": content}
	maps.Copy(body, members)
	return l.core().Expect(201, "POST", "/memories", body, l.session).Text("id")
}

func (l *lifeOf) get(id string) told {
	l.Helper()
	return decode[told](l, l.core().Expect(200, "GET", "/memories/"+id, nil, l.session).Body)
}

// found returns the texts that a search finds.
func (l *lifeOf) found(search map[string]any, as ...stacktest.Header) (texts []string) {
	l.Helper()
	for _, m := range decode[[]told](l, l.core().Expect(200, "POST", "/memories/search", search, append([]stacktest.Header{l.session}, as...)...).Body) {
		texts = append(texts, m.Content)
	}
	return texts
}

func (l *lifeOf) want(what string, got []string, want ...string) {
	l.Helper()
	if !slices.Equal(got, want) {
		l.Errorf("%s: %q, want %q", what, got, want)
	}
}

func filter(members map[string]any) map[string]any { return map[string]any{"filter": members} }

// TestAMemorySaysWhenAndWhat: dates, tags and namespaces are merged into the metadata, which
// the leaf proves. Searches filter by them and order by when things happened.
func TestAMemorySaysWhenAndWhat(t *testing.T) {
	l := newLife(t)
	for _, m := range []struct {
		content string
		members map[string]any
	}{
		{"the wedding", map[string]any{"occurredAt": "1999-05-01", "tags": []string{"family", "joy"}, "namespace": "home"}},
		{"the moon landing", map[string]any{"metadata": map[string]any{"occurredAt": "1969-07-20T20:17:40Z", "tags": []string{"space"}}}},
		{"the launch", map[string]any{"occurredAt": "2098-12-31T23:30:00-01:00", "tags": []string{"space", "joy"}, "metadata": map[string]any{"tags": []string{"space", "joy"}}}},
		{"today", map[string]any{"metadata": map[string]any{"occurredAt": 7, "tags": "joy", "namespace": []string{"home"}}}},
	} {
		l.write(m.content, m.members)
	}
	extension := l.stack.Extension[0].Expect(201, "POST", "/memories", map[string]any{"content": " the vote ", "source": " chat ", "occurredAt": "2024-06-09", "namespace": "work"}, l.visitor)
	if got := fmt.Sprint(extension.Field("metadata")); got != "map[namespace:work occurredAt:2024-06-09 source:chat]" {
		t.Errorf("metadata of the extension's answer: %s", got)
	}
	token := tokenOf(l.stack.Extension[0].Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": 2, "namespace": "work"}, l.visitor))
	l.stack.Extension[0].Expect(403, "POST", "/memory-drops/"+token, map[string]any{"content": "x", "metadata": map[string]any{"namespace": "home"}})
	l.stack.Extension[0].Expect(201, "POST", "/memory-drops/"+token, map[string]any{"content": "left by a friend", "tags": []string{"friends"}, "occurredAt": "2023-01-01"})

	l.want("tags", l.found(filter(map[string]any{"tags": []string{"space"}})), "the moon landing", "the launch")
	l.want("all of the tags", l.found(filter(map[string]any{"tags": []string{"joy", "space"}})), "the launch")
	l.want("an element of a list, or the value", l.found(filter(map[string]any{"metadata": map[string]any{"tags": "joy"}})), "the wedding", "the launch", "today")
	l.want("a namespace", l.found(filter(map[string]any{"namespace": "home"})), "the wedding")
	l.want("a drop's namespace", l.found(filter(map[string]any{"namespace": "work"})), "the vote", "left by a friend")
	l.want("a day", l.found(filter(map[string]any{"occurredFrom": "1999-05-01", "occurredTo": "1999-05-01"})), "the wedding")
	l.want("times", l.found(filter(map[string]any{"occurredFrom": "1969-07-20T20:17:40Z", "occurredTo": "1999-05-01T00:00:00Z"})), "the moon landing")
	l.want("over midnight in UTC", l.found(filter(map[string]any{"occurredFrom": "2099-01-01"})), "the launch")
	l.want("written now", l.found(filter(map[string]any{"occurredFrom": "2025-01-01", "occurredTo": "2098-01-01"})), "today")

	byTime := []string{"the launch", "today", "the vote", "left by a friend", "the wedding", "the moon landing"}
	l.want("by when it happened", l.found(map[string]any{"order": "occurred"}), byTime...)
	l.want("with a query", l.found(map[string]any{"query": "the", "order": "occurred", "limit": 2}), "the launch", "the vote")
	l.want("ranked", l.found(map[string]any{"query": "launch wedding landing", "mode": "ranked", "order": "occurred"}), "the launch", "the wedding", "the moon landing")
	var pages []string
	for cursor := ""; ; {
		a := l.core().Expect(200, "POST", "/memories/search", map[string]any{"order": "occurred", "limit": 2, "cursor": cursor}, l.session)
		for _, m := range decode[[]view](t, a.Body) {
			pages = append(pages, m.Content)
		}
		if cursor = a.Header.Get("Next-Cursor"); cursor == "" {
			break
		}
		l.write("later "+cursor, map[string]any{"occurredAt": "0001-01-01"}) // on none of these pages
	}
	l.want("in pages", pages, byTime...)

	for name, members := range map[string]map[string]any{
		"occurredAt": {"occurredAt": "yesterday"}, "a year 10000": {"occurredAt": "10000-01-01"}, "no tag": {"tags": []string{}}, "an empty tag": {"tags": []string{""}},
		"many tags": {"tags": make([]string, 17)}, "a long namespace": {"namespace": strings.Repeat("é", 81)}, "null": {"namespace": nil}, "a text for tags": {"tags": "a"},
		"another value": {"namespace": "a", "metadata": map[string]any{"namespace": "b"}}, "another list": {"tags": []string{"a"}, "metadata": map[string]any{"tags": []string{"a", "b"}}},
		"no ids": {"supersedes": []string{}}, "an unknown member": {"occured": "2024-01-01"},
	} {
		body := map[string]any{"content": "x"}
		maps.Copy(body, members)
		if a := l.core().Do("POST", "/memories", body, l.session); a.Status != 400 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// TestCorrections: what was corrected stays, with its proof, and is shown no longer where
// the present is asked for. A correction that is taken back brings it back.
func TestCorrections(t *testing.T) {
	l := newLife(t)
	ranked := func() []string {
		l.Helper()
		return l.found(map[string]any{"query": "lives", "mode": "ranked", "order": "oldest"})
	}
	supersede := func(ids ...string) map[string]any { return map[string]any{"supersedes": ids} }
	retract := func(id string) { l.Helper(); l.core().Expect(200, "DELETE", "/memories/"+id, nil, l.session) }
	all := func() (texts []string) {
		for _, m := range decode[[]told](t, l.core().Expect(200, "GET", "/memories", nil, l.session).Body) {
			texts = append(texts, m.Content)
		}
		return texts
	}
	oslo := l.write("Ada lives in Oslo", nil)
	again := l.write("Ada lives in Oslo", nil)
	rome := l.write("Bob lives in Rome", nil)
	porto := l.write("Ada lives in Porto", supersede(oslo))
	l.want("corrected", ranked(), "Bob lives in Rome", "Ada lives in Porto")
	l.want("in a list", all(), "Ada lives in Oslo", "Ada lives in Oslo", "Bob lives in Rome", "Ada lives in Porto")
	l.want("as substring", l.found(map[string]any{"query": "Oslo"}), "Ada lives in Oslo", "Ada lives in Oslo")
	l.want("asked for", l.found(map[string]any{"query": "Oslo", "mode": "ranked", "filter": map[string]any{"superseded": true}}), "Ada lives in Oslo", "Ada lives in Oslo")
	if m := l.get(again); !slices.Equal(m.SupersededBy, []string{porto}) || m.Supersedes != nil {
		t.Errorf("an equal memory: %+v", m)
	}
	if m := l.get(porto); !slices.Equal(m.Supersedes, []string{oslo, again}) || m.SupersededBy != nil {
		t.Errorf("the correction: %+v", m)
	}
	later := l.write("Ada lives in Oslo", nil) // not an earlier one
	l.want("said again", ranked(), "Bob lives in Rome", "Ada lives in Porto", "Ada lives in Oslo")

	lisbon := l.write("Ada lives in Lisbon", supersede(porto, later))
	faro := l.write("Ada lives in Faro", supersede(porto))
	l.want("a chain with two ends", ranked(), "Bob lives in Rome", "Ada lives in Lisbon", "Ada lives in Faro")
	if m := l.get(porto); !slices.Equal(m.SupersededBy, []string{faro, lisbon}) {
		t.Errorf("superseded by %v, newest first", m.SupersededBy)
	}
	retract(lisbon)
	l.want("one was taken back", ranked(), "Bob lives in Rome", "Ada lives in Oslo", "Ada lives in Faro")
	retract(faro)
	l.want("both were taken back", ranked(), "Bob lives in Rome", "Ada lives in Porto", "Ada lives in Oslo")

	// A case shows the present.
	token := tokenOf(l.stack.Extension[0].Expect(201, "POST", "/agent-cases", nil, l.visitor))
	document := string(l.stack.Extension[0].Expect(200, "GET", "/agent-cases/"+token, nil).Body)
	if strings.Count(document, "lives in Oslo") != 1 || !strings.Contains(document, "Porto") || !strings.Contains(document, "- Memories: 3\n") {
		t.Errorf("the case: %s", document)
	}

	// The receipt proves it without the service.
	if r := receiptOf(t, l.core(), l.session, porto); !strings.Contains(string(r.Entry.Metadata), `"supersedes":["`+l.get(oslo).LeafHash+`"]`) {
		t.Errorf("the receipt's metadata: %s", r.Entry.Metadata)
	}

	// Bad ones, and retries.
	stranger := l.stack.Core[0].SignIn(stacktest.NewWallet())
	for name, c := range map[string]struct {
		ids    []string
		as     stacktest.Header
		status int
	}{
		"unknown": {[]string{"019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e02"}, l.session, 404}, "not an id": {[]string{oslo, "x"}, l.session, 404},
		"another owner's": {[]string{oslo}, stranger, 404}, "retracted": {[]string{lisbon}, l.session, 410},
	} {
		for _, body := range []map[string]any{
			{"content": "x", "supersedes": c.ids}, {"memories": []any{map[string]any{"content": "fine"}, map[string]any{"content": "x", "supersedes": c.ids}}},
		} {
			path := "/memories"
			if body["memories"] != nil {
				path = "/memories/batch"
			}
			if a := l.core().Do("POST", path, body, c.as); a.Status != c.status {
				t.Errorf("%s at %s: %d %s", name, path, a.Status, a.Body)
			}
		}
	}
	key := stacktest.With("Idempotency-Key", "once")
	body := map[string]any{"content": "Ada lives in Braga", "supersedes": []string{porto}}
	first := l.core().Expect(201, "POST", "/memories", body, l.session, key)
	retract(porto)
	if second := l.core().Expect(201, "POST", "/memories", body, l.session, key); second.Text("id") != first.Text("id") {
		t.Errorf("repeated after %s was retracted: %s", porto, second.Body)
	}
	l.core().Expect(201, "POST", "/memories/batch", map[string]any{"memories": []any{
		map[string]any{"content": "Bob lives in Rome"}, map[string]any{"content": "Bob lives in Bari", "supersedes": []string{rome}},
	}}, l.session)
	l.want("a batch corrects, also what is before it there", ranked(), "Ada lives in Oslo", "Ada lives in Oslo", "Ada lives in Oslo", "Ada lives in Braga", "Bob lives in Bari")

	// A memory that was corrected or taken back hides no related word.
	retract(l.write("Eve's boss is Bob", nil))
	l.write("Ada's manager is Helena", supersede(l.write("Ada's boss is Bob", nil)))
	l.want("a related word", l.found(map[string]any{"query": "boss", "mode": "ranked"}), "Ada's manager is Helena")
}

// tokenIn returns the credential of a header.
func tokenIn(set stacktest.Header) string {
	h := http.Header{}
	set(h)
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

// TestALimitedKeyLearnsNothingOfOthers: every route and tool, with keys for one namespace
// and for two, on memories inside and outside.
func TestALimitedKeyLearnsNothingOfOthers(t *testing.T) {
	l := newLife(t)
	core := l.stack.Core[0]
	key := func(namespaces ...string) stacktest.Header {
		t.Helper()
		a := core.Expect(201, "POST", "/keys", map[string]any{"label": "x", "scopes": []string{"read", "write", "retract", "share"}, "namespaces": namespaces}, l.session)
		if got := fmt.Sprint(a.Field("namespaces")); got != fmt.Sprint(namespaces) {
			t.Errorf("namespaces %s", got)
		}
		return stacktest.Bearer(a.Text("key"))
	}
	in := func(namespace string) map[string]any { return map[string]any{"namespace": namespace} }
	work := l.write("Rita likes tea at work", in("work"))
	home := l.write("Rita likes rum at home", in("home"))
	free := l.write("Rita likes wine anywhere", nil)
	worker, both := key("work"), key("work", "home")

	for name, c := range map[string]struct {
		body   map[string]any
		as     stacktest.Header
		status int
	}{
		"the only one":             {map[string]any{"content": "a"}, worker, 201},
		"named":                    {map[string]any{"content": "b", "namespace": "work"}, worker, 201},
		"another":                  {map[string]any{"content": "c", "namespace": "home"}, worker, 403},
		"another in the metadata":  {map[string]any{"content": "c", "metadata": in("home")}, worker, 403},
		"one of two":               {map[string]any{"content": "d", "namespace": "home"}, both, 201},
		"none of two":              {map[string]any{"content": "e"}, both, 400},
		"neither":                  {map[string]any{"content": "e", "namespace": "x"}, both, 403},
		"supersedes outside":       {map[string]any{"content": "f", "supersedes": []string{home}}, worker, 404},
		"supersedes outside, free": {map[string]any{"content": "f", "supersedes": []string{free}}, worker, 404},
		"supersedes inside":        {map[string]any{"content": "Rita likes tea", "supersedes": []string{work}}, worker, 201},
	} {
		if a := core.Do("POST", "/memories", c.body, c.as); a.Status != c.status {
			t.Errorf("write, %s: %d %s", name, a.Status, a.Body)
		}
	}
	// A correction outside does not show inside.
	l.write("Rita likes coffee", map[string]any{"supersedes": []string{work}})
	if m := decode[told](t, core.Expect(200, "GET", "/memories/"+work, nil, worker).Body); len(m.SupersededBy) != 1 {
		t.Errorf("superseded by %v: only the one inside", m.SupersededBy)
	}

	routes := []struct{ method, path string }{{"GET", ""}, {"GET", "/proof"}, {"GET", "/receipt"}}
	for _, c := range []struct {
		id     string
		as     stacktest.Header
		status int
	}{{work, worker, 200}, {home, worker, 404}, {free, worker, 404}, {work, both, 200}, {home, both, 200}, {free, both, 404}, {free, l.session, 200}} {
		for _, r := range routes {
			if a := core.Do(r.method, "/memories/"+c.id+r.path, nil, c.as); a.Status != c.status {
				t.Errorf("%s %s%s: %d, want %d", r.method, c.id, r.path, a.Status, c.status)
			}
		}
	}
	for _, r := range []string{"/export", "/events"} {
		core.Expect(403, "GET", r, nil, worker)
	}
	core.Expect(403, "POST", "/erasure", erasure(t, core, stacktest.NewWallet()), worker)
	core.Expect(404, "DELETE", "/memories/"+home, nil, worker)
	core.Expect(403, "POST", "/keys", map[string]any{"label": "x"}, worker)
	core.Expect(200, "GET", "/log", nil, worker)

	// Nothing that a search counts tells of the others. TestRandomWalksOfALimitedKey shows it of
	// what lists and searches say.
	secret := func(what, text string) {
		t.Helper()
		for _, word := range []string{"rum", "wine", "coffee", home, free} {
			if strings.Contains(text, word) {
				t.Errorf("%s tells of %q: %s", what, word, text)
			}
		}
	}
	for _, body := range []map[string]any{{"mode": "ranked", "query": "Rita b"}, {"mode": "ranked"}, {}} {
		all := decode[[]told](t, core.Expect(200, "POST", "/memories/search", body, worker).Body)
		body["limit"] = 1
		if got := core.Expect(200, "POST", "/memories/search", body, worker).Header.Get("Matched"); got != fmt.Sprint(len(all)) || len(all) < 2 {
			t.Errorf("%v matches %s, not %d", body, got, len(all))
		}
	}
	scores := func(as stacktest.Header, query string) (all []float64) {
		t.Helper()
		for _, m := range decode[[]scored](t, core.Expect(200, "POST", "/memories/search", map[string]any{"mode": "ranked", "query": query, "filter": map[string]any{"namespace": "work"}}, as).Body) {
			all = append(all, *m.Score)
		}
		return all
	}
	before := scores(worker, "tea")
	for range 20 {
		l.write("tea and more tea", in("home"))
	}
	if after := scores(worker, "tea"); !slices.Equal(before, after) {
		t.Errorf("scores %v became %v by memories outside", before, after)
	}

	// Tools and links.
	tools := agent(t, core, tokenIn(worker))
	_, text := use(t, tools, "recall", map[string]any{"query": "Rita likes", "limit": 10})
	secret("recall", text)
	_, text = use(t, tools, "search", map[string]any{"query": "Rita likes"})
	secret("search", text)
	for tool, arguments := range map[string]map[string]any{
		"get": {"id": home}, "fetch": {"id": home}, "prove": {"id": home}, "retract": {"id": home}, "correct": {"id": home, "content": "x"}, "open_case": {"namespace": "home"}, "leave_memory": {"namespace": "home"},
	} {
		if result, text := call(t, tools, tool, arguments); !result.IsError {
			t.Errorf("%s outside: %s", tool, text)
		}
	}
	link, _ := use(t, tools, "open_case", map[string]any{})
	_, token, _ := strings.Cut(link["url"].(string), "/agent-cases/")
	secret("a case", string(l.stack.Extension[0].Expect(200, "GET", "/agent-cases/"+token, nil).Body[100:]))
	link, _ = use(t, tools, "leave_memory", map[string]any{})
	_, token, _ = strings.Cut(link["url"].(string), "/memory-drops/")
	l.stack.Extension[0].Expect(201, "POST", "/memory-drops/"+token, map[string]any{"content": "left for work"})
	_, text = use(t, tools, "remember", map[string]any{"memories": []any{map[string]any{"content": "Rita likes rum at home"}}})
	if strings.Contains(text, home) {
		t.Errorf("remember tells what is like it outside: %s", text)
	}
	l.want("what a link left", l.found(map[string]any{"query": "left for", "filter": in("work")}), "left for work")
}

// TestAgentsCorrect: by id, and by the text that was recalled. The correction stays where
// the old memory was.
func TestAgentsCorrect(t *testing.T) {
	l := newLife(t)
	tools := agent(t, l.stack.Core[0], tokenIn(l.session))
	remember := func(text string, members map[string]any) (id, answer string) {
		t.Helper()
		m := map[string]any{"content": text}
		maps.Copy(m, members)
		out, answer := use(t, tools, "remember", map[string]any{"memories": []any{m}})
		return out["stored"].([]any)[0].(map[string]any)["id"].(string), answer
	}
	oslo, _ := remember("Ada lives in Oslo.", map[string]any{"tags": []string{"people"}, "namespace": "friends"})
	if _, answer := remember("Ada lives in Oslo!", nil); !strings.Contains(answer, oslo) {
		t.Errorf("nothing said of what is like it: %s", answer)
	}
	out, _ := use(t, tools, "correct", map[string]any{"id": oslo, "content": "Ada lives in Porto."})
	porto := l.get(out["stored"].(map[string]any)["id"].(string))
	if !strings.Contains(string(porto.Metadata), `"namespace":"friends"`) || !strings.Contains(string(porto.Metadata), `"tags":["people"]`) {
		t.Errorf("the correction's metadata: %s", porto.Metadata)
	}
	if _, text := use(t, tools, "recall", map[string]any{"query": "Ada"}); strings.Contains(text, oslo) || !strings.Contains(text, "Porto") {
		t.Errorf("recall: %s", text)
	}
	use(t, tools, "correct", map[string]any{"recalled": "Ada lives in Porto.", "content": "Ada lives in Faro."})
	if _, text := use(t, tools, "recall", map[string]any{"query": "Ada", "namespace": "friends", "tags": []string{"people"}}); !strings.Contains(text, "Faro") || strings.Contains(text, "Porto") {
		t.Errorf("recall: %s", text)
	}
	// By the ids that recall shows, and besides the memory that correct names.
	remember("Nobody lives in Oslo.", map[string]any{"supersedes": []string{"m1"}})
	use(t, tools, "correct", map[string]any{"recalled": "Nobody lives in Oslo.", "content": "Bo lives in Oslo.", "supersedes": []string{"m3"}})
	if _, text := use(t, tools, "recall", map[string]any{"query": "lives"}); strings.Contains(text, "Ada") || !strings.Contains(text, "Bo lives") {
		t.Errorf("recall: %s", text)
	}
	// An agent that still has the old one's id is told that it was corrected.
	for _, tool := range []string{"get", "fetch"} {
		if _, text := use(t, tools, tool, map[string]any{"id": oslo}); !strings.Contains(text, porto.ID) {
			t.Errorf("%s: %s", tool, text)
		}
	}
	for range 2 { // a repeated call gets the same answer
		if _, text := use(t, tools, "correct", map[string]any{"id": oslo, "content": "Ada lives in Lisbon."}); !strings.Contains(text, "Memory "+porto.ID+" corrected it before") {
			t.Errorf("a fork: %s", text)
		}
	}
	for _, arguments := range []map[string]any{
		{"content": "x"}, {"id": oslo, "recalled": "Ada", "content": "x"}, {"recalled": "nothing like it", "content": "x"}, {"id": "x", "content": "x"},
	} {
		if result, text := call(t, tools, "correct", arguments); !result.IsError {
			t.Errorf("%v: %s", arguments, text)
		}
	}
	if _, text := use(t, tools, "retract", map[string]any{"id": porto.ID}); !strings.Contains(text, "memory "+oslo+":") {
		t.Errorf("retract: %s", text)
	}
}
