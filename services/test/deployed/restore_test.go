package deployed_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// admin returns a connection of the administrator.
func (d *deployment) admin() jetstream.JetStream {
	d.t.Helper()
	conn, err := nats.Connect(d.URL("admin"), nats.CustomInboxPrefix("_INBOX_admin"), nats.RootCAs(filepath.Join(d.Secrets, "ca_certificate")))
	must(d.t, err)
	d.t.Cleanup(conn.Close)
	admin, err := jetstream.New(conn)
	must(d.t, err)
	return admin
}

// TestRestoresOntoAProvisionedCluster: a log that is restored onto a provisioned cluster
// has as many replicas as the empty log that it replaces. The services go on with their
// roles.
func TestRestoresOntoAProvisionedCluster(t *testing.T) {
	d := deploy(t)
	projector := d.projector() // first: an API must not make the schema
	_, client := d.api("core-api")
	wallet := stacktest.NewWallet()
	session := client.SignIn(wallet)
	d.settled(client, session)
	copies := filepath.Join(t.TempDir(), "copies")
	run := func(args ...string) string {
		t.Helper()
		out, err := d.Command(args, d.As("admin")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	taken := filepath.Join(t.TempDir(), "backup.prom")
	run("backup", copies, "--metrics", taken)
	said, err := os.ReadFile(taken)
	if err != nil || !regexp.MustCompile(`(?m)^ledger_backup_timestamp_seconds \d{10}$`).Match(said) {
		t.Errorf("the backup's metrics: %s, %v", said, err)
	}
	projector.Kill()

	admin := d.admin()
	streams := []string{"LEDGER", "KV_ledger_keys", "KV_ledger_nonces", "KV_ledger_apps", "ledger_admin"}
	for _, name := range streams {
		must(t, admin.DeleteStream(t.Context(), name))
	}
	run("provision")
	run("restore", copies)
	if said := run("tail", "--admin"); strings.Count(said, "\n") != 3 || !strings.Contains(said, "backup") || !strings.Contains(said, "restore") {
		t.Errorf("the restored admin log: %s", said)
	}
	for _, name := range streams {
		if s, err := admin.Stream(t.Context(), name); err != nil || s.CachedInfo().Config.Replicas != 3 || (name != "LEDGER" && s.CachedInfo().Config.AllowDirect) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	d.projector()
	d.settled(client, session)
	client.Expect(200, "GET", "/memories", nil, session)
}
