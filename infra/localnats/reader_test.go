package localnats_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
)

// readable runs a server whose stream T readers may read. It also returns a JetStream
// client of the administrator.
func readable(t *testing.T) (*localnats.Server, jetstream.JetStream) {
	t.Helper()
	s, err := localnats.Start(t.Context(), localnats.Config{Dir: t.TempDir(), NoSync: true, ReadStream: "T", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	admin := connect(t, s.URL())
	js := stream(t, admin)
	if _, err := js.UpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "keys"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(t.Context(), "t.x", []byte("kept")); err != nil {
			t.Fatal(err)
		}
	}
	return s, js
}

// asReader connects with ReadURL. The channel refused gets the server's refusals.
func asReader(t *testing.T, s *localnats.Server) (conn *nats.Conn, refused chan error) {
	t.Helper()
	refused = make(chan error, 16)
	conn, err := nats.Connect(s.ReadURL(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn, refused
}

func awaitRefused(t *testing.T, refused chan error, what string) {
	t.Helper()
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s was not refused", what)
	}
}

// A reader can't write, delete, create a consumer, or read another stream. A read that
// names such a subject as its reply subject does no harm either.
func TestAReaderOnlyReads(t *testing.T) {
	t.Parallel()
	s, js := readable(t)
	conn, refused := asReader(t, s)
	for _, subject := range []string{
		"t.x", "$JS.API.STREAM.DELETE.T", "$JS.API.STREAM.PURGE.T", "$JS.API.STREAM.UPDATE.T", "$JS.API.STREAM.MSG.DELETE.T", "$JS.API.STREAM.CREATE.X",
		"$JS.API.STREAM.SNAPSHOT.T", "$JS.API.CONSUMER.CREATE.T", "$JS.API.CONSUMER.CREATE.T.mine", "$JS.API.CONSUMER.DURABLE.CREATE.T.mine",
		"$JS.API.STREAM.INFO.KV_keys", "$JS.API.STREAM.MSG.GET.KV_keys", "$JS.API.DIRECT.GET.KV_keys", "$KV.keys.x", "$JS.API.STREAM.NAMES", "$SYS.REQ.SERVER.PING",
	} {
		if err := conn.PublishRequest(subject, conn.NewInbox(), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		awaitRefused(t, refused, subject)
	}
	for _, answerTo := range []string{"t.x", "$JS.API.STREAM.DELETE.T", "$KV.keys.x"} {
		if err := conn.PublishRequest("$JS.API.DIRECT.GET.T", answerTo, []byte(`{"seq":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.SubscribeSync("t.>"); err != nil {
		t.Fatal(err)
	}
	awaitRefused(t, refused, "listening to what is appended")
	log, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	if state := log.CachedInfo().State; state.Msgs != 3 || state.LastSeq != 3 || state.Consumers != 0 {
		t.Errorf("the stream is another one now: %+v", state)
	}
	keys, err := js.Stream(t.Context(), "KV_keys")
	if err != nil || keys.CachedInfo().State.Msgs != 0 {
		t.Errorf("the bucket: %v", err)
	}
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
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := localnats.ReaderMay("LEDGER")
	for _, user := range opts.Users {
		if user.Username != localnats.Reader {
			continue
		}
		got := slices.Sorted(slices.Values(user.Permissions.Publish.Allow))
		if !slices.Equal(got, want) {
			t.Errorf("there it may ask %v, here %v", got, want)
		}
		return
	}
	t.Error("there is no auditor")
}
