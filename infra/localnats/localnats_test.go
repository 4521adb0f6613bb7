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
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

func stream(t *testing.T, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	must(t, err)
	must(t, errorOf(js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}})))
	return js
}

func TestRestartKeepsAcknowledgedMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := localnats.Config{Dir: dir, Password: "kept", Logger: slog.New(slog.DiscardHandler)}
	s, err := localnats.Start(t.Context(), cfg)
	must(t, err)
	conn, err := s.Connect()
	must(t, err)
	js := stream(t, conn)
	big := bytes.Repeat([]byte("x"), localnats.MaxPayload-1024)
	for i, payload := range [][]byte{[]byte("one"), big} {
		if ack, err := js.Publish(t.Context(), "t.x", payload); err != nil || ack.Sequence != uint64(i+1) {
			t.Fatalf("publish: %v, %v", ack, err)
		}
	}
	url := s.URL()
	must(t, s.Stop(t.Context()))
	if !conn.IsClosed() {
		t.Error("Stop left a connection open")
	}
	cfg.Port = s.Port()
	s, err = localnats.Start(t.Context(), cfg)
	must(t, err)
	defer func() { _ = s.Stop(context.Background()) }()
	if s.URL() != url {
		t.Error("the URL changed")
	}
	again, _ := natstest.Connect(t, url)
	js = stream(t, again)
	str, err := js.Stream(t.Context(), "T")
	must(t, err)
	msg, err := str.GetMsg(t.Context(), 2)
	if err != nil || !bytes.Equal(msg.Data, big) {
		t.Errorf("message lost: %v", err)
	}
}

// The server keeps such a stream as it is until its next start: an operator has to know.
func TestAFullDiskIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := localnats.Start(t.Context(), localnats.Config{Dir: dir, NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer func() { _ = s.Stop(context.Background()) }()
	conn, err := s.Connect()
	must(t, err)
	stream(t, conn)
	must(t, s.Failed())
	// The next block's file is on a disk without room.
	must(t, os.Symlink("/dev/full", filepath.Join(dir, "jetstream", "$G", "streams", "T", "msgs", "2.blk")))
	for n := 0; n < 20 && s.Failed() == nil; n++ {
		_, err = conn.Request("t.x", bytes.Repeat([]byte("x"), localnats.MaxPayload-1024), time.Second)
	}
	if got := s.Failed(); err == nil || got == nil || !strings.Contains(got.Error(), "restart") {
		t.Errorf("%v; the last write: %v", got, err)
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
	natstest.Connect(t, s.URL())
}

// Another process can sync a stream's files. It needs only the folder.
func TestSyncStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conn, _ := natstest.Connect(t, natstest.Start(t, natstest.Dir(dir)).URL())
	stream(t, conn)
	if err := localnats.SyncStream(dir, "T"); err != nil {
		t.Error(err)
	}
	for _, there := range []string{dir, t.TempDir(), filepath.Join(dir, "nowhere")} {
		if err := localnats.SyncStream(there, "nothing"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a stream that is not in %s: %v", there, err)
		}
	}
}
