package e2e_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestTheReadModelHoldsTheFoldedState: a replica decides on a state that it loads from the
// read models or folds from the owner's events. Both are the same after every part of a
// story that leaves something in each member of the state.
func TestTheReadModelHoldsTheFoldedState(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	base, fence := s.Beside(t)
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	owner := must(events.ParseOwner(wallet.PublicKey))
	var session, visitor, key stacktest.Header
	var id string
	var state *command.State
	write := func(content string, headers ...stacktest.Header) {
		id = core.Expect(201, "POST", "/memories", map[string]any{"content": content}, headers...).Text("id")
	}
	for _, part := range []struct {
		name string
		act  func()
	}{
		{"a sign-in", func() { session = core.SignIn(wallet) }},
		{"a write", func() { write("one", session, stacktest.With("Idempotency-Key", "k")) }},
		{"a retraction", func() { core.Expect(200, "DELETE", "/memories/"+id, nil, session) }},
		{"an erasure", func() { erase(t, core, wallet) }},
		{"a bit of everything", func() { session = live(s, wallet, 2) }},
		{"a second erasure", func() { erase(t, core, wallet) }},
		{"sign-ins, one ended", func() {
			session, visitor = core.SignIn(wallet), extension.SignIn(wallet)
			extension.Expect(200, "POST", "/auth/logout", nil, extension.SignIn(wallet))
		}},
		{"keys, one revoked", func() {
			key = stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "a"}, session).Text("key"))
			core.Expect(201, "POST", "/keys", map[string]any{"label": "b", "expiresAt": time.Now().Add(time.Hour)}, session)
			revoked := core.Expect(201, "POST", "/keys", map[string]any{"label": "c"}, session).Text("id")
			core.Expect(200, "DELETE", "/keys/"+revoked, nil, session)
		}},
		{"a write with a key", func() { write("two", key) }},
		{"a second retraction", func() { core.Expect(200, "DELETE", "/memories/"+id, nil, session) }},
		{"a memory is forgotten", func() { core.Expect(200, "POST", "/memories/"+id+"/forget", nil, session) }},
		{"grants, used in part", func() {
			drop := extension.Expect(201, "POST", "/memory-drops", `{"maxWrites":5}`, visitor)
			extension.Expect(201, "POST", "/memory-drops/"+tokenOf(drop), `{"content":"dropped"}`)
			extension.Expect(201, "POST", "/agent-cases", `{"maxReads":5}`, visitor)
		}},
		{"an import that broke off", func() { breakOff(t, s, wallet) }},
	} {
		part.act()
		noErr(t, fence.WaitAll(t.Context()))
		loaded, err := command.ReadModel{Pool: base.Pool, Now: time.Now, CountBytes: true}.Load(t.Context(), owner)
		noErr(t, err)
		state = command.NewState(owner)
		err = base.Log.OwnerTail(t.Context(), events.FamilyLedger, owner, 0, func(r eventlog.Record) error {
			batch, err := events.DecodeBatch(r.Payload)
			if err == nil && r.Seq <= loaded.Seq { // a key's use is recorded beside the requests
				state.Apply(r.Seq, batch)
			}
			return err
		})
		noErr(t, err)
		if got, want := stateText(t, loaded), stateText(t, state); got != want {
			t.Errorf("after %s the read models hold\n%s\nand the events say\n%s", part.name, got, want)
		}
	}
	now := func() time.Time { return time.Now().Add(-48 * time.Hour) } // the clock was two days ahead until now
	if before := must(command.ReadModel{Pool: base.Pool, Now: now, CountBytes: true}.Load(t.Context(), owner)); before.DayBytes != 0 {
		t.Errorf("%d bytes of later days count for a day", before.DayBytes)
	}
	for field, value := range reflect.ValueOf(*state).Fields() {
		if field.IsExported() && (value.IsZero() || value.Kind() == reflect.Map && value.Len() == 0) {
			t.Errorf("the story leaves nothing in State.%s: add an act to it, so that loading it is tested", field.Name)
		}
	}
}

// stateText returns what decisions need of a state. The answers to writes are looked up
// apart (command.Loader.FindWritten).
func stateText(t *testing.T, s *command.State) string {
	t.Helper()
	text := must(json.MarshalIndent(s, "", "  "))
	return string(text)
}
