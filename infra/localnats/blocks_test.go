package localnats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// scanned is a message as blocks have it.
type scanned struct {
	seq                      uint64
	time                     int64
	subject, header, payload string
}

func scan(ctx context.Context, b localnats.Blocks, from, to uint64) (all []scanned, err error) {
	err = b.Scan(ctx, from, to, func(seq uint64, time int64, subject, header, payload []byte) error {
		all = append(all, scanned{seq, time, string(subject), string(header), string(payload)})
		return nil
	})
	return all, err
}

// asServed are a stream's messages as its server has them, from the first on.
func asServed(t *testing.T, js jetstream.JetStream, n int) (all []scanned) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= uint64(n); seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		header := ""
		if id := m.Header.Get("Nats-Msg-Id"); id != "" {
			header = "NATS/1.0\r\nNats-Msg-Id: " + id + "\r\n\r\n"
		}
		all = append(all, scanned{seq, m.Time.UnixNano(), m.Subject, header, string(m.Data)})
	}
	return all
}

// Messages short, empty and as long as they may be, with headers and without, in
// several blocks, are read as the server has them, from wherever one begins, while it
// takes more and after it was stopped.
func TestBlocksAreTheStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, natstest.Dir(dir))
	js := stream(t, connect(t, server.URL()))
	blocks := localnats.OpenBlocks(dir, "T")
	const n = 60
	for i := range n {
		m := &nats.Msg{Subject: fmt.Sprintf("t.%d", i), Data: bytes.Repeat([]byte{byte(i)}, i*i%900)}
		if i%3 == 0 {
			m.Header = nats.Header{"Nats-Msg-Id": {fmt.Sprint("id ", i)}}
		}
		if i%5 == 4 {
			m.Data = bytes.Repeat([]byte{byte(i)}, localnats.MaxPayload-1024)
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		// What was acknowledged is there at once, and no more than that.
		if got, err := scan(t.Context(), blocks, uint64(i+1), n); err != nil || len(got) != 1 || got[0].payload != string(m.Data) {
			t.Fatalf("message %d: %d messages, %v", i, len(got), err)
		}
	}
	want := asServed(t, js, n)
	if files, _ := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "T", "msgs", "*.blk")); len(files) < 3 {
		t.Fatalf("all in %d blocks", len(files))
	}
	compare := func(from, to uint64) {
		t.Helper()
		got, err := scan(t.Context(), blocks, from, to)
		if err != nil || len(got) != len(want[from-1:min(to, n)]) {
			t.Fatalf("%d to %d: %d messages, %v", from, to, len(got), err)
		}
		for i, m := range want[from-1 : min(to, n)] {
			if got[i] != m {
				t.Fatalf("%d to %d: sequence %d is not as the server has it: %.100q %.100q", from, to, m.seq, fmt.Sprint(got[i]), fmt.Sprint(m))
			}
		}
	}
	for from := uint64(1); from <= n; from++ {
		compare(from, from)
		if from%11 == 1 {
			compare(from, n+5)
		}
	}
	if got, err := scan(t.Context(), blocks, n+1, n+5); err != nil || len(got) > 0 {
		t.Errorf("beyond the end: %d messages, %v", len(got), err)
	}
	if got, err := scan(t.Context(), blocks, 2, 1); err != nil || len(got) > 0 {
		t.Errorf("nothing: %d messages, %v", len(got), err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	compare(1, n)
}

// A Scan ends with its context and with what it calls.
func TestBlocksEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	js := stream(t, connect(t, natstest.Start(t, natstest.Dir(dir)).URL()))
	for range 5 {
		if _, err := js.Publish(t.Context(), "t.x", []byte("payload")); err != nil {
			t.Fatal(err)
		}
	}
	blocks := localnats.OpenBlocks(dir, "T")
	enough := errors.New("enough")
	count := 0
	err := blocks.Scan(t.Context(), 1, 5, func(uint64, int64, []byte, []byte, []byte) error {
		if count++; count == 3 {
			return enough
		}
		return nil
	})
	if err != enough || count != 3 {
		t.Errorf("%d messages, %v", count, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := scan(ctx, blocks, 1, 5); !errors.Is(err, context.Canceled) || len(got) > 0 {
		t.Errorf("cancelled: %d messages, %v", len(got), err)
	}
	if _, err := scan(t.Context(), localnats.OpenBlocks(dir, "OTHER"), 1, 5); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such stream: %v", err)
	}
}

// Whatever happens to a byte of a block, and wherever one ends, no message with a
// header is ever read that the server did not store; of one without, no byte that it
// did not.
func TestDamagedBlocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, natstest.Dir(dir))
	js := stream(t, connect(t, server.URL()))
	for i := range 4 {
		m := &nats.Msg{Subject: "t.x", Data: []byte(strings.Repeat("payload", i))}
		if i != 2 {
			m.Header = nats.Header{"Nats-Msg-Id": {fmt.Sprint(i)}}
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	blocks := localnats.OpenBlocks(dir, "T")
	want, err := scan(t.Context(), blocks, 1, 4)
	if err != nil || len(want) != 4 {
		t.Fatalf("%d messages, %v", len(want), err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "T", "msgs", "*.blk"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) (n int, err error) {
		t.Helper()
		if err := os.WriteFile(files[0], data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := scan(t.Context(), blocks, 1, 4)
		if err != nil && !errors.Is(err, localnats.ErrBlock) || len(got) > len(want) {
			t.Fatalf("%d messages, %v", len(got), err)
		}
		for i := range got {
			bare := want[i].header == "" && got[i].subject+got[i].payload == want[i].subject+want[i].payload
			if got[i] != want[i] && !bare {
				t.Errorf("message %d: %+v", i, got[i])
			}
		}
		return len(got), err
	}
	told := 0
	for i := range whole {
		for _, flip := range []byte{0x01, 0x80} {
			damaged := bytes.Clone(whole)
			damaged[i] ^= flip
			if _, err := read(damaged); err != nil {
				told++
			}
		}
		if n, err := read(whole[:i]); err != nil || n == len(want) {
			t.Errorf("ends at byte %d: %d messages, %v", i, n, err)
		}
	}
	if told < 3*len(whole)/2 { // of the others most look like an end
		t.Errorf("%d of %d damages were told", told, 2*len(whole))
	}
}
