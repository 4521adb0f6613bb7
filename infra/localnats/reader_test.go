package localnats_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// readable runs a server whose stream T readers may read. It also returns a JetStream
// client of the administrator.
func readable(t *testing.T) (*localnats.Server, jetstream.JetStream) {
	t.Helper()
	s, err := localnats.Start(t.Context(), localnats.Config{Dir: t.TempDir(), NoSync: true, ReadStream: "T", Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	admin, _ := natstest.Connect(t, s.URL())
	js := stream(t, admin)
	must(t, errorOf(js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, AllowDirect: true})))
	must(t, errorOf(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "keys"})))
	for range 3 {
		must(t, errorOf(js.Publish(t.Context(), "t.x", []byte("kept"))))
	}
	return s, js
}

// The reader and the administrator have different passwords.
func TestAReaderIsKnown(t *testing.T) {
	t.Parallel()
	s, _ := readable(t)
	for _, url := range []string{
		strings.Replace(s.URL(), localnats.User+":", localnats.Reader+":", 1), strings.Replace(s.ReadURL(), localnats.Reader+":", localnats.User+":", 1),
	} {
		if conn, err := nats.Connect(url); err == nil {
			conn.Close()
			t.Errorf("let in by the other one's password")
		}
	}
}

// The reader of a local run may do exactly what the auditor of a deployment may.
func TestAReaderIsTheDeploymentsAuditor(t *testing.T) {
	for _, user := range []string{"ADMIN", "CORE", "EXTENSION", "PROJECTOR", "ANCHORER", "AUDITOR", "SYS"} {
		t.Setenv("NATS_"+user+"_PASSWORD", "x")
	}
	file := "../nats/accounts.conf"
	must(t, errorOf(os.Stat(file)))
	opts, err := server.ProcessConfigFile(file)
	must(t, err)
	want := localnats.ReaderMay("LEDGER", "ledger_admin")
	for _, user := range opts.Users {
		if user.Username != localnats.Reader {
			continue
		}
		got := slices.Sorted(slices.Values(user.Permissions.Publish.Allow))
		// A local run has one node, so nothing is asked of the others.
		got = slices.DeleteFunc(got, func(subject string) bool { return subject == "$SYS.REQ.SERVER.PING.RAFTZ" })
		if !slices.Equal(got, want) {
			t.Errorf("there it may ask %v, here %v", got, want)
		}
		return
	}
	t.Error("there is no auditor")
}
