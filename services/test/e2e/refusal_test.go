package e2e_test

import (
	"bytes"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// dead is a token or a credential that opens nothing.
type dead struct {
	why   string
	token string
	later time.Duration // after this time it is dead
}

// oneLook is the allowed work of refusing a token or a credential: the fence's one
// request to the log, and one lookup.
var oneLook = work{Head: 1, Queries: 1}

// unknownToken returns a token that could have been issued, but was not. Its hash is low,
// so that a row follows it, as in a table of any size. In a table of three rows, every
// fourth token would be the last.
func unknownToken(t *testing.T, prefix string) string {
	t.Helper()
	for {
		token, hash := signin.NewToken(prefix)
		if hash[0] == 0 {
			return token
		}
	}
}

func tokenOf(minted stacktest.Answer) string {
	url := minted.Text("url")
	return url[strings.LastIndex(url, "/")+1:]
}

// deadGrants makes a token of a kind for every way in which a token can die.
func deadGrants(t *testing.T, c *stacktest.Client, session stacktest.Header, path, prefix string, spend func(token string)) []dead {
	t.Helper()
	mint := func() stacktest.Answer { return c.Expect(201, "POST", path, nil, session) }
	spent := tokenOf(mint())
	spend(spent)
	revoked := mint()
	c.Expect(200, "POST", path+"/"+revoked.Text("id")+"/revoke", nil, session)
	superseded, expired := tokenOf(mint()), tokenOf(mint())
	return []dead{
		{why: "unknown", token: unknownToken(t, prefix)},
		{why: "spent", token: spent},
		{why: "revoked", token: tokenOf(revoked)},
		{why: "superseded", token: superseded},
		{why: "expired", token: expired, later: 16 * time.Minute},
	}
}

// TestDeadTokensCostTheSame counts the work of refusing a token. It is the same for every
// kind of dead token, so a clock can show no difference.
func TestDeadTokensCostTheSame(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	c := s.Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	write := map[string]any{"content": "x"}
	cases := deadGrants(t, c, session, "/agent-cases", "svc_case_", func(token string) { c.Expect(200, "GET", "/agent-cases/"+token, nil) })
	drops := deadGrants(t, c, session, "/memory-drops", "svc_drop_", func(token string) { c.Expect(201, "POST", "/memory-drops/"+token, write) })
	n := startCounted(t, s)
	same := map[string]stacktest.Answer{}
	try := func(what string, d dead, method, path string, body any, headers ...stacktest.Header) {
		want := oneLook
		if len(headers) > 0 { // an Idempotency-Key, which is also looked up
			want.Queries++
		}
		for range 2 { // the second refusal is no quicker
			var a stacktest.Answer
			var took work
			n.later(d.later, func() {
				took = n.during(func() { a = n.Extension.Expect(404, method, path+d.token, body, headers...) })
			})
			if took != want {
				t.Errorf("%s, %s: took %+v, want %+v", what, d.why, took, want)
			}
			first, ok := same[method]
			if !ok {
				same[method] = a
			} else if !bytes.Equal(a.Body, first.Body) || headerNames(a.Header) != headerNames(first.Header) {
				t.Errorf("%s, %s: %s %v, want %s %v", what, d.why, a.Body, a.Header, first.Body, first.Header)
			}
		}
	}
	for _, d := range cases {
		try("case", d, "GET", "/agent-cases/", nil)
	}
	for _, d := range drops {
		try("drop", d, "POST", "/memory-drops/", write)
		try("drop with a bad body", d, "POST", "/memory-drops/", `{"content":1}`)
		try("drop with no JSON", d, "POST", "/memory-drops/", `nope`)
		try("drop with a key", d, "POST", "/memory-drops/", write, stacktest.With("Idempotency-Key", "k"))
	}
	// A string without the form of a token needs no lookup. Its quicker refusal shows a
	// guesser the form of tokens, which is no secret.
	for _, malformed := range []string{"svc_case_", "x", cases[0].token + "x", drops[0].token, strings.Repeat("a", 500)} {
		if took := n.during(func() { n.Extension.Expect(404, "GET", "/agent-cases/"+malformed, nil) }); took != (work{}) {
			t.Errorf("%.50s: took %+v", malformed, took)
		}
	}
}

// request is a request that carries a credential.
type request struct {
	method, path string
	body         any
}

// TestDeadCredentialsCostTheSame does the same for API keys and extension sessions: 401,
// one wait and one lookup, for good bodies and bad ones.
func TestDeadCredentialsCostTheSame(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	wallet := stacktest.NewWallet()
	n := startCounted(t, s)
	note := map[string]any{"content": "x", "source": "s"}
	for _, api := range []struct {
		name       string
		to         *stacktest.Client
		prefix     string
		requests   []request
		live       request // the request to try a live credential with
		make       func() (token string, kill func())
		expireWith time.Duration // 0: does not expire
	}{
		{
			name: "session", to: n.Extension, prefix: signin.ExtensionTokenPrefix, live: request{"GET", "/memories", nil},
			requests: []request{
				{"GET", "/memories", nil}, {"GET", "/auth/me", nil}, {"POST", "/auth/logout", nil}, {"POST", "/memories", note},
				{"POST", "/memories", `nope`}, {"POST", "/agent-cases", nil}, {"POST", "/agent-cases", `{"maxReads":99}`},
				{"POST", "/memory-drops", nil}, {"POST", "/memory-drops/none/revoke", nil}, {"GET", "/agent-cases/none/status", nil},
			},
			make: func() (string, func()) {
				token := s.Extension[0].Token(wallet)
				return token, func() { s.Extension[0].Expect(200, "POST", "/auth/logout", nil, stacktest.Bearer(token)) }
			},
			expireWith: 169 * time.Hour,
		},
		{
			name: "key", to: n.Core, prefix: "svc_", live: request{"POST", "/memories", note},
			requests: []request{
				{"GET", "/memories", nil}, {"POST", "/memories", note}, {"POST", "/memories", `nope`}, {"POST", "/memories/search", nil},
				{"GET", "/log", nil}, {"GET", "/staking/status", nil}, {"POST", "/keys", `nope`},
			},
			make: func() (string, func()) {
				owner := s.Core[0].SignIn(wallet)
				made := s.Core[0].Expect(201, "POST", "/keys", map[string]any{
					"label": "x", "expiresAt": time.Now().Add(time.Hour),
				}, owner)
				return made.Text("key"), func() { s.Core[0].Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, owner) }
			},
			expireWith: 61 * time.Minute,
		},
	} {
		// Check the answer to a dead credential, and the work that it took.
		refused := func(d dead, r request, want work) {
			t.Helper()
			var a stacktest.Answer
			var took work
			n.later(d.later, func() {
				took = n.during(func() { a = api.to.Expect(401, r.method, r.path, r.body, stacktest.Bearer(d.token)) })
			})
			if took != want {
				t.Errorf("%s, %s: %s %s %v: took %+v, want %+v", api.name, d.why, r.method, r.path, r.body, took, want)
			}
			if a.Text("error") != "missing or invalid credential" || (a.Field("cause") != nil && a.Text("cause") != a.Text("error")) {
				t.Errorf("%s, %s: %s", api.name, d.why, a.Body)
			}
		}
		status := 200
		if api.live.method == "POST" {
			status = 201
		}
		revoked, kill := api.make()
		kill()
		known, killKnown := api.make() // this replica sees it alive before it dies
		api.to.Expect(status, api.live.method, api.live.path, api.live.body, stacktest.Bearer(known))
		killKnown()
		refused(dead{why: "bad body right after", token: known}, request{"POST", "/memories", `nope`}, oneLook)
		all := []dead{{why: "unknown", token: unknownToken(t, api.prefix)}, {why: "revoked", token: revoked}, {why: "revoked, known here", token: known}}
		if api.expireWith > 0 {
			expired, _ := api.make()
			api.to.Expect(status, api.live.method, api.live.path, api.live.body, stacktest.Bearer(expired))
			all = append(all, dead{why: "expired", token: expired, later: api.expireWith})
		}
		for _, d := range all {
			for _, r := range api.requests {
				refused(d, r, oneLook)
			}
		}
		for _, malformed := range []string{api.prefix, api.prefix + "x", all[0].token + "x"} {
			refused(dead{why: "malformed", token: malformed}, api.requests[0], work{})
		}
		// A live credential writes without a lookup.
		live, _ := api.make()
		api.to.Expect(201, "POST", "/memories", note, stacktest.Bearer(live))
		took := n.during(func() { api.to.Expect(201, "POST", "/memories", note, stacktest.Bearer(live)) })
		if took.Queries != 0 || took.Head != 0 || took.OwnerTail != 0 || took.Appends != 1 {
			t.Errorf("%s, live: a write took %+v", api.name, took)
		}
		// A live credential that reads is looked up once after the log has grown, and not
		// again until it grows again.
		read := func() work {
			return n.during(func() { api.to.Expect(200, "GET", "/memories", nil, stacktest.Bearer(live)) })
		}
		for _, grow := range []bool{false, true} {
			if grow {
				api.to.Expect(201, "POST", "/memories", note, stacktest.Bearer(live))
			}
			if took := read(); took.Queries != 1 { // it may wait until the write is in the read models
				t.Errorf("%s, live: the first read after a write took %+v", api.name, took)
			}
			read()
			if took := read(); took != (work{Head: 1}) {
				t.Errorf("%s, live: the third read after a write took %+v", api.name, took)
			}
		}
	}
}

// TestDeadTokensTakeTheSameTime measures what a guesser could measure: the time of
// answers over HTTP. The classes take turns in random order, so that other work of the
// machine affects all of them alike. The measure is how often an answer of one class is
// slower than an answer of another class. It is one half if there is no difference,
// whatever the times are. Run with -v for the medians.
func TestDeadTokensTakeTheSameTime(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	const (
		rounds = 300
		// With 300 answers each, chance moves the share by 0.024 (one standard
		// deviation).
		tolerance = 0.15
	)
	s := stacktest.Start(t, stacktest.Options{})
	c := s.Extension[0]
	wallet := stacktest.NewWallet()
	session := c.SignIn(wallet)
	cases := deadGrants(t, c, session, "/agent-cases", "svc_case_", func(token string) { c.Expect(200, "GET", "/agent-cases/"+token, nil) })
	drops := deadGrants(t, c, session, "/memory-drops", "svc_drop_", func(token string) {
		c.Expect(201, "POST", "/memory-drops/"+token, map[string]any{"content": "x"})
	})
	// This token really is expired: it was minted with almost no time to live.
	n := startCounted(t, s)
	for _, kind := range []events.GrantKind{events.GrantCase, events.GrantDrop} {
		minted, err := n.Grants.Mint(t.Context(), events.Owner(wallet.PublicKey), command.Credential{}, kind, time.Microsecond, 1)
		if err != nil {
			t.Fatal(err)
		}
		list := cases
		if kind == events.GrantDrop {
			list = drops
		}
		list[len(list)-1].token = minted.URL[strings.LastIndex(minted.URL, "/")+1:]
	}
	guess := func(method, path string, body any, status int, all []dead, with func(token string) []stacktest.Header) {
		times := make([][]time.Duration, len(all))
		for range rounds {
			for _, i := range mathrand.Perm(len(all)) {
				at, headers := path+all[i].token, []stacktest.Header(nil)
				if with != nil {
					at, headers = path, with(all[i].token)
				}
				start := time.Now()
				c.Expect(status, method, at, body, headers...)
				times[i] = append(times[i], time.Since(start))
			}
		}
		for i, d := range all {
			share := slower(times[i], times[0])
			t.Logf("%-5s %-14s %-11s median %-8v slower than unknown: %.2f", method, path, d.why, median(times[i]).Round(time.Microsecond), share)
			if share < 0.5-tolerance || share > 0.5+tolerance {
				t.Errorf("%s %s: %s tokens can be told from unknown ones by time: slower in %.2f of all comparisons", method, path, d.why, share)
			}
		}
	}
	guess("GET", "/agent-cases/", nil, 404, cases, nil)
	guess("POST", "/memory-drops/", map[string]any{"content": "x"}, 404, drops, nil)
	loggedOut := c.Token(wallet)
	c.Expect(200, "POST", "/auth/logout", nil, stacktest.Bearer(loggedOut))
	bearer := func(token string) []stacktest.Header { return []stacktest.Header{stacktest.Bearer(token)} }
	guess("GET", "/memories", nil, 401, []dead{
		{why: "unknown", token: unknownToken(t, signin.ExtensionTokenPrefix)}, {why: "revoked", token: loggedOut},
	}, bearer)
	c = s.Core[0]
	owner := c.SignIn(wallet)
	made := c.Expect(201, "POST", "/keys", map[string]any{"label": "x"}, owner)
	c.Expect(200, "GET", "/log", nil, stacktest.Bearer(made.Text("key")))
	c.Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, owner)
	guess("GET", "/memories", nil, 401, []dead{
		{why: "unknown", token: unknownToken(t, "svc_")}, {why: "revoked", token: made.Text("key")},
	}, bearer)
}

// slower returns the share of pairs in which the answer of a took longer.
func slower(a, b []time.Duration) float64 {
	var count float64
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				count++
			case x == y:
				count += 0.5
			}
		}
	}
	return count / float64(len(a)*len(b))
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// TestTheMeasureBites: a hardly visible difference is detected.
func TestTheMeasureBites(t *testing.T) {
	t.Parallel()
	var a, b []time.Duration
	for i := range 300 {
		a = append(a, time.Duration(500+i)*time.Microsecond)
		b = append(b, time.Duration(450+i)*time.Microsecond)
	}
	if share := slower(a, b); share < 0.65 {
		t.Errorf("a tenth slower, and the share is %.2f", share)
	}
	if share := slower(a, a); share != 0.5 {
		t.Errorf("the same times give %.2f", share)
	}
}
