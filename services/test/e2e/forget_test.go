package e2e_test

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
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
