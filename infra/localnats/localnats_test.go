package localnats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

func stream(t *testing.T, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestRestartKeepsAcknowledgedMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := localnats.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	s, err := localnats.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js := stream(t, conn)
	big := bytes.Repeat([]byte("x"), localnats.MaxPayload-1024)
	for i, payload := range [][]byte{[]byte("one"), big} {
		if ack, err := js.Publish(t.Context(), "t.x", payload); err != nil || ack.Sequence != uint64(i+1) {
			t.Fatalf("publish: %v, %v", ack, err)
		}
	}
	url := s.URL()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !conn.IsClosed() {
		t.Error("Stop left a connection open")
	}
	cfg.Port = s.Port()
	s, err = localnats.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop(context.Background()) }()
	if s.URL() != url {
		t.Error("the URL changed")
	}
	js = stream(t, connect(t, url))
	str, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := str.GetMsg(t.Context(), 2)
	if err != nil || !bytes.Equal(msg.Data, big) {
		t.Errorf("message lost: %v", err)
	}
}

func TestListenerIsPrivate(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	host, _, err := net.SplitHostPort(strings.SplitN(s.URL(), "@", 2)[1])
	if err != nil || host != "127.0.0.1" {
		t.Errorf("listens on %s, %v", host, err)
	}
	bare := fmt.Sprintf("nats://127.0.0.1:%d", s.Port())
	for name, opt := range map[string]nats.Option{
		"no credential":  nats.Name("x"),
		"wrong password": nats.UserInfo(localnats.User, "wrong"),
		"wrong token":    nats.Token("wrong"),
	} {
		conn, err := nats.Connect(bare, opt)
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v, want an authorization error", name, err)
		}
		if conn != nil {
			conn.Close()
		}
	}
	connect(t, s.URL())
}

func TestSecondInstanceIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	natstest.Start(t, natstest.Dir(dir))
	if _, err := localnats.Start(t.Context(), localnats.Config{Dir: dir}); !errors.Is(err, datadir.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	info, err := os.Stat(filepath.Join(dir, "password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v", info, err)
	}
}

func TestTakenPortIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := t.TempDir()
	cfg := localnats.Config{Dir: dir, Port: l.Addr().(*net.TCPAddr).Port, Logger: slog.New(slog.DiscardHandler)}
	_, err = localnats.Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v", err)
	}
	natstest.Start(t, natstest.Dir(dir)) // the folder is free again
}

func TestDamagedStoreIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := localnats.Start(t.Context(), localnats.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "JetStream") {
		t.Fatalf("got %v", err)
	}
}

func TestLogNoiseIsDebug(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer // the handler locks its writer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := localnats.Start(t.Context(), localnats.Config{Dir: t.TempDir(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("an ordinary run logs:\n%s", &out)
	}
}

// Stop delivers every message that was published on a connection before it.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	const n = 500
	var got sync.WaitGroup
	got.Add(n)
	if _, err := conn.Subscribe("d", func(*nats.Msg) { got.Done() }); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := conn.Publish("d", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got.Wait()
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}

// Another process can sync a stream's files. It needs only the folder.
func TestSyncStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stream(t, connect(t, natstest.Start(t, natstest.Dir(dir)).URL()))
	if err := localnats.SyncStream(dir, "T"); err != nil {
		t.Error(err)
	}
	for _, there := range []string{dir, t.TempDir(), filepath.Join(dir, "nowhere")} {
		if err := localnats.SyncStream(there, "nothing"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a stream that is not in %s: %v", there, err)
		}
	}
}
