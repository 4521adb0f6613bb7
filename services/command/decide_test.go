package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
)

const testOwner = events.Owner("4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM")

// model checks the outcome of decisions: a second, slower bookkeeping that shares no code
// with State.
type model struct {
	leaves   uint64
	minted   map[string]*modelGrant
	keys     map[string]bool      // not revoked
	expiries map[string]time.Time // of the keys that expire
	sessions map[string]time.Time
	core     map[string]bool // sessions of the core API
	answers  map[events.Hash]Written
	keyUsed  map[string]time.Time
}

type modelGrant struct {
	kind    events.GrantKind
	expires time.Time
	uses    int
	by      Credential
	dead    bool
}

func (g *modelGrant) live(now time.Time) bool { return !g.dead && g.uses > 0 && now.Before(g.expires) }

// machine drives a state and a model with the same random commands.
type machine struct {
	t     *rapid.T
	state *State
	model model
	now   time.Time
	seq   uint64
	ids   int
}

func newMachine(t *rapid.T) *machine {
	return &machine{
		t: t, state: NewState(testOwner), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		model: model{
			minted: map[string]*modelGrant{}, keys: map[string]bool{}, expiries: map[string]time.Time{}, sessions: map[string]time.Time{}, core: map[string]bool{},
			answers: map[events.Hash]Written{}, keyUsed: map[string]time.Time{},
		},
	}
}

func (m *machine) id(kind string) string {
	m.ids++
	return fmt.Sprintf("%s-%d", kind, m.ids)
}

// copied is a deep copy, to check that a decision does not change the state.
func copied(s *State) State {
	c := *s
	c.Grants, c.Keys = maps.Clone(s.Grants), maps.Clone(s.Keys)
	c.Sessions, c.CoreSessions = maps.Clone(s.Sessions), maps.Clone(s.CoreSessions)
	return c
}

// decide checks that a decision is pure, then applies it as the executor does.
func (m *machine) decide(c Command) (Decision, error) {
	before := copied(m.state)
	d, err := c.decide(m.state, m.now)
	if !reflect.DeepEqual(before, copied(m.state)) {
		m.t.Fatalf("%T changed the state", c)
	}
	again, errAgain := c.decide(m.state, m.now)
	if !reflect.DeepEqual(d, again) || !errors.Is(errAgain, err) {
		m.t.Fatalf("%T decides %v, then %v", c, d, again)
	}
	if err != nil && len(d.Events) > 0 {
		m.t.Fatalf("%T refuses with events", c)
	}
	if len(d.Events) == 0 {
		return d, err
	}
	m.seq += uint64(rapid.IntRange(1, 3).Draw(m.t, "others' messages"))
	batch := make([]events.Event, len(d.Events))
	for i, data := range d.Events {
		batch[i] = events.Event{
			ID: m.id("event"), Source: "/test", Owner: testOwner, Time: events.At(m.now),
			OwnerVersion: m.state.Version + 1, CommandID: m.id("command"), Data: data,
		}
		batch[i].CommandID = batch[0].CommandID
	}
	// Apply the events as decoded from the log's bytes.
	payload, err := events.EncodeBatch(batch)
	if err != nil {
		m.t.Fatal(err)
	}
	decoded, err := events.DecodeBatch(payload)
	if err != nil {
		m.t.Fatal(err)
	}
	m.state.Apply(m.seq, decoded)
	return d, nil
}

func (m *machine) pick(kind string, ids []string) string {
	return rapid.SampledFrom(append(ids, kind+"-unknown")).Draw(m.t, kind)
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

func has[V any](of map[string]V, id string) bool { _, ok := of[id]; return ok }

func (m *machine) keyLives(id string) bool {
	expires, some := m.model.expiries[id]
	return m.model.keys[id] && (!some || m.now.Before(expires))
}

func (m *machine) credential() (Credential, bool) {
	switch rapid.IntRange(0, 2).Draw(m.t, "credential") {
	case 0:
		return Credential{}, true
	case 1:
		id := m.pick("key", sortedKeys(m.model.keys))
		return Credential{Kind: CredentialKey, ID: id}, m.keyLives(id)
	default:
		id := m.pick("session", sortedKeys(m.model.sessions))
		// A session of one API is not valid for the other.
		kind, right := CredentialExtensionSession, !m.model.core[id]
		if rapid.Bool().Draw(m.t, "as a core session") {
			kind, right = CredentialCoreSession, m.model.core[id]
		}
		return Credential{Kind: kind, ID: id}, right && m.now.Before(m.model.sessions[id])
	}
}

func (m *machine) write() {
	credential, alive := m.credential()
	w := &WriteMemory{
		MemoryID: m.id("memory"), LeafHash: events.Hash{byte(rapid.IntRange(0, 3).Draw(m.t, "leaf"))},
		Metadata: canonical.Empty, Seal: sealed, Credential: credential,
	}
	if rapid.Bool().Draw(m.t, "idempotent") {
		w.IdempotencyKey = &events.Hash{0xff, byte(rapid.IntRange(0, 2).Draw(m.t, "idempotency key"))}
		if first, ok := m.model.answers[*w.IdempotencyKey]; ok {
			w.first = &first // as the executor finds it
		}
	}
	if !alive {
		m.checkDead(w, credential)
		return
	}
	d, err := m.decide(w)
	if w.IdempotencyKey != nil {
		if first, ok := m.model.answers[*w.IdempotencyKey]; ok {
			m.checkReplay(w, first, d, err)
			return
		}
		m.model.answers[*w.IdempotencyKey] = w.Written
	}
	if err != nil || w.Written.LeafIndex != m.model.leaves {
		m.t.Fatalf("leaf %d, want %d: %v", w.Written.LeafIndex, m.model.leaves, err)
	}
	m.model.leaves++
	m.checkKeyUse(credential, d)
}

func (m *machine) checkReplay(w *WriteMemory, first Written, d Decision, err error) {
	switch {
	case len(d.Events) > 0:
		m.t.Fatal("a repeated request wrote again")
	case first.LeafHash != w.LeafHash && !errors.Is(err, ErrIdempotencyMismatch):
		m.t.Fatalf("another body: %v", err)
	case first.LeafHash == w.LeafHash && (err != nil || w.Written != first || !w.Replayed):
		m.t.Fatalf("got %v, first was %v: %v", w.Written, first, err)
	}
}

// checkDead: a command with a credential that is not alive is refused and stores nothing.
func (m *machine) checkDead(c Command, by Credential) {
	if d, err := m.decide(c); !errors.Is(err, ErrCredentialDead) || len(d.Events) > 0 {
		m.t.Fatalf("%T with dead credential %v: %v, %v", c, by, d, err)
	}
}

// checkKeyUse: at most one use of a key is recorded a minute.
func (m *machine) checkKeyUse(c Credential, d Decision) {
	if c.Kind != CredentialKey {
		return
	}
	due := m.now.Sub(m.model.keyUsed[c.ID]) >= time.Minute
	if recorded := len(d.Events) == 2; recorded != due {
		m.t.Fatalf("use recorded: %v, due: %v", recorded, due)
	}
	if due {
		m.model.keyUsed[c.ID] = m.now
	}
}

func (m *machine) mint() {
	kind := rapid.SampledFrom([]events.GrantKind{events.GrantCase, events.GrantDrop}).Draw(m.t, "kind")
	credential, alive := m.credential()
	uses := rapid.IntRange(1, 3).Draw(m.t, "uses")
	expires := m.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(m.t, "minutes")) * time.Minute)
	c := &MintGrant{GrantID: m.id("grant"), Kind: kind, ExpiresAt: events.At(expires), MaxUses: uses, Credential: credential}
	if !alive {
		m.checkDead(c, credential)
		return
	}
	expected := 0
	for _, g := range m.model.minted {
		if g.kind == kind {
			if g.live(m.now) {
				expected++
			}
			g.dead = true
		}
	}
	if _, err := m.decide(c); err != nil || c.RevokedPrevious != expected {
		m.t.Fatalf("revoked %d, want %d: %v", c.RevokedPrevious, expected, err)
	}
	if expected > 1 {
		m.t.Fatalf("%d grants of a kind were alive", expected)
	}
	if end, some := m.model.expiries[credential.ID]; some && end.Before(expires) {
		expires = end
	}
	if !c.ExpiresAt.Time().Equal(expires) {
		m.t.Fatalf("a grant of %v ends at %v, want %v", credential, c.ExpiresAt, expires)
	}
	m.model.minted[c.GrantID] = &modelGrant{kind: kind, expires: expires, uses: uses, by: credential}
}

// endGrants ends the grants of the credentials that are chosen, and reports whether one of
// them was alive for a replica whose clock is behind.
func (m *machine) endGrants(chosen func(by Credential) bool) (some bool) {
	for _, g := range m.model.minted {
		if chosen(g.by) {
			some = some || g.live(m.now.Add(-clockSpread))
			g.dead = true
		}
	}
	return some
}

func sealed(uint64) ([]byte, int) { return []byte{1}, events.SealedByLeaf }

func (m *machine) spend() {
	id := m.pick("grant", sortedKeys(m.model.minted))
	g := m.model.minted[id]
	kind := rapid.SampledFrom([]events.GrantKind{events.GrantCase, events.GrantDrop}).Draw(m.t, "kind")
	var err error
	if kind == events.GrantCase {
		_, err = m.decide(&ConsumeCase{GrantID: id})
	} else {
		drop := &ConsumeDrop{GrantID: id, Memory: WriteMemory{MemoryID: m.id("memory"), Metadata: canonical.Empty, Seal: sealed}}
		if _, err = m.decide(drop); err == nil {
			if drop.Memory.Written.LeafIndex != m.model.leaves {
				m.t.Fatalf("leaf %d, want %d", drop.Memory.Written.LeafIndex, m.model.leaves)
			}
			m.model.leaves++
		}
	}
	allowed := g != nil && g.kind == kind && g.live(m.now)
	if allowed != (err == nil) || (err != nil && !errors.Is(err, ErrGrantDead)) {
		m.t.Fatalf("spending %s: allowed %v, got %v", id, allowed, err)
	}
	if allowed {
		g.uses--
	}
}

func (m *machine) revokeGrant() {
	id := m.pick("grant", sortedKeys(m.model.minted))
	g := m.model.minted[id]
	credential, alive := m.credential()
	c := &RevokeGrant{GrantID: id, Kind: events.GrantDrop, Credential: credential}
	if !alive {
		m.checkDead(c, credential)
		return
	}
	_, err := m.decide(c)
	expected := g != nil && g.kind == events.GrantDrop && g.live(m.now)
	if err != nil || c.Revoked != expected {
		m.t.Fatalf("revoked %v, want %v: %v", c.Revoked, expected, err)
	}
	if expected {
		g.dead = true
	}
}

func (m *machine) keysAndSessions() {
	switch rapid.IntRange(0, 5).Draw(m.t, "what") {
	case 0:
		credential, alive := m.credential()
		c := &CreateKey{KeyID: m.id("key"), Label: "x", Credential: credential}
		if !alive {
			m.checkDead(c, credential)
			return
		}
		if rapid.Bool().Draw(m.t, "expires") {
			expires := events.At(m.now.Add(2 * time.Minute))
			c.ExpiresAt, m.model.expiries[c.KeyID] = &expires, expires.Time()
		}
		if _, err := m.decide(c); err != nil {
			m.t.Fatal(err)
		}
		m.model.keys[c.KeyID] = true
	case 1:
		id := m.pick("key", sortedKeys(m.model.keys))
		_, err := m.decide(&RevokeKey{KeyID: id})
		if expires, some := m.model.expiries[id]; (err == nil) != (m.model.keys[id] && (!some || !over(expires, m.now))) {
			m.t.Fatalf("revoke %s: %v", id, err)
		}
		if has(m.model.keys, id) {
			m.model.keys[id] = false
		}
		m.endGrants(func(by Credential) bool { return by.ID == id })
	case 2:
		expires := m.now.Add(2 * time.Minute)
		api := rapid.SampledFrom([]events.Audience{events.AudienceCore, events.AudienceExtension}).Draw(m.t, "api")
		c := &SignIn{UserID: m.id("user"), SessionID: m.id("session"), Audience: api, ExpiresAt: events.At(expires)}
		if _, err := m.decide(c); err != nil {
			m.t.Fatal(err)
		}
		m.model.sessions[c.SessionID], m.model.core[c.SessionID] = expires, api == events.AudienceCore
	case 3:
		id := m.pick("session", sortedKeys(m.model.sessions))
		if m.model.core[id] {
			return // only sessions of the extension API sign out
		}
		_, err := m.decide(&SignOut{SessionID: id})
		if (err == nil) != m.now.Before(m.model.sessions[id]) {
			m.t.Fatalf("sign out %s: %v", id, err)
		}
		delete(m.model.sessions, id)
	case 4:
		id := m.pick("session", sortedKeys(m.model.sessions))
		credential, alive := m.credential()
		c := &EndSession{SessionID: id, Credential: credential}
		if !alive {
			m.checkDead(c, credential)
			return
		}
		_, err := m.decide(c)
		lives := m.endGrants(func(by Credential) bool { return by.ID == id }) || !over(m.model.sessions[id], m.now)
		if lives != (err == nil) || !lives && !errors.Is(err, ErrSessionUnknown) {
			m.t.Fatalf("end %s: %v", id, err)
		}
		delete(m.model.sessions, id)
	case 5:
		m.endOthers()
	}
}

// endOthers ends all sessions but one, rarely: otherwise there would never be many.
func (m *machine) endOthers() {
	if rapid.IntRange(0, 3).Draw(m.t, "end others") != 0 {
		return
	}
	credential, alive := m.credential()
	c := &EndAccess{Kind: events.KindSession, Except: credential.ID, Credential: credential}
	if !alive {
		m.checkDead(c, credential)
		return
	}
	want := 0
	for id, expires := range m.model.sessions {
		if id != credential.ID {
			if m.now.Before(expires) {
				want++
			}
			delete(m.model.sessions, id)
		}
	}
	if _, err := m.decide(c); err != nil || c.Ended != want {
		m.t.Fatalf("ended %d, want %d: %v", c.Ended, want, err)
	}
	m.endGrants(func(by Credential) bool { return by.Kind != CredentialKey && by.ID != credential.ID })
}

// TestDecisions drives random histories of commands and clock steps.
func TestDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"write":  func(*rapid.T) { m.write() },
			"mint":   func(*rapid.T) { m.mint() },
			"spend":  func(*rapid.T) { m.spend() },
			"revoke": func(*rapid.T) { m.revokeGrant() },
			"keys":   func(*rapid.T) { m.keysAndSessions() },
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				if m.state.Leaves != m.model.leaves {
					t.Fatalf("%d leaves, want %d", m.state.Leaves, m.model.leaves)
				}
			},
		})
	})
}

// TestTooManySessions: the oldest session ends. Expired sessions and those of the other API
// don't count.
func TestTooManySessions(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := NewState(testOwner)
	s.UserID = "u"
	s.Sessions["expired"] = now.Add(-day)
	for i := range MaxSessions {
		s.Sessions[fmt.Sprintf("session-%04d", i)] = now.Add(time.Hour + time.Duration(i)*time.Second)
	}
	ended := func(audience events.Audience) (ids []string) {
		c := &SignIn{SessionID: "new", Audience: audience, ExpiresAt: events.At(now.Add(48 * time.Hour))}
		d, err := c.decide(s, now)
		testkit.Must(t, err)
		for _, data := range d.Events[:len(d.Events)-1] {
			ids = append(ids, data.(*events.SessionRevoked).SessionID)
		}
		say(s, now, d.Events...)
		return ids
	}
	if ids := ended(events.AudienceCore); len(ids) > 0 || len(s.CoreSessions) != 1 {
		t.Fatalf("a core session ended %v", ids)
	}
	if first := ended(events.AudienceExtension); !slices.Equal(first, []string{"session-0000"}) {
		t.Fatalf("ended %v", first)
	}
	if _, ok := s.Sessions["expired"]; ok {
		t.Fatal("an expired session is kept")
	}
	if len(s.Sessions) != MaxSessions || s.Sessions["new"].IsZero() {
		t.Fatalf("%d sessions are left", len(s.Sessions))
	}
	delete(s.Sessions, "new")
	if third := ended(events.AudienceExtension); len(third) > 0 {
		t.Fatalf("ended %v, though there was room", third)
	}
}

// TestExpiredKeys don't count as live once they are over by all clocks, do not accumulate,
// and stay dead, no matter which uses were recorded.
func TestExpiredKeys(t *testing.T) {
	s := NewState(testOwner)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	create := func(id string, expires events.Timestamp) {
		t.Helper()
		d, err := (&CreateKey{KeyID: id, ExpiresAt: &expires}).decide(s, now)
		testkit.Must(t, err)
		say(s, now, d.Events...)
	}
	for i := range MaxKeys {
		create(fmt.Sprint(i), events.At(now.Add(time.Minute)))
	}
	now = now.Add(time.Minute)
	if _, err := (&CreateKey{KeyID: "more"}).decide(s, now); !errors.Is(err, ErrTooManyKeys) {
		t.Errorf("more keys than an erasure can end with one message: %v", err)
	}
	now = now.Add(clockSpread)
	create("more", events.At(now.Add(time.Minute)))
	if len(s.Keys) != 1 {
		t.Fatalf("%d keys are kept", len(s.Keys))
	}
	say(s, now.Add(-time.Second), &events.ApiKeyUsed{KeyID: "0"})
	now = now.Add(time.Minute + clockSpread)
	for _, id := range []string{"0", "more"} {
		if err := (Credential{Kind: CredentialKey, ID: id}).check(s, now); !errors.Is(err, ErrCredentialDead) {
			t.Errorf("key %s: %v", id, err)
		}
		if d, err := (&UseKey{KeyID: id}).decide(s, now); len(d.Events) > 0 || err != nil {
			t.Errorf("use of key %s: %v, %v", id, d, err)
		}
	}
	if d, err := (&EndAccess{Kind: events.KindKey}).decide(s, now); len(d.Events) > 0 || err != nil {
		t.Errorf("ended %v, %v", d, err)
	}
}

// TestSupersedingVeryManyEqualMemories: a short request must not make a message and rows
// without bound.
func TestSupersedingVeryManyEqualMemories(t *testing.T) {
	t.Parallel()
	s, equal := NewState(testOwner), events.Hash{1}
	s.Leaves = MaxSuperseded + 1
	write := func(equals uint64) *WriteMemory {
		m := &WriteMemory{MemoryID: "m", Metadata: canonical.Empty, Supersedes: []Superseded{{Leaf: 7, Hash: equal}}, Seal: sealed}
		for leaf := range equals {
			m.alike = append(m.alike, Superseded{Leaf: leaf, Hash: equal})
		}
		return m
	}
	d, err := write(MaxSuperseded).decide(s, time.Now())
	if err != nil || len(d.Events) != 1 || len(d.Events[0].(*events.MemoryWritten).Supersedes) != MaxSuperseded {
		t.Errorf("as many as are allowed: %v", err)
	}
	if d, err := write(MaxSuperseded+1).decide(s, time.Now()); !errors.Is(err, ErrTooManySuperseded) || len(d.Events) > 0 {
		t.Errorf("one more: %d events, %v", len(d.Events), err)
	}
	half := write(MaxSuperseded/2 + 1)
	if d, err := (&WriteBatch{Memories: []*WriteMemory{half, half}}).decide(s, time.Now()); !errors.Is(err, ErrTooManySuperseded) || len(d.Events) > 0 {
		t.Errorf("one more in a batch: %d events, %v", len(d.Events), err)
	}
}

// oneKey is the log and the read model of owners who have used one key.
type oneKey struct {
	eventlog.Log
	NoReadModel
}

func (oneKey) OwnerTail(context.Context, events.Family, events.Owner, uint64, func(eventlog.Record) error) error {
	return nil
}

func (oneKey) UsedKeys(context.Context, events.Owner, int) ([]events.Hash, uint64, error) {
	return []events.Hash{{1}}, 0, nil
}

// TestAUsedKeyIsNeverNew: a used key is not taken for a new one while others fill the filter
// and make it begin again. A second memory under the key would stop the projectors.
func TestAUsedKeyIsNeverNew(t *testing.T) {
	t.Parallel()
	x := &Executor{cfg: Config{Log: oneKey{}, Loader: oneKey{}}, used: newUsedKeys(4)}
	for range 2 {
		go func() {
			for t.Context().Err() == nil {
				x.used.add("other", events.Hash{2})
			}
		}()
	}
	for range 20_000 {
		if isNew, err := x.isNew(t.Context(), &entry{state: NewState(testOwner)}, events.Hash{1}); isNew || err != nil {
			t.Fatalf("new: %t, %v", isNew, err)
		}
	}
}

// TestAnImportThatEndedMeanwhile: leaves that were written after an import was given up do not
// pass for those of its export.
func TestAnImportThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	s := NewState(testOwner)
	s.Leaves = 2
	add := &AddImported{Export: imports.Import{Size: 2}, From: 1, Leaves: []ImportedLeaf{{Seal: sealed}}}
	if d, err := add.decide(s, time.Now()); !errors.Is(err, ErrImportEnded) || len(d.Events) > 0 {
		t.Errorf("given up: %d events, %v", len(d.Events), err)
	}
	add.Export.Size = 3
	s.Importing = &add.Export
	if d, err := add.decide(s, time.Now()); err != nil || len(d.Events) > 0 {
		t.Errorf("added by another request: %d events, %v", len(d.Events), err)
	}
}
