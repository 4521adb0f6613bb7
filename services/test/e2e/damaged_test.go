package e2e_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// alterations are made to one row each. A row that no longer matches its leaf is a damaged
// memory. Only an audit finds what is altered outside the leaf.
var alterations = []struct {
	change string
	status int // of GET of the memory
}{
	{`sealed = set_byte(sealed, 0, get_byte(sealed, 0) # 1)`, 503},
	{`sealed = set_byte(sealed, 14, get_byte(sealed, 14) # 64)`, 503},
	{`sealed = substr(sealed, 1, 5)`, 503},
	{`sealed = (SELECT sealed FROM ledger.memories o WHERE o.owner = memories.owner AND o.leaf_index = 0)`, 503},
	{`metadata = '{"n":70}'`, 503},
	{`metadata = 'x'`, 503},
	{`leaf_hash = set_byte(leaf_hash, 31, get_byte(leaf_hash, 31) # 1)`, 503},
	{`salt = 'guest'`, 503},
	{`salt = 'ownes'`, 503},
	{`id = 'ffffffff-ffff-7fff-bfff-ffffffffffff'`, 404},
	{`created_at = 'infinity'`, 200},
	{`seq = -seq`, 200},
	{`created_at = '200000-01-01'`, 200},
	{`via = 'key:ffffffff-ffff-7fff-bfff-ffffffffffff'`, 200},
}

// TestDamagedMemories: rows are altered in the database. Every route goes on for the
// owner's other memories, and says which ones are damaged, or how many.
func TestDamagedMemories(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	text := func(n int) string { return fmt.Sprintf("Fragile thing %d", n) }
	var ids []string
	const size, damaged = 16, 10
	for n := range size {
		ids = append(ids, core.Expect(201, "POST", "/memories", map[string]any{"content": text(n), "metadata": map[string]any{"n": n}}, session).Text("id"))
	}
	db, err := pgx.Connect(t.Context(), s.Config.DatabaseURL)
	noErr(t, err)
	defer db.Close(t.Context())
	core.Expect(200, "GET", "/log", nil, session) // the rows are there after it
	for i, a := range alterations {               // the first row and the last stay
		if done, err := db.Exec(t.Context(), `UPDATE ledger.memories SET `+a.change+` WHERE id = $1`, ids[i+1]); err != nil || done.RowsAffected() != 1 {
			t.Fatal(a.change, done, err)
		}
	}
	isDamaged := func(leaf int) bool { return leaf > 0 && leaf < size-1 && alterations[leaf-1].status != 200 }
	type listed struct {
		view
		Damaged bool
	}
	lists := func(all []listed) {
		t.Helper()
		for _, m := range all {
			bad := isDamaged(int(m.LeafIndex))
			if m.Damaged != bad || bad && (m.Content != "" || string(m.Metadata) != "{}") || !bad && m.Content != text(int(m.LeafIndex)) {
				t.Errorf("%+v", m)
			}
		}
		if len(all) != size {
			t.Errorf("%d memories", len(all))
		}
	}
	for range 2 {
		for _, path := range []string{"/memories", "/memories?limit=50", "/memories?order=newest"} {
			lists(decode[[]listed](t, core.Expect(200, "GET", path, nil, session).Body))
		}
		lists(decode[struct{ Memories []listed }](t, extension.Expect(200, "GET", "/memories", nil, visitor).Body).Memories)
		for _, search := range []string{`{}`, `{"query":"THING"}`, `{"query":"thing","limit":50}`, `{"query":"thing","mode":"ranked"}`, `{"query":"thing","order":"occurred","limit":50}`} {
			a := core.Expect(200, "POST", "/memories/search", search, session)
			if found := decode[[]listed](t, a.Body); len(found) != size-damaged || a.Header.Get("Damaged") != strconv.Itoa(damaged) {
				t.Errorf("%s: %d found, %q damaged", search, len(found), a.Header.Get("Damaged"))
			}
		}
	}
	for leaf, id := range ids {
		status, proof := 200, 200
		if leaf > 0 && leaf < size-1 {
			status = alterations[leaf-1].status
		}
		if status == 404 {
			proof = 404
		}
		core.Expect(status, "GET", "/memories/"+id, nil, session)
		core.Expect(status, "GET", "/memories/"+id+"/receipt", nil, session)
		core.Expect(proof, "GET", "/memories/"+id+"/proof", nil, session)
		if status == 503 { // what the log says of it might name another memory
			core.Expect(503, "DELETE", "/memories/"+id, nil, session)
			core.Expect(503, "POST", "/memories/"+id+"/forget", nil, session)
			core.Expect(503, "POST", "/memories", map[string]any{"content": "x", "supersedes": []string{id}}, session)
		}
	}
	exported := core.Expect(200, "GET", "/export", nil, session).Body
	x, err := verify.ReadExport(bytes.NewReader(exported))
	noErr(t, err)
	for m, err := range x.Memories() {
		if bad := isDamaged(int(m.Index)); err != nil || m.Damaged != bad || (m.Entry == nil) != bad {
			t.Errorf("exported: %+v, %v", m, err)
		}
	}
	token := tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, visitor))
	document := string(extension.Expect(200, "GET", "/agent-cases/"+token, nil).Body)
	if strings.Count(document, "Fragile thing") != size-damaged || !strings.Contains(document, fmt.Sprint("- Damaged: ", damaged)) {
		t.Errorf("the case's document: %s", document)
	}
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session).Text("key"))
	recalled := string(core.Expect(200, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":{"query":"fragile thing","limit":10}}}`, key,
		stacktest.With("Accept", "application/json, text/event-stream")).Body)
	if !strings.Contains(recalled, fmt.Sprintf(`"damaged":%d`, damaged)) || !strings.Contains(recalled, text(size-1)) {
		t.Errorf("recalled: %s", recalled)
	}
	if metric(t, core, "ledger_damaged_memories_total") == 0 {
		t.Error("nothing is counted")
	}
	noErr(t, errorOf(db.Exec(t.Context(), `UPDATE ledger.memories SET leaf_index = -1 WHERE id = $1`, ids[1]))) // no root without it
	core.Expect(200, "POST", "/memories/search", `{"order":"occurred"}`, session)
	for _, path := range []string{"/log", "/export", "/memories/" + ids[1], "/memories/" + ids[0] + "/proof"} {
		core.Expect(503, "GET", path, nil, session)
	}
}
