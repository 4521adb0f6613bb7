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
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/backup"
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
	_, middle, _ := bytes.Cut(run.core.Expect(200, "GET", "/memories?limit=1&cursor=120", nil, session).Body, []byte(`"id":"`))
	id := middle[:36]
	run.stop()
	for _, path := range natstest.FilesHolding(t, filepath.Join(data, "nats", "jetstream"), id) {
		text, err := os.ReadFile(path)
		must(t, err)
		at := bytes.Index(text, id)
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
// erasure is told before the owner reads. An erased key is not lost, nor is one that another
// master key wraps. A backup cures both a lost one and an entry that another owner's key replaced.
func TestReadinessFindsALostKey(t *testing.T) {
	t.Parallel()
	data, database := t.TempDir(), "DATABASE_URL="+pgtest.Database(t)
	run := startRun(t, data, "LOCAL_CHAIN=off", database)
	wallets := []stacktest.Wallet{stacktest.NewWallet(), stacktest.NewWallet(), stacktest.NewWallet()}
	for _, w := range wallets {
		run.write(run.core.SignIn(w), "one")
	}
	copies, put := filepath.Join(t.TempDir(), "copies"), uint64(0)
	must(t, assembly.Backup(t.Context(), run.cfg, copies, []backup.Part{backup.Keystore}, func(backup.Done) {}, quiet))
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
	must(t, err)
	must(t, stream.DeleteMsg(t.Context(), key.Sequence))
	must(t, errorOf(js.Publish(t.Context(), "$KV."+keystore.Bucket+"."+wallets[0].PublicKey, key.Data)))
	run.stop()
	run = startRun(t, data, "LOCAL_CHAIN=off", database)
	run.until("readiness tells of the lost key", "/readyz", nil, says("data keys", "is lost"))
	if a := run.core.Do("GET", "/readyz", nil); !says("data keys", "restore the keystore")(a) || strings.Contains(string(a.Body), wallets[1].PublicKey) {
		t.Errorf("then it says %s", a.Body)
	}
	told, err := assembly.Audit(t.Context(), run.cfg, assembly.AuditOptions{})
	must(t, err)
	if all := fmt.Sprint(told.Incomplete); !strings.Contains(all, wallets[0].PublicKey) || !strings.Contains(all, wallets[1].PublicKey) {
		t.Errorf("the audit does not name both: %+v", told)
	}
	must(t, assembly.Restore(t.Context(), run.cfg, copies, nil, func(d backup.Done) { put = d.Messages }, quiet))
	if put != 2 {
		t.Errorf("%d keys were put back, want the lost one and the replaced one", put)
	}
	run.until("the key is back", "/readyz", nil, says("data keys", "ok"))
	later := bytes.Replace(key.Data, []byte(`"master":"`), []byte(`"master":"0`), 1)
	_, js = natstest.Connect(t, run.cfg.NATSURL)
	must(t, errorOf(js.Publish(t.Context(), key.Subject, later)))
	run.until("readiness tells of another master key", "/readyz", nil, says("data keys", keystore.ErrMasterKey.Error()))
}
