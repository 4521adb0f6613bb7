package e2e_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestDamagedMemories: one byte of one row is altered in the database. Every route goes on
// for the owner's other memories, and says which one is damaged, or how many.
func TestDamagedMemories(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	var ids []string
	for n := range 4 {
		ids = append(ids, core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Fragile thing %d", n), "metadata": map[string]any{"n": n}}, session).Text("id"))
	}
	db, err := pgx.Connect(t.Context(), s.Config.DatabaseURL)
	noErr(t, err)
	defer db.Close(t.Context())
	core.Expect(200, "GET", "/log", nil, session) // the rows are there after it
	for leaf, change := range map[int]string{
		1: `sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1)`, 2: `metadata = '{"n":7}'`,
	} {
		if done, err := db.Exec(t.Context(), `UPDATE ledger.memories SET `+change+` WHERE id = $1`, ids[leaf]); err != nil || done.RowsAffected() != 1 {
			t.Fatal(done, err)
		}
	}
	type listed struct {
		view
		Damaged bool
	}
	lists := func(all []listed) {
		t.Helper()
		damaged := 0
		for _, m := range all {
			if m.Damaged {
				damaged++
			}
			if m.Damaged != (m.Content == "") || m.Damaged != (string(m.Metadata) == "{}") {
				t.Errorf("%+v", m)
			}
		}
		if len(all) != 4 || damaged != 2 {
			t.Errorf("%d memories, %d of them damaged", len(all), damaged)
		}
	}
	for range 2 {
		for _, path := range []string{"/memories", "/memories?limit=10", "/memories?order=newest"} {
			lists(decode[[]listed](t, core.Expect(200, "GET", path, nil, session).Body))
		}
		lists(decode[struct{ Memories []listed }](t, extension.Expect(200, "GET", "/memories", nil, visitor).Body).Memories)
		for _, search := range []string{`{}`, `{"query":"THING"}`, `{"query":"thing","limit":5}`, `{"query":"thing","mode":"ranked"}`} {
			a := core.Expect(200, "POST", "/memories/search", search, session)
			if found := decode[[]listed](t, a.Body); len(found) != 2 || a.Header.Get("Damaged") != "2" {
				t.Errorf("%s: %d found, %q damaged", search, len(found), a.Header.Get("Damaged"))
			}
		}
	}
	for leaf, status := range map[int]int{0: 200, 1: 503, 2: 503, 3: 200} {
		core.Expect(status, "GET", "/memories/"+ids[leaf], nil, session)
		core.Expect(status, "GET", "/memories/"+ids[leaf]+"/receipt", nil, session)
		core.Expect(200, "GET", "/memories/"+ids[leaf]+"/proof", nil, session)
	}
	exported := core.Expect(200, "GET", "/export", nil, session).Body
	x, err := verify.ReadExport(bytes.NewReader(exported))
	noErr(t, err)
	for m, err := range x.Memories() {
		if bad := m.Index == 1 || m.Index == 2; err != nil || m.Damaged != bad || (m.Entry == nil) != bad {
			t.Errorf("exported: %+v, %v", m, err)
		}
	}
	token := tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, visitor))
	document := string(extension.Expect(200, "GET", "/agent-cases/"+token, nil).Body)
	if strings.Count(document, "Fragile thing") != 2 || !strings.Contains(document, "- Damaged: 2") {
		t.Errorf("the case's document: %s", document)
	}
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session).Text("key"))
	recalled := string(core.Expect(200, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":{"query":"fragile thing"}}}`, key,
		stacktest.With("Accept", "application/json, text/event-stream")).Body)
	if !strings.Contains(recalled, `"damaged":2`) || !strings.Contains(recalled, "Fragile thing 3") {
		t.Errorf("recalled: %s", recalled)
	}
	if metric(t, core, "ledger_damaged_memories_total") == 0 {
		t.Error("nothing is counted")
	}
}
