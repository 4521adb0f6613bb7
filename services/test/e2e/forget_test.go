package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// forget destroys an owner's data key, as an operator does on a request to forget the
// owner.
func forget(t *testing.T, s *stacktest.Stack, wallet stacktest.Wallet) {
	t.Helper()
	existed, err := assembly.Forget(t.Context(), s.Config, events.Owner(wallet.PublicKey))
	if err != nil || !existed {
		t.Fatalf("%+v, %v", existed, err)
	}
}

// TestForgettingEndsAccess: credentials and links that were handed out end with the key.
// Services that have the key in memory drop it long before they would read it again.
func TestForgettingEndsAccess(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, extensionSession := core.SignIn(wallet), extension.SignIn(wallet)
	key := core.Expect(201, "POST", "/keys", `{"label":"l"}`, session).Text("key")
	drop := tokenOf(extension.Expect(201, "POST", "/memory-drops", `{"maxWrites":5}`, extensionSession))
	readCase := tokenOf(extension.Expect(201, "POST", "/agent-cases", `{"maxReads":5}`, extensionSession))
	bearer := stacktest.With("Authorization", "Bearer "+key)
	core.Expect(201, "POST", "/memories", `{"content":"x"}`, bearer)
	extension.Expect(201, "POST", "/memory-drops/"+drop, `{"content":"x"}`)
	extension.Expect(200, "GET", "/agent-cases/"+readCase, nil)

	ranked := `{"query":"x","mode":"ranked"}`
	testkit.Await(t, "words are kept", func() bool {
		// The news that the owner got a key may come late, and drops what was kept before.
		core.Expect(200, "POST", "/memories/search", ranked, session)
		return metric(t, core, `ledger_cached_bytes{cache="texts"}`) >= 700
	})

	forget(t, s, wallet)
	core.Expect(401, "POST", "/memories", `{"content":"x"}`, bearer)
	core.Expect(401, "GET", "/memories", nil, bearer)
	core.Expect(401, "GET", "/memories", nil, session)
	extension.Expect(401, "GET", "/memories", nil, extensionSession)
	extension.Expect(404, "POST", "/memory-drops/"+drop, `{"content":"x"}`)
	extension.Expect(404, "GET", "/agent-cases/"+readCase, nil)
	session = core.SignIn(wallet)
	began := time.Now()
	for core.Do("GET", "/memories", nil, session).Status != 410 {
		if time.Since(began) > 20*time.Second { // KEY_MAX_AGE is a minute
			t.Fatal("the key is still used")
		}
	}
	core.Expect(410, "POST", "/memories/search", ranked, session)
	for metric(t, core, `ledger_cached_bytes{cache="texts"}`) >= 700 { // the size of the log is kept
		if time.Since(began) > 20*time.Second {
			t.Fatal("the words are still kept")
		}
	}
}

// TestALostKeyIsNotCalledDestroyed: 410 is permanent, and clients rely on it. A keystore
// that lacks an owner who has memories is the wrong one, or has lost data.
func TestALostKeyIsNotCalledDestroyed(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.KeyMaxAge = time.Millisecond }})
	core, wallet := s.Core[0], stacktest.NewWallet()
	session := core.SignIn(wallet)
	id := core.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session).Text("id")
	_, js := natstest.Connect(t, s.NATSURL)
	stream, err := js.Stream(t.Context(), keystore.Stream)
	noErr(t, err)
	entry, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+keystore.Bucket+"."+wallet.PublicKey)
	noErr(t, err)
	noErr(t, stream.DeleteMsg(t.Context(), entry.Sequence))
	core.Expect(503, "GET", "/memories/"+id, nil, session)
	core.Expect(503, "GET", "/memories", nil, session)
	core.Expect(503, "POST", "/memories", map[string]any{"content": "y"}, session)
	// After the entry is restored, everything works as before.
	noErr(t, errorOf(js.Publish(t.Context(), entry.Subject, entry.Data)))
	if got := core.Expect(200, "GET", "/memories/"+id, nil, session).Text("content"); got != "x" {
		t.Errorf("got %q", got)
	}
}

// metric reads the value of a series.
func metric(t *testing.T, c *stacktest.Client, series string) float64 {
	t.Helper()
	answer, err := http.Get(c.URL + "/metrics")
	noErr(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	noErr(t, err)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no series %s", series)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	noErr(t, err)
	return n
}

// TestForgettingIsFinished: a service that ends after the event, before the key is destroyed,
// leaves the rest to the next one that starts. So does a keystore that was restored from a
// backup from before.
func TestForgettingIsFinished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := stacktest.Options{NATSURL: natstest.Start(t, natstest.Dir(dir)).URL(), DatabaseURL: pgtest.Database(t)}
	first, wallet := stacktest.Start(t, servers), stacktest.NewWallet()
	owner, session := events.Owner(wallet.PublicKey), first.Core[0].SignIn(wallet)
	var ids []string
	for n := range 3 {
		ids = append(ids, first.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint("text ", n)}, session).Text("id"))
	}
	base, _ := first.Beside(t)
	deciding, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
	noErr(t, err)
	noErr(t, deciding.Commands.Execute(t.Context(), owner, &command.ForgetMemory{MemoryID: ids[1], LeafIndex: 1}))
	_, js := natstest.Connect(t, servers.NATSURL)
	bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
	noErr(t, err)
	before, err := bucket.Get(t.Context(), string(owner))
	noErr(t, err)
	first.Core[0].Expect(410, "GET", "/memories/"+ids[1], nil, session)
	first.Stop()
	for range 2 {
		starting := changes(t, bucket, owner)
		s := stacktest.Start(t, servers)
		<-starting
		s.Core[0].Expect(200, "POST", "/memories/"+ids[1]+"/forget", nil, session) // waits until the old entry is erased
		s.Core[0].Expect(410, "GET", "/memories/"+ids[1], nil, session)
		s.Core[0].Expect(200, "GET", "/memories/"+ids[2], nil, session)
		s.Stop()
		if files := natstest.FilesHolding(t, dir, before.Value()); len(files) > 0 {
			t.Errorf("a key of what was forgotten is in %q", files)
		}
		agrees(t, s)
		noErr(t, errorOf(bucket.Put(t.Context(), string(owner), before.Value()))) // restored
	}
}

// changes returns a channel that gets the next change of an owner's entry.
func changes(t *testing.T, bucket jetstream.KeyValue, owner events.Owner) <-chan jetstream.KeyValueEntry {
	t.Helper()
	watcher, err := bucket.Watch(t.Context(), string(owner), jetstream.UpdatesOnly())
	noErr(t, err)
	return watcher.Updates()
}

// withoutOwnKey writes a memory as an earlier build did, under its owner's data key, and
// returns its id.
func withoutOwnKey(t *testing.T, s *stacktest.Stack, wallet stacktest.Wallet) string {
	t.Helper()
	base, _ := s.Beside(t)
	deciding, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
	noErr(t, err)
	write := &command.WriteMemory{
		MemoryID: assembly.NewID(), Metadata: canonical.Empty,
		Seal: func(uint64) ([]byte, int) { return []byte("sealed"), events.SealedByOwner },
	}
	noErr(t, deciding.Commands.Execute(t.Context(), events.Owner(wallet.PublicKey), write))
	return write.MemoryID
}

// TestRetractedAndForgotten: a memory that was retracted or forgotten disappears everywhere,
// on every replica, at once. Its leaf and its proof stay, all other texts open, and the audit
// agrees. TestForgettingIsFinished shows that a forgotten text can't be read any more.
func TestRetractedAndForgotten(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		method, path string // the latter after the memory's
		scopes       []string
	}{
		"retracted": {"DELETE", "", []string{"read", "write"}},
		"forgotten": {"POST", "/forget", []string{"read", "write", "retract"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disappears(t, way.method, way.path, way.scopes)
		})
	}
}

// disappears makes memories disappear by a request. A key needs more than the given scopes
// for it.
func disappears(t *testing.T, method, tail string, scopes []string) {
	t.Helper()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other, extension, wallet := s.Core[0], s.Core[1], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	_, secret := makeKey(core, session, scopes...)
	var ids []string
	for n := range 5 {
		ids = append(ids, core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Secret thing %d", n)}, session, stacktest.With("Idempotency-Key", fmt.Sprint(n))).Text("id"))
	}
	reads := []struct {
		method, path string
		body         any
	}{
		{"GET", "/memories", nil}, {"GET", "/memories?limit=100", nil}, {"GET", "/memories?order=newest&limit=100", nil},
		{"POST", "/memories/search", map[string]any{"query": "thing"}}, {"POST", "/memories/search", map[string]any{"query": ""}},
		{"POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}},
		{"POST", "/memories/search", map[string]any{"query": "thing", "limit": 100}},
	}
	gone := "/memories/" + ids[2]
	for range 2 { // so that both replicas have the rows and texts in memory
		for _, c := range s.Core {
			c.Expect(200, "GET", gone, nil, session)
			for _, read := range reads {
				c.Expect(200, read.method, read.path, read.body, session)
			}
		}
	}
	receipt := core.Expect(200, "GET", gone+"/receipt", nil, session).Body
	proof := core.Expect(200, "GET", gone+"/proof", nil, session).Field("proof")

	core.Expect(403, method, gone+tail, nil, stacktest.Bearer(secret))
	core.Expect(401, method, gone+tail, nil)
	core.Expect(404, method, gone+tail, nil, core.SignIn(stacktest.NewWallet()))
	core.Expect(404, method, "/memories/"+strings.Repeat("0", 36)+tail, nil, session)
	core.Expect(200, "DELETE", "/memories/"+ids[3], nil, session)
	core.Expect(200, method, "/memories/"+ids[3]+tail, nil, session) // what was retracted, too
	if ok := core.Expect(200, method, gone+tail, nil, session).Field("ok"); ok != true {
		t.Errorf("the answer is %v", ok)
	}
	other.Expect(410, "GET", gone, nil, session)
	other.Expect(410, "GET", gone+"/receipt", nil, session)
	other.Expect(200, method, gone+tail, nil, session) // again

	for _, c := range s.Core {
		if n := c.Expect(200, "GET", "/log", nil, session).Number("memories"); n != 3 {
			t.Errorf("the log has %d memories", n)
		}
		for _, read := range reads {
			answer := c.Expect(200, read.method, read.path, read.body, session)
			if damaged := answer.Header.Get("Damaged"); damaged != "" {
				t.Errorf("%s %s %v: %s are damaged", read.method, read.path, read.body, damaged)
			}
			found := decode[[]view](t, answer.Body)
			if len(found) != 3 || found[0].ID == ids[2] || found[1].ID == ids[2] || found[2].ID == ids[2] {
				t.Errorf("%s %s %v: %v", read.method, read.path, read.body, found)
			}
		}
	}
	listed := decode[struct{ Memories []view }](t, extension.Expect(200, "GET", "/memories", nil, visitor).Body)
	if len(listed.Memories) != 3 {
		t.Errorf("the extension lists %d", len(listed.Memories))
	}
	document := string(extension.Expect(200, "GET", "/agent-cases/"+tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, visitor)), nil).Body)
	if strings.Contains(document, "thing 2") || !strings.Contains(document, "thing 4") || !strings.Contains(document, "Memories: 3") {
		t.Errorf("the case: %s", document)
	}
	if now := other.Expect(200, "GET", gone+"/proof", nil, session).Field("proof"); fmt.Sprint(now) != fmt.Sprint(proof) {
		t.Errorf("the proof was %v and is %v", proof, now)
	}
	if r, err := verify.ParseReceipt(receipt); err != nil || r.Verify() != nil {
		t.Errorf("the receipt of before: %v, %v", err, r.Verify())
	}
	exported := strings.Split(strings.TrimSpace(string(other.Expect(200, "GET", "/export", nil, session).Body)), "\n")
	if len(exported) != 7 || !strings.Contains(exported[3], `"entry":null`) || strings.Contains(exported[2], `"entry":null`) {
		t.Errorf("the export has %d lines, and of what is gone %s", len(exported), exported[3])
	}
	// The write can still be repeated, and writes continue.
	if id := core.Expect(201, "POST", "/memories", map[string]any{"content": "Secret thing 2"}, session, stacktest.With("Idempotency-Key", "2")).Text("id"); id != ids[2] {
		t.Errorf("the repeated write gives %s", id)
	}
	if n := other.Expect(201, "POST", "/memories", map[string]any{"content": "more"}, session).Number("leafIndex"); n != 5 {
		t.Errorf("the next leaf is %d", n)
	}
	agrees(t, s)
}

// agrees fails the test if the audit reports anything.
func agrees(t *testing.T, s *stacktest.Stack) {
	t.Helper()
	_, err := assembly.Audit(t.Context(), s.Config, assembly.AuditOptions{Report: func(f audit.Finding) { t.Errorf("%+v", f) }})
	if err != nil {
		t.Error(err)
	}
}
