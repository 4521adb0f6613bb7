package door_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/door"
)

// TestTooLargeIsTold: whoever sends too much gets the 413, not a broken
// connection, however much it was.
func TestTooLargeIsTold(t *testing.T) {
	app := door.New(door.Config{
		Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		NewID: func() string { return "id" },
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, listener, time.Second) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, size := range []int{1<<20 + 1, 4 << 20, 32 << 20} {
		for range 5 {
			answer, err := client.Post("http://"+listener.Addr().String()+"/livez", "application/json", strings.NewReader(strings.Repeat("x", size)))
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%d bytes: status %d", size, answer.StatusCode)
			}
		}
	}
}
