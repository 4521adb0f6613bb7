package assembly_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// says returns a condition: a readiness check says a text.
func says(check, text string) func(stacktest.Answer) bool {
	return func(a stacktest.Answer) bool {
		var state struct{ Checks map[string]string }
		return json.Unmarshal(a.Body, &state) == nil && strings.Contains(state.Checks[check], text)
	}
}

// TestReadinessFindsAHole: a message in the middle of the log that can't be read is named
// before any reader needs it.
func TestReadinessFindsAHole(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), "DATABASE_URL="+pgtest.Database(t)
	run := startRun(t, data, "LOCAL_CHAIN=off", database)
	session := run.core.SignIn(stacktest.NewWallet())
	for i := range 150 { // more than one check reads
		run.write(session, fmt.Sprint(i))
	}
	id := run.core.Expect(200, "GET", "/memories?limit=1&cursor=120", nil, session)
	var middle []struct{ ID string }
	if err := json.Unmarshal(id.Body, &middle); err != nil || len(middle) != 1 {
		t.Fatal(err, string(id.Body))
	}
	run.stop()
	for _, path := range natstest.FilesHolding(t, filepath.Join(data, "nats", "jetstream"), []byte(middle[0].ID)) {
		text, err := os.ReadFile(path)
		must(t, err)
		at := bytes.Index(text, []byte(middle[0].ID))
		copy(text[at:], make([]byte, 200)) // a hole
		must(t, os.WriteFile(path, text, 0o600))
	}
	run = startRun(t, data, "LOCAL_CHAIN=off", database)
	run.until("readiness names the hole", "/readyz", nil, says("log content", "can't read sequence "))
	for range 3 {
		if a := run.core.Do("GET", "/readyz", nil); !says("log content", "can't read sequence ")(a) {
			t.Errorf("then it says %s", a.Body)
		}
	}
}

// TestReadinessFindsALostKey: an owner's data key that is gone without the mark of an
// erasure is told before the owner reads. An erased key is not lost.
func TestReadinessFindsALostKey(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), "DATABASE_URL="+pgtest.Database(t)
	run := startRun(t, data, "LOCAL_CHAIN=off", database)
	wallets := []stacktest.Wallet{stacktest.NewWallet(), stacktest.NewWallet(), stacktest.NewWallet()}
	for _, w := range wallets {
		run.write(run.core.SignIn(w), "one")
	}
	asked := run.core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallets[2].PublicKey, "purpose": "erase"})
	run.core.Expect(200, "POST", "/erasure", wallets[2].Answer(asked.Text("message")))
	for range 3 {
		if a := run.core.Expect(200, "GET", "/readyz", nil); !says("data keys", "ok")(a) {
			t.Fatalf("before: %s", a.Body)
		}
	}
	_, js := natstest.Connect(t, run.cfg.NATSURL)
	stream, err := js.Stream(t.Context(), keystore.Stream)
	must(t, err)
	key, err := stream.GetLastMsgForSubject(t.Context(), "$KV."+keystore.Bucket+"."+wallets[1].PublicKey)
	if err == nil {
		err = stream.DeleteMsg(t.Context(), key.Sequence)
	}
	must(t, err)
	run.stop()
	run = startRun(t, data, "LOCAL_CHAIN=off", database)
	run.until("readiness tells of the lost key", "/readyz", nil, says("data keys", "is lost"))
	if a := run.core.Do("GET", "/readyz", nil); !says("data keys", "restore the keystore")(a) || strings.Contains(string(a.Body), wallets[1].PublicKey) {
		t.Errorf("then it says %s", a.Body)
	}
}
