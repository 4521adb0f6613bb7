package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// arena is two replicas of each API on one log and one database.
type arena struct {
	*stacktest.Stack
	t *testing.T
}

// rush lets clients act at the same time: none begins before all are ready.
func rush(clients int, act func(client int)) {
	var ready, done sync.WaitGroup
	ready.Add(clients)
	for client := range clients {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			act(client)
		})
	}
	done.Wait()
}

// handle is a grant and the means to use it.
type handle struct {
	a       *arena
	kind    string // "case" or "drop"
	session stacktest.Header
	id      string
	token   string
}

var grantPaths = map[string]string{"case": "/agent-cases", "drop": "/memory-drops"}

// mint makes a grant through one of the replicas.
func (a *arena) mint(replica int, kind string, uses int, session stacktest.Header) (handle, reply) {
	a.t.Helper()
	field := map[string]string{"case": "maxReads", "drop": "maxWrites"}[kind]
	m := a.Extension[replica%2].Expect(201, "POST", grantPaths[kind], map[string]any{field: uses}, session)
	return handle{a, kind, session, m.Text("id"), tokenOf(m)},
		reply{ok: m.Status == 201, id: m.Text("id"), previous: m.Number("revokedPreviousCount")}
}

// use spends a use of the grant, if one is left.
func (h handle) use(replica int) reply {
	h.a.t.Helper()
	c, path := h.a.Extension[replica%2], grantPaths[h.kind]+"/"+h.token
	if h.kind == "case" {
		return verdict(h.a.t, c.Do("GET", path, nil), 200, 404)
	}
	return verdict(h.a.t, c.Do("POST", path, map[string]any{"content": "by whoever holds the drop"}), 201, 404)
}

func (h handle) revoke(replica int) reply {
	h.a.t.Helper()
	a := h.a.Extension[replica%2].Expect(200, "POST", grantPaths[h.kind]+"/"+h.id+"/revoke", nil, h.session)
	return reply{ok: a.Field("revoked") == true}
}

func (h handle) status(replica int) reply {
	h.a.t.Helper()
	a := h.a.Extension[replica%2].Expect(200, "GET", grantPaths[h.kind]+"/"+h.id+"/status", nil, h.session)
	r := reply{used: a.Number("readCount"), remaining: a.Number("remainingReads"), revoked: a.Field("revoked") == true}
	if h.kind == "drop" {
		r.used, r.remaining = a.Number("writeCount"), a.Number("remainingWrites")
	}
	return r
}

// verdict turns one of two statuses into yes or no.
func verdict(t *testing.T, a stacktest.Answer, yes, no int) reply {
	t.Helper()
	if a.Status != yes && a.Status != no {
		t.Errorf("status %d, want %d or %d: %s", a.Status, yes, no, a.Body)
	}
	return reply{ok: a.Status == yes}
}

// held returns how many memories the owner of a session has, according to each replica of
// the extension API.
func (a *arena) held(session stacktest.Header) [2]int {
	a.t.Helper()
	var counts [2]int
	for i, c := range a.Extension {
		list := decode[struct{ Memories []view }](a.t, c.Expect(200, "GET", "/memories", nil, session).Body)
		counts[i] = len(list.Memories)
	}
	return counts
}

// TestGrantsUnderRace: 20 readers compete for one read, and 30 writers for three writes,
// while the owner watches.
func TestGrantsUnderRace(t *testing.T) {
	a := &arena{shared(t), t}
	for _, race := range []struct {
		kind             string
		uses, contenders int
	}{{"case", 1, 20}, {"drop", 3, 30}, {"case", 4, 20}, {"drop", 1, 20}} {
		name := fmt.Sprintf("%s, %d under %d", race.kind, race.uses, race.contenders)
		session := a.Extension[0].SignIn(stacktest.NewWallet())
		a.Extension[0].Expect(201, "POST", "/memories", map[string]any{"content": "to be read", "source": "s"}, session)
		grant, _ := a.mint(0, race.kind, race.uses, session)
		h := newHistory(t)
		rush(race.contenders+4, func(client int) {
			if client >= race.contenders { // the owner watches from four clients
				for n := range 3 {
					h.do(client, ask{what: "status"}, func() reply { return grant.status(client + n) })
				}
				return
			}
			h.do(client, ask{what: "use"}, func() reply { return grant.use(client) })
		})
		h.check(grantModel(race.uses))
		if used, refused := h.count("use"); used != race.uses || refused != race.contenders-race.uses {
			t.Errorf("%s: %d got one, %d did not", name, used, refused)
		}
		for replica := range 2 {
			if s := grant.status(replica); s.used != race.uses || s.remaining != 0 || s.revoked {
				t.Errorf("%s: status %+v", name, s)
			}
		}
		want := 1
		if race.kind == "drop" {
			want += race.uses
		}
		if held := a.held(session); held != [2]int{want, want} {
			t.Errorf("%s: %v memories, want %d", name, held, want)
		}
	}
}

// TestMintsUnderRace: of ten concurrent mints, one is active in the end, and the answers
// count the nine others as revoked, while earlier ones are used and looked at.
func TestMintsUnderRace(t *testing.T) {
	a := &arena{shared(t), t}
	for _, kind := range []string{"case", "drop"} {
		const mints, uses = 10, 3
		session := a.Extension[0].SignIn(stacktest.NewWallet())
		h := newHistory(t)
		var mu sync.Mutex
		var minted []handle
		revoked := 0
		mint := func(client int) {
			h.do(client, ask{what: "mint"}, func() reply {
				made, r := a.mint(client, kind, uses, session)
				mu.Lock()
				defer mu.Unlock()
				minted = append(minted, made)
				revoked += r.previous
				return r
			})
		}
		newest := func() handle {
			mu.Lock()
			defer mu.Unlock()
			return minted[len(minted)-1]
		}
		mint(0)
		rush(mints+6, func(client int) {
			switch {
			case client < mints:
				mint(client)
			case client%2 == 0:
				for range 3 {
					g := newest()
					h.do(client, ask{what: "use", id: g.id}, func() reply { return g.use(client) })
				}
			default:
				for n := range 3 {
					g := newest()
					h.do(client, ask{what: "status", id: g.id}, func() reply { return g.status(client + n) })
				}
			}
		})
		// Count the grants that were spent before they could be revoked, and the active
		// ones.
		spent, active := 0, 0
		for i, g := range minted {
			s := h.do(100, ask{what: "status", id: g.id}, func() reply { return g.status(i) })
			switch {
			case s.used == uses:
				spent++
			case !s.revoked:
				active++
			}
		}
		if active > 1 || active+spent+revoked != mints+1 {
			t.Errorf("%s: %d active, %d spent, %d revoked of %d", kind, active, spent, revoked, mints+1)
		}
		for i, g := range minted {
			h.do(100, ask{what: "use", id: g.id}, func() reply { return g.use(i) })
		}
		h.check(mintModel(uses))
	}
}

// TestDropsAreLinearizable mixes all operations for a longer time, for both kinds.
func TestDropsAreLinearizable(t *testing.T) {
	a := &arena{shared(t), t}
	session := a.Extension[0].SignIn(stacktest.NewWallet())
	for round := range 6 {
		const uses = 4
		kind := []string{"drop", "case"}[round%2]
		grant, _ := a.mint(round, kind, uses, session)
		h := newHistory(t)
		rush(8, func(client int) {
			for n := range 4 {
				switch {
				case round > 1 && client == 7 && n == 2:
					h.do(client, ask{what: "revoke"}, func() reply { return grant.revoke(client + n) })
				case n%2 == 0:
					h.do(client, ask{what: "use"}, func() reply { return grant.use(client + n) })
				default:
					h.do(client, ask{what: "status"}, func() reply { return grant.status(client + n) })
				}
			}
		})
		h.check(grantModel(uses))
	}
}

// contest lets nine clients use an owner's credential while three others end it. Each "end"
// must succeed, and every other request exactly until the end: at any replica of the
// credential's API, and no more than the acknowledged memories may be there. It returns how
// many that are.
func (a *arena) contest(api []*stacktest.Client, owner, credential stacktest.Header, look string, end func(replica int) reply) (wrote int) {
	t := a.t
	t.Helper()
	use := func(i, replica int) reply {
		c := api[replica%2]
		switch i {
		case 0:
			return verdict(t, c.Do("POST", "/memories", map[string]any{"content": "x", "source": "s"}, credential), 201, 401)
		case 1:
			return verdict(t, c.Do("GET", look, nil, credential), 200, 401)
		}
		return verdict(t, c.Do("POST", "/memories", `nope`, credential), 400, 401)
	}
	const users, enders, uses = 9, 3, 3
	h := newHistory(t)
	rush(users+enders, func(client int) {
		if client >= users {
			h.do(client, ask{what: "end"}, func() reply { return end(client) })
			return
		}
		for n := range uses {
			i := (client + n) % uses
			h.do(client, ask{what: fmt.Sprint("use ", i)}, func() reply { return use(i, client/2+n) })
		}
	})
	for i := range uses { // also after the end, on either replica
		for replica := range 2 {
			h.do(0, ask{what: fmt.Sprint("use ", i)}, func() reply { return use(i, replica) })
		}
	}
	h.check(credentialModel())
	if ended, refused := h.count("end"); ended != enders || refused != 0 {
		t.Errorf("ended by %d, refused to %d", ended, refused)
	}
	wrote, _ = h.count("use 0")
	for _, c := range a.Core {
		if size := c.Expect(200, "GET", "/log", nil, owner).Number("treeSize"); size != wrote {
			t.Errorf("%d memories, %d were acknowledged", size, wrote)
		}
	}
	return wrote
}

// TestEndedSessionAgainstUse: a session of either API opens everything until its owner
// ends it with another session, and nothing after that, on any replica.
func TestEndedSessionAgainstUse(t *testing.T) {
	a := &arena{shared(t), t}
	for round := range 4 {
		wallet := stacktest.NewWallet()
		owner, api := a.Core[round%2].SignIn(wallet), []string{"core", "extension"}[round%2]
		clients := map[string][]*stacktest.Client{"core": a.Core, "extension": a.Extension}[api]
		session := clients[round%2].SignIn(wallet)
		id := ""
		for _, s := range sessionsOf(t, a.Core[0], owner) {
			if s.API == api && !s.Current {
				id = s.ID
			}
		}
		look := map[string]string{"core": "/log", "extension": "/auth/me"}[api]
		a.contest(clients, owner, session, look, func(r int) reply {
			if round < 2 {
				return verdict(t, a.Core[r%2].Do("DELETE", "/auth/sessions/"+id, nil, owner), 200, 404)
			}
			return verdict(t, a.Core[r%2].Do("DELETE", "/auth/sessions", nil, owner), 200, 404)
		})
	}
}

// TestAnEndedSessionMakesNoKey: a key that a session requests while it is being ended is
// made before the end, or not at all.
func TestAnEndedSessionMakesNoKey(t *testing.T) {
	a := &arena{shared(t), t}
	for round := range 4 {
		wallet := stacktest.NewWallet()
		owner, session := a.Core[0].SignIn(wallet), a.Core[1].SignIn(wallet)
		var listed []map[string]any
		var made atomic.Int64
		rush(9, func(client int) {
			if client == 8 {
				if a := a.Core[round%2].Persist("DELETE", "/auth/sessions", nil, owner); a.Status != 200 {
					t.Errorf("end the sessions: %d %s", a.Status, a.Body)
				}
				listed = decode[[]map[string]any](t, a.Core[(round+1)%2].Expect(200, "GET", "/keys", nil, owner).Body)
				return
			}
			for a.Core[client%2].Do("POST", "/keys", map[string]any{"label": "x"}, session).Status == 201 {
				made.Add(1)
			}
		})
		if int(made.Load()) != len(listed) {
			t.Errorf("%d keys were made, and %d were there after the session's end", made.Load(), len(listed))
		}
	}
}

// TestRevokedKeyWritesNothing: an API key opens everything until it is revoked, and
// nothing after that.
func TestRevokedKeyWritesNothing(t *testing.T) {
	a := &arena{shared(t), t}
	for round := range 3 {
		wallet := stacktest.NewWallet()
		owner := a.Core[round%2].SignIn(wallet)
		made := a.Core[round%2].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, owner)
		wrote := a.contest(a.Core, owner, stacktest.Bearer(made.Text("key")), "/log", func(r int) reply {
			return verdict(t, a.Core[r%2].Do("DELETE", "/keys/"+made.Text("id"), nil, owner), 200, 404)
		})
		if held := a.held(a.Extension[0].SignIn(wallet)); held != [2]int{wrote, wrote} {
			t.Errorf("the other API holds %v memories, %d were acknowledged", held, wrote)
		}
	}
}

// ownersClient is one of an owner's clients, with its own session.
type ownersClient struct {
	a       *arena
	h       *history
	wallet  stacktest.Wallet
	number  int
	asked   int
	name    string // of the session
	session stacktest.Header
}

// core returns the replica for the next request.
func (o *ownersClient) core() *stacktest.Client {
	o.asked++
	return o.a.Core[(o.number+o.asked)%2]
}

func (o *ownersClient) signIn() {
	c := o.core()
	o.name = fmt.Sprintf("session-%d-%d", o.number, o.asked)
	o.h.do(o.number, ask{what: "sign in", session: o.name}, func() reply {
		challenge := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": o.wallet.PublicKey})
		for {
			a := c.Do("POST", "/auth/verify", o.wallet.Answer(challenge.Text("message")))
			if a.Status == 503 {
				continue // an erasure destroyed the key that the sign-in had made
			}
			o.session = stacktest.Bearer(a.Text("token"))
			return verdict(o.a.t, a, 200, 200)
		}
	})
}

// do sends a request, repeats it while the service can't tell, and signs in again if the
// request was not let in. answer reads the reply from an answer of 200, 201 or 410.
func (o *ownersClient) do(what, text, method, path string, body any, answer func(stacktest.Answer) reply) (in bool) {
	c := o.core()
	got := o.h.do(o.number, ask{what, text, o.name}, func() reply {
		for {
			a := c.Do(method, path, body, o.session, stacktest.With("Idempotency-Key", "k-"+text))
			switch a.Status {
			case 200, 201, 410:
				return answer(a)
			case 401:
				return reply{}
			case 503: // the key is destroyed, but the log does not say so yet
			default:
				o.a.t.Errorf("%s %s: status %d: %s", method, path, a.Status, a.Body)
				return reply{}
			}
		}
	})
	if !got.ok {
		o.signIn()
	}
	return got.ok
}

// write stores a text and returns the memory's id.
func (o *ownersClient) write(text string) (id string, in bool) {
	in = o.do("write", text, "POST", "/memories", map[string]any{"content": text}, func(a stacktest.Answer) reply {
		id = a.Text("id")
		return reply{ok: a.Status == 201}
	})
	return id, in
}

func (o *ownersClient) read(text, id string) {
	o.do("read", text, "GET", "/memories/"+id, nil, func(a stacktest.Answer) reply {
		if got := a.Text("content"); a.Status == 200 && got != text {
			o.a.t.Errorf("%q was written, and %q is read", text, got)
		}
		return reply{ok: true, revoked: a.Status == 410}
	})
}

func (o *ownersClient) list() {
	o.do("list", "", "GET", "/memories", nil, func(a stacktest.Answer) reply {
		if a.Status == 410 {
			return reply{ok: true, revoked: true}
		}
		var texts []string
		for _, m := range decode[[]view](o.a.t, a.Body) {
			texts = append(texts, m.Content)
		}
		return reply{ok: true, texts: setOf(texts...)}
	})
}

// TestErasureIsLinearizable: all texts disappear at one moment of an erasure, on all
// replicas. No earlier session is let in after it, and the owner begins again.
func TestErasureIsLinearizable(t *testing.T) {
	t.Parallel()
	a := &arena{stacktest.Start(t, stacktest.Options{Core: 2, Extension: 2}), t}
	rush(4, func(int) {
		wallet, h := stacktest.NewWallet(), newHistory(t)
		var mu sync.Mutex
		var newest struct{ text, id string }
		rush(8, func(client int) {
			o := &ownersClient{a: a, h: h, wallet: wallet, number: client}
			o.signIn()
			for n := range 6 {
				switch client {
				case 0, 1, 2:
					text := fmt.Sprintf("text-%d-%d", client, n)
					if id, in := o.write(text); in {
						mu.Lock()
						newest.text, newest.id = text, id
						mu.Unlock()
					}
				case 3, 4:
					o.list()
				case 5:
					mu.Lock()
					known := newest
					mu.Unlock()
					if known.id != "" {
						o.read(known.text, known.id)
					}
				case 6:
					o.signIn()
				default:
					if n%3 == 1 {
						h.do(client, ask{what: "erase"}, func() reply {
							// 503: new sign-ins came between for as long as a request may take.
							c := o.core()
							erased := c.Persist("POST", "/erasure", erasure(t, c, wallet))
							done := verdict(t, erased, 200, 200)
							done.used = erased.Number("erased")
							return done
						})
						continue
					}
					o.list()
				}
			}
		})
		h.check(textsModel())
		h.check(sessionsModel())
	})
	agrees(t, a.Stack)
}
