package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
	"github.com/memory-ledger/ledger/projections/rebuild"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// ndjson is the header of a request with an export.
var ndjson = stacktest.With("Content-Type", "application/x-ndjson")

// exportLine is a line of an export.
type exportLine struct {
	Index     uint64
	ID        string
	CreatedAt string
	Via       map[string]string
	LeafHash  string
	Entry     json.RawMessage
}

func linesOf(t *testing.T, export []byte) (lines []exportLine) {
	t.Helper()
	all := bytes.Split(bytes.TrimSpace(export), []byte("\n"))
	for _, text := range all[1 : len(all)-1] {
		lines = append(lines, decode[exportLine](t, text))
	}
	return lines
}

// another starts a deployment that shares nothing with others, and returns its servers.
func another(t *testing.T, bytesPerDay int64) (*stacktest.Stack, stacktest.Options) {
	t.Helper()
	servers := stacktest.Options{NATSURL: natstest.Start(t).URL(), DatabaseURL: pgtest.Database(t), Configure: func(c *config.Config) {
		c.MasterKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
	}}
	limited := servers
	limited.Configure = func(c *config.Config) {
		servers.Configure(c)
		c.QuotaBytesPerDay = bytesPerDay
	}
	return stacktest.Start(t, limited), servers
}

// TestMovingALog: an owner takes a log to another operator. An export that is not good adds
// nothing. An import that breaks off is finished by another process. Then both logs have the
// same leaves, and everything that was true of the memories is true there.
func TestMovingALog(t *testing.T) {
	t.Parallel()
	from, wallet := stacktest.Start(t, stacktest.Options{Extension: 1}), stacktest.NewWallet()
	core, session := from.Core[0], from.Core[0].SignIn(wallet)
	write := func(as stacktest.Header, body map[string]any) string {
		t.Helper()
		return core.Expect(201, "POST", "/memories", body, as).Text("id")
	}
	ids := []string{write(session, map[string]any{"content": "Ada lives in Oslo", "tags": []string{"home"}})}
	ids = append(ids, write(session, map[string]any{"content": "Ada lives in Porto", "supersedes": ids}))
	ids = append(ids, write(session, map[string]any{"content": "Retracted \x00 \U0001F408 \u202e\ufeff e\u0301"}), write(session, map[string]any{"content": "Forgotten"}))
	guest := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "g", "scopes": []string{"write"}}, session).Text("key"))
	ids = append(ids, write(guest, map[string]any{"content": "Written by a guest", "metadata": map[string]any{"n": 1e22, "é": "\u2028\x00"}}))
	link := from.Extension[0].Expect(201, "POST", "/memory-drops", nil, from.Extension[0].SignIn(wallet))
	from.Extension[0].Expect(201, "POST", "/memory-drops/"+tokenOf(link), map[string]any{
		"content": "Left by a stranger", "metadata": map[string]any{"supersedes": []any{core.Expect(200, "GET", "/memories/"+ids[4], nil, session).Field("leafHash")}},
	})
	for part := range 8 {
		var texts []string
		for n := range 250 {
			texts = append(texts, fmt.Sprintf("Note %d \x00 \U0001F408 日本語 \\ \" %s", part*250+n, strings.Repeat("é\n", n)))
		}
		core.Expect(201, "POST", "/memories/batch", batchOf(texts...), session)
	}
	core.Expect(200, "DELETE", "/memories/"+ids[2], nil, session)
	core.Expect(200, "POST", "/memories/"+ids[3]+"/forget", nil, session)
	export := core.Expect(200, "GET", "/export", nil, session).Body
	receipt, err := verify.ParseReceipt(core.Expect(200, "GET", "/memories/"+ids[4]+"/receipt", nil, session).Body)
	noErr(t, err)
	lines, head := linesOf(t, export), core.Expect(200, "GET", "/log", nil, session)

	const limit = 300_000
	to, servers := another(t, limit)
	there, mine := to.Core[0], to.Core[0].SignIn(wallet)
	size := func() int {
		t.Helper()
		return there.Expect(200, "GET", "/log", nil, mine).Number("treeSize")
	}
	flipped := bytes.Replace(export, []byte("Note 1234 "), []byte("Note 1235 "), 1)
	for name, c := range map[string]struct {
		status int
		body   []byte
		says   string
	}{
		"a flipped bit": {400, flipped, "leaf 1240: "},
		"cut at 99 %":   {400, export[:len(export)*99/100], "incomplete"},
		"no end":        {400, export[:len(export)-20], "incomplete"},
		"another root":  {400, bytes.Replace(export, []byte(head.Text("root")), []byte(lines[0].LeafHash), 1), "wrong root"},
		"a long line":   {413, append(bytes.Repeat([]byte(" "), 1<<20), export...), "1048576"},
		"nothing":       {400, nil, "incomplete"},
	} {
		if a := there.Expect(c.status, "POST", "/import", c.body, mine, ndjson); !strings.Contains(a.Text("error"), c.says) {
			t.Errorf("%s: %.300s", name, a.Body)
		}
	}
	there.Expect(400, "POST", "/import", export, there.SignIn(stacktest.NewWallet()), ndjson)
	if n := size(); n != 0 {
		t.Fatalf("bad exports added %d leaves", n)
	}

	there.Expect(429, "POST", "/import", export, mine, ndjson) // the day's bytes end it in the middle
	broken := size()
	if broken == 0 || broken >= len(lines) {
		t.Fatalf("%d leaves of %d were added", broken, len(lines))
	}
	to.Stop()
	servers.Extension = 1
	to = stacktest.Start(t, servers) // with no limit
	there, mine = to.Core[0], to.Core[0].SignIn(wallet)
	other := to.Extension[0].SignIn(wallet)
	for path, body := range map[string]any{"/memories": map[string]any{"content": "x"}, "/memories/batch": batchOf("x")} {
		there.Expect(409, "POST", path, body, mine)
	}
	to.Extension[0].Expect(409, "POST", "/memories", map[string]any{"content": "x", "source": "s"}, other)
	drop := to.Extension[0].Expect(201, "POST", "/memory-drops", nil, other)
	to.Extension[0].Expect(409, "POST", "/memory-drops/"+tokenOf(drop), map[string]any{"content": "x"})
	there.Expect(200, "GET", "/memories/"+ids[0], nil, mine) // reads go on
	var group sync.WaitGroup
	var added atomic.Int64
	for range 2 { // a client that sends it again, while its first request is still at work
		group.Go(func() {
			done := there.Persist("POST", "/import", export, mine, ndjson)
			if done.Status != 200 || done.Number("treeSize") != len(lines) || done.Text("root") != head.Text("root") {
				t.Errorf("%d, %s", done.Status, done.Body)
			}
			added.Add(int64(done.Number("added")))
		})
	}
	if group.Wait(); added.Load() != int64(len(lines)-broken) {
		t.Errorf("%d leaves were added, %d were missing", added.Load(), len(lines)-broken)
	}
	if again := there.Expect(200, "POST", "/import", export, mine, ndjson); again.Number("added") != 0 {
		t.Errorf("again: %s", again.Body)
	}

	if now := there.Expect(200, "GET", "/log", nil, mine); now.Text("root") != head.Text("root") || now.Number("treeSize") != head.Number("treeSize") {
		t.Errorf("the log is %s, and was %s", now.Body, head.Body)
	}
	for i, moved := range linesOf(t, there.Expect(200, "GET", "/export", nil, mine).Body) {
		was := lines[i]
		if moved.LeafHash != was.LeafHash || moved.Index != was.Index || !bytes.Equal(moved.Entry, was.Entry) || moved.CreatedAt != was.CreatedAt || fmt.Sprint(moved.Via) != fmt.Sprint(was.Via) || moved.ID == was.ID {
			t.Fatalf("line %d: %+v\nwas %+v", i, moved, was)
		}
	}
	// By the ids of before.
	oslo := decode[told](t, there.Expect(200, "GET", "/memories/"+ids[0], nil, mine).Body)
	porto := decode[told](t, there.Expect(200, "GET", "/memories/"+ids[1], nil, mine).Body)
	if len(oslo.SupersededBy) != 1 || oslo.SupersededBy[0] != porto.ID || len(porto.Supersedes) != 1 || porto.Supersedes[0] != oslo.ID || oslo.ID == ids[0] {
		t.Errorf("%+v, %+v", oslo, porto)
	}
	before := there.Expect(200, "GET", "/memories/"+oslo.ID, nil, mine)
	imported, _ := before.Field("imported").(map[string]any)
	if imported["id"] != ids[0] || imported["createdAt"] != lines[0].CreatedAt || before.Text("createdAt") != lines[0].CreatedAt || fmt.Sprint(imported["via"]) != fmt.Sprint(lines[0].Via) {
		t.Errorf("%s, was %+v", before.Body, lines[0])
	}
	for _, id := range ids[2:4] {
		there.Expect(410, "GET", "/memories/"+id, nil, mine)
		there.Expect(200, "GET", "/memories/"+id+"/proof", nil, mine)
		there.Expect(200, "DELETE", "/memories/"+id, nil, mine)
	}
	there.Expect(410, "POST", "/memories", map[string]any{"content": "x", "supersedes": ids[3:4]}, mine)
	moved, err := verify.ParseReceipt(there.Expect(200, "GET", "/memories/"+ids[4]+"/receipt", nil, mine).Body)
	if noErr(t, err); moved.LeafHash != receipt.LeafHash || moved.Entry.Salt != receipt.Entry.Salt || moved.Verify() != nil || receipt.Verify() != nil {
		t.Errorf("the receipt is %+v, and was %+v", moved, receipt)
	}
	for _, mode := range []string{"substring", "ranked"} {
		found := decode[[]told](t, there.Expect(200, "POST", "/memories/search", map[string]any{"query": "Ada lives", "mode": mode, "filter": map[string]any{"superseded": true, "to": porto.CreatedAt}}, mine).Body)
		if len(found) != 1 || found[0].ID != oslo.ID {
			t.Errorf("%s: %+v", mode, found)
		}
	}
	// A memory that a stranger left does not pass for the owner's own, and corrects nothing.
	if kept := decode[told](t, there.Expect(200, "GET", "/memories/"+ids[4], nil, mine).Body); len(kept.SupersededBy) != 0 {
		t.Errorf("%+v", kept)
	}
	for kind, n := range map[string]int{"drop": 1, "session": 0} {
		asked := map[string]any{"query": "stranger", "filter": map[string]any{"via": kind}}
		if found := decode[[]told](t, there.Expect(200, "POST", "/memories/search", asked, mine).Body); len(found) != n {
			t.Errorf("%s: %+v", kind, found)
		}
	}
	recalled := there.Expect(200, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":{"query":"stranger"}}}`, mine,
		stacktest.With("Accept", "application/json, text/event-stream")).Body
	opened := to.Extension[0].Expect(201, "POST", "/agent-cases", nil, other)
	read := to.Extension[0].Expect(200, "GET", "/agent-cases/"+tokenOf(opened), nil).Body
	if !bytes.Contains(recalled, []byte(`"via":"drop"`)) || bytes.Count(read, []byte("the holder of a one-time link")) != 1 {
		t.Errorf("%s", recalled)
	}
	there.Expect(200, "POST", "/memories/"+ids[0]+"/forget", nil, mine)
	there.Expect(410, "GET", "/memories/"+oslo.ID, nil, mine)
	there.Expect(201, "POST", "/memories", map[string]any{"content": "Ada lives in Rome", "supersedes": ids[1:2]}, mine)
	there.Expect(409, "POST", "/import", export, mine, ndjson)
	there.Expect(404, "DELETE", "/import", nil, mine)

	result, err := assembly.Rebuild(t.Context(), to.Config, rebuild.Config{Report: func(d audit.Finding) { t.Errorf("difference: %v", d) }})
	if err != nil || !result.Swapped {
		t.Errorf("%+v, %v", result, err)
	}
	wantAudit(t, from.Config)
	wantAudit(t, to.Config)
}

// TestAKilledImportGoesOn: an import whose process is killed in the middle, twice, ends with
// the same leaves.
func TestAKilledImportGoesOn(t *testing.T) {
	slow(t)
	from, wallet := shared(t), stacktest.NewWallet()
	session := from.Core[0].SignIn(wallet)
	for part := range 40 {
		var texts []string
		for n := range 250 {
			texts = append(texts, fmt.Sprint("Note ", part*250+n))
		}
		from.Core[0].Expect(201, "POST", "/memories/batch", batchOf(texts...), session)
	}
	export, head := from.Core[0].Expect(200, "GET", "/export", nil, session).Body, from.Core[0].Expect(200, "GET", "/log", nil, session)
	dir, before := filepath.Join(pgtest.Folder(t), "data"), 0
	for range 2 {
		r := startRun(t, dir)
		there, _ := r.clients()
		mine := there.SignIn(wallet)
		ended := make(chan error, 1)
		go func() {
			_, err := there.Try("POST", "/import", export, mine, ndjson)
			ended <- err
		}()
		size := before
		for size == before && len(ended) == 0 {
			size = there.Persist("GET", "/log", nil, mine).Number("treeSize")
		}
		r.kill()
		if err := <-ended; err == nil || size == before {
			t.Fatalf("killed at %d leaves, the import was answered", size)
		}
		before = size
	}
	r := startRun(t, dir)
	there, _ := r.clients()
	mine := there.SignIn(wallet)
	done := there.Expect(200, "POST", "/import", export, mine, ndjson)
	if n := done.Number("added"); done.Text("root") != head.Text("root") || n == 0 || n > head.Number("treeSize")-before {
		t.Errorf("%s, of %s; %d leaves were there", done.Body, head.Body, before)
	}
	there.Expect(201, "POST", "/memories", map[string]any{"content": "life goes on"}, mine)
	r.stop()
}

// TestGivingUpAnImport: the leaves that were added stay, and the log is open for others.
func TestGivingUpAnImport(t *testing.T) {
	from, wallet := shared(t), stacktest.NewWallet()
	session := from.Core[0].SignIn(wallet)
	from.Core[0].Expect(201, "POST", "/memories/batch", batchOf("one", "two", "three"), session)
	export := from.Core[0].Expect(200, "GET", "/export", nil, session).Body
	to, _ := another(t, 150) // two of them
	there, mine := to.Core[0], to.Core[0].SignIn(wallet)
	there.Expect(429, "POST", "/import", export, mine, ndjson)
	from.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "four"}, session)
	there.Expect(409, "POST", "/import", from.Core[0].Expect(200, "GET", "/export", nil, session).Body, mine, ndjson) // another export
	there.Expect(200, "DELETE", "/import", nil, mine)
	there.Expect(404, "DELETE", "/import", nil, mine)
	if n := len(decode[[]told](t, there.Expect(200, "GET", "/memories", nil, mine).Body)); n != 2 {
		t.Errorf("%d memories", n)
	}
	there.Expect(429, "POST", "/import", export, mine, ndjson) // goes on where it was
	erase(t, there, wallet)                                    // which gives it up, too
	wantAudit(t, to.Config)
}

// TestAnImportedCorrectionNamesALeafTwice: metadata may hold what the service would not write.
func TestAnImportedCorrectionNamesALeafTwice(t *testing.T) {
	from, wallet := shared(t), stacktest.NewWallet()
	core, session := from.Core[0], from.Core[0].SignIn(wallet)
	hash := core.Expect(201, "POST", "/memories", map[string]any{"content": "Ada lives in Oslo"}, session).Text("leafHash")
	core.Expect(201, "POST", "/memories", map[string]any{"content": "Ada lives in Porto", "metadata": map[string]any{"supersedes": []string{hash, hash}}}, session)
	export := core.Expect(200, "GET", "/export", nil, session).Body

	to, _ := another(t, 0)
	there, mine := to.Core[0], to.Core[0].SignIn(wallet)
	there.Expect(200, "POST", "/import", export, mine, ndjson)
	all := decode[[]told](t, there.Expect(200, "GET", "/memories", nil, mine).Body)
	if len(all) != 2 || len(all[0].SupersededBy) != 1 || len(all[1].Supersedes) != 1 {
		t.Errorf("%+v", all)
	}
	wantAudit(t, to.Config)
}

// TestAnOwnerTakesAFile: the command moves an owner's log from one deployment to another, and
// the Go client finds and proves the memories there by the ids that they had.
func TestAnOwnerTakesAFile(t *testing.T) {
	from, ledger := shared(t), stacktest.Program(t, stacktest.Ledger)
	to, _ := another(t, 0)
	keypair, file := filepath.Join(t.TempDir(), "wallet.json"), filepath.Join(t.TempDir(), "export.ndjson")
	run := func(exit int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), ledger, args...)
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exit {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	client := func(s *stacktest.Stack) *memoryledger.Client {
		return memoryledger.New(s.Core[0].URL, memoryledger.WithSession(run(0, "sign-in", "--keypair", keypair, "--url", s.Core[0].URL)))
	}
	there, here := client(from), client(to)
	first := must(there.Write(t.Context(), "one", nil))
	second := must(there.Store(t.Context(), memoryledger.NewMemory{Content: "two", Supersedes: []string{first.ID}}))
	var export bytes.Buffer
	_, err := all(there.Export(t.Context(), memoryledger.ExportOptions{CopyTo: &export}))
	noErr(t, err)
	move := []string{"import", "--format", "export", "--from", file, "--keypair", keypair, "--url", to.Core[0].URL}
	noErr(t, os.WriteFile(file, bytes.Replace(export.Bytes(), []byte("one"), []byte("ono"), 1), 0o600))
	run(1, move...)
	noErr(t, os.WriteFile(file, export.Bytes(), 0o600))
	run(0, append(move, "--dry-run")...)
	for _, added := range []string{": 2 were added", ": 0 were added"} {
		if out := run(0, move...); !strings.HasSuffix(out, added) {
			t.Errorf("%s", out)
		}
	}
	moved, err := here.Get(t.Context(), second.ID)
	if noErr(t, err); moved.Content != "two" || moved.LeafHash != second.LeafHash || moved.Imported == nil || moved.Imported.ID != second.ID {
		t.Errorf("%+v", moved)
	}
	if err := here.GiveUpImport(t.Context()); !errors.Is(err, memoryledger.ErrNotFound) {
		t.Error(err)
	}
	if done, err := here.Import(t.Context(), &export); err != nil || done.TreeSize != 2 || done.Added != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestReceiptsOutliveAMove: an owner moves to another operator. The receipts from before are
// proven by the new operator's account: by the chain alone if the same tree is committed
// there, else with the help of the new service. The old operator is gone.
func TestReceiptsOutliveAMove(t *testing.T) {
	t.Parallel()
	chain, authority := stacktest.Chain(t, 20*time.Millisecond)
	key := stacktest.NewKey(t)
	noErr(t, chain.Fund(t.Context(), key.PublicKey().String(), 10*solana.LAMPORTS_PER_SOL))
	anchoring := func(s *stacktest.Options, authority string) {
		s.Configure = func(c *config.Config) {
			c.SolanaRPCURL, c.AuthorityKeypair, c.CommitmentProgramID = chain.URL(), authority, program.LocalID.String()
			c.AnchorMaxWait = assembly.LocalAnchorMaxWait
		}
	}
	old, next, wallet := stacktest.Options{}, stacktest.Options{}, stacktest.NewWallet()
	anchoring(&old, authority)
	anchoring(&next, stacktest.KeypairFile(t, key))
	from := stacktest.Start(t, old)
	core, session := from.Core[0], from.Core[0].SignIn(wallet)
	write := func(content string, supersedes ...string) string {
		t.Helper()
		body := map[string]any{"content": content}
		if len(supersedes) > 0 {
			body["supersedes"] = supersedes
		}
		return core.Expect(201, "POST", "/memories", body, session).Text("id")
	}
	oslo := write("Ada lives in Oslo")
	core.AwaitAnchored(session, oslo)
	first := receiptOf(t, core, session, oslo) // of a tree that only the old operator anchors
	porto, secret := write("Ada lives in Porto", oslo), write("Forgotten")
	core.AwaitAnchored(session, secret)
	kept := []*verify.Receipt{receiptOf(t, core, session, oslo), receiptOf(t, core, session, porto), receiptOf(t, core, session, secret)}
	core.Expect(200, "POST", "/memories/"+secret+"/forget", nil, session)
	export := core.Expect(200, "GET", "/export", nil, session).Body
	from.Stop()

	to := stacktest.Start(t, next)
	there := to.Core[0]
	mine := there.SignIn(wallet)
	there.Expect(200, "POST", "/import", export, mine, ndjson)
	there.AwaitAnchored(mine, porto)
	by := verify.Issuer{ProgramID: program.LocalID.String(), Authority: key.PublicKey().String()}
	holds := func(r *verify.Receipt) {
		t.Helper()
		noErr(t, errors.Join(r.Verify(), r.VerifyIssuer(by)))
		if held, err := r.VerifyOnchain(t.Context(), chain.URL()); err != nil || held.Authority != by.Authority {
			t.Errorf("%+v, %v", held, err)
		}
	}
	for _, r := range kept {
		if err := r.VerifyIssuer(by); !errors.Is(err, verify.ErrChain) {
			t.Errorf("before: %v", err)
		}
		done, err := r.CompleteOnchain(t.Context(), chain.URL(), by)
		if noErr(t, err); done.LeafHash != r.LeafHash || done.Anchor.CommittedRoot != r.Anchor.CommittedRoot {
			t.Errorf("%+v, was %+v", done, r)
		}
		holds(done)
	}
	client := memoryledger.New(there.URL, memoryledger.WithSession(there.Token(wallet)), memoryledger.WithRPC(chain.URL()), memoryledger.WithIssuer(by))
	if _, err := first.CompleteOnchain(t.Context(), chain.URL(), by); !errors.Is(err, verify.ErrNotAnchored) {
		t.Errorf("its tree alone was not committed: %v", err)
	}
	done, err := client.CompleteReceipt(t.Context(), first)
	noErr(t, err)
	holds(done)

	file, moved := filepath.Join(t.TempDir(), "receipt.json"), filepath.Join(t.TempDir(), "moved.json")
	noErr(t, os.WriteFile(file, must(json.Marshal(kept[0])), 0o600))
	check := func(file string, more ...string) {
		t.Helper()
		args := append([]string{"verify-receipt", file, "--rpc", chain.URL(), "--program", by.ProgramID, "--authority", by.Authority}, more...)
		out, err := exec.CommandContext(t.Context(), stacktest.Program(t, stacktest.Ledger), args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "the chain holds it: account "+done.Anchor.Account) {
			t.Errorf("%v: %s", err, out)
		}
	}
	check(file, "--complete", moved)
	check(moved)
}

// mover is an owner whose import broke off, with a drop from before it.
type mover struct {
	owner, drop string
	sessions    map[contracttest.API]stacktest.Header
}

func importing(t *testing.T, s *stacktest.Stack) mover {
	t.Helper()
	wallet := stacktest.NewWallet()
	m := mover{owner: wallet.PublicKey, sessions: map[contracttest.API]stacktest.Header{
		contracttest.Core: s.Core[0].SignIn(wallet), contracttest.Extension: s.Extension[0].SignIn(wallet),
	}}
	m.drop = tokenOf(s.Extension[0].Expect(201, "POST", "/memory-drops", nil, m.sessions[contracttest.Extension]))
	breakOff(t, s, wallet)
	return m
}

// breakOff begins an import of an owner's, and does not go on with it.
func breakOff(t *testing.T, s *stacktest.Stack, wallet stacktest.Wallet) {
	t.Helper()
	base, _ := s.Beside(t)
	deciding, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
	noErr(t, err)
	size := s.Core[0].Expect(200, "GET", "/log", nil, s.Core[0].SignIn(wallet)).Number("treeSize")
	noErr(t, deciding.Commands.Execute(t.Context(), events.Owner(wallet.PublicKey), &command.StartImport{Export: imports.Import{Size: 1 << 20}, Equal: uint64(size)}))
}
