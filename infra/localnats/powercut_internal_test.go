package localnats

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// machine runs a server whose power can be cut.
type machine struct {
	t      *testing.T
	dir    string
	server *Server
	group  *GroupSync
	js     jetstream.JetStream

	mu      sync.Mutex
	onDisk  map[string][]byte // the content of each file when its last fsync began
	answers map[uint64][]byte // the acknowledged messages
}

const powerStream = "LEDGER"

// boot starts a server on a folder with the files that survived.
func boot(t *testing.T, survived map[string][]byte, answers map[uint64][]byte) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), onDisk: map[string][]byte{}, answers: answers}
	for name, data := range survived {
		path := filepath.Join(m.dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)))
	}
	var err error
	m.server, err = Start(t.Context(), Config{Dir: m.dir, GroupSync: true, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() {
		if err := m.server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := m.server.Connect()
	must(t, err)
	m.js, err = jetstream.New(conn)
	must(t, err)
	// A small limit makes the server use small blocks. The test never reaches the limit.
	cfg := jetstream.StreamConfig{Name: powerStream, Subjects: []string{"t.>"}, MaxBytes: 1 << 24, Discard: jetstream.DiscardNew}
	must(t, testkit.ErrorOf(m.js.CreateOrUpdateStream(t.Context(), cfg)))
	m.group = m.server.GroupSync(powerStream, false)
	m.group.syncFile = m.sync
	return m
}

// sync records a file's content. A power cut from now on leaves that content.
func (m *machine) sync(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(m.dir, path)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onDisk[name] = data
	return nil
}

// write stores messages and records the acknowledged ones.
func (m *machine) write(chance *rand.ChaCha8, n int) {
	for range n {
		message := make([]byte, 1+chance.Uint64()%3000)
		_, _ = chance.Read(message) // always fills message
		ack, err := m.js.Publish(m.t.Context(), "t.x", message)
		if err != nil {
			m.t.Error(err)
			return
		}
		if err := m.group.Sync(m.t.Context()); err != nil {
			m.t.Error(err)
			return
		}
		m.mu.Lock()
		m.answers[ack.Sequence] = message
		m.mu.Unlock()
	}
}

// cut returns the files that a power cut at this moment would leave, and the messages
// that were acknowledged before it.
func (m *machine) cut() (survived map[string][]byte, answers map[uint64][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.onDisk), maps.Clone(m.answers)
}

// holds checks that the stream has every acknowledged message.
func (m *machine) holds() {
	m.t.Helper()
	stream, err := m.js.Stream(m.t.Context(), powerStream)
	must(m.t, err)
	for seq, want := range m.answers {
		got, err := stream.GetMsg(m.t.Context(), seq)
		if err != nil || !bytes.Equal(got.Data, want) {
			m.t.Fatalf("message %d of %d, which was acknowledged: %v", seq, len(m.answers), err)
		}
	}
}

// TestPowerCuts repeatedly cuts the power of a real server while eight writers write to
// it. Every acknowledged message survives.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	m := boot(t, nil, map[uint64][]byte{})
	for life := range 6 {
		var writers sync.WaitGroup
		for i := range 8 {
			writers.Go(func() { m.write(rand.NewChaCha8([32]byte{byte(life), byte(i)}), 60) })
		}
		halfway := make(chan struct{})
		var survived map[string][]byte
		var answers map[uint64][]byte
		writers.Go(func() {
			m.write(rand.NewChaCha8([32]byte{byte(life), 8}), 30)
			survived, answers = m.cut()
			close(halfway)
		})
		writers.Wait()
		<-halfway
		if t.Failed() {
			return
		}
		m = boot(t, survived, answers)
		m.holds()
	}
}
