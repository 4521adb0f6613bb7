package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

// badNetwork is a proxy in which every third request meets a fault. Four of the five
// faults fail an attempt. So in 1 of 40,000 runs of ten thousand writes, some write fails
// 15 times.
type badNetwork struct {
	target string
	n      atomic.Uint64
	met    [len(faults)]atomic.Uint64
}

var faults = [...]string{"refused", "lost", "truncated", "doubled", "delayed"}

func (b *badNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fault, n := "", b.n.Add(1)
	if n%3 == 0 {
		kind := n / 3 % uint64(len(faults))
		b.met[kind].Add(1)
		fault = faults[kind]
	}
	if fault == "refused" { // the service sees nothing
		panic(http.ErrAbortHandler)
	}
	if fault == "doubled" { // at the same time
		again := make(chan struct{})
		go func() {
			defer close(again)
			_, _, _ = b.forward(context.WithoutCancel(r.Context()), r, body)
		}()
		defer func() { <-again }()
	}
	// The service continues with a request that it received, even if the client gives up.
	answer, text, err := b.forward(context.WithoutCancel(r.Context()), r, body)
	if err != nil || fault == "lost" {
		panic(http.ErrAbortHandler)
	}
	if fault == "delayed" {
		<-r.Context().Done() // until the client gives up
		return
	}
	header := w.Header()
	for name, values := range answer.Header {
		header[name] = values
	}
	header.Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(answer.StatusCode)
	if fault == "truncated" {
		text = text[:len(text)/2]
	}
	_, _ = w.Write(text) // fails if the client is gone
	if fault == "truncated" {
		panic(http.ErrAbortHandler) // ends the connection
	}
}

func (b *badNetwork) forward(ctx context.Context, r *http.Request, body []byte) (*http.Response, []byte, error) {
	again, err := http.NewRequestWithContext(ctx, r.Method, b.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	again.Header = r.Header.Clone()
	again.Header.Set("Accept-Encoding", "identity")
	answer, err := http.DefaultClient.Do(again)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, text, err
}

func (b *badNetwork) start(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(b)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// metAll checks that each fault happened.
func (b *badNetwork) metAll(t *testing.T) {
	t.Helper()
	for i := range b.met {
		if b.met[i].Load() == 0 {
			t.Errorf("nothing was %s", faults[i])
		}
	}
}

// networkWrites is how many memories a client writes through a bad network: 300, or 100 in
// short tests, or as many as `make network` says.
func networkWrites(t *testing.T) int {
	t.Helper()
	if said := os.Getenv("NETWORK_WRITES"); said != "" {
		n, err := strconv.Atoi(said)
		noErr(t, err)
		return n
	}
	if testing.Short() {
		return 100
	}
	return 300 // there are three clients
}

// TestGoClientBadNetwork: over a network that cuts, delays, doubles and truncates, each
// write is stored exactly once.
func TestGoClientBadNetwork(t *testing.T) {
	count := networkWrites(t)
	s := shared(t)
	straight := newGoClient(t, s)
	network := &badNetwork{target: s.Core[0].URL}
	key := must(straight.CreateKey(t.Context(), memoryledger.NewKey{Label: "through the bad network"}))
	bad := memoryledger.New(network.start(t), memoryledger.WithAPIKey(key.Secret), memoryledger.WithOwner(straight.Owner()),
		memoryledger.WithTimeout(5*time.Second), memoryledger.WithRetries(14, 2*time.Millisecond),
		memoryledger.WithHTTPClient(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}))
	ids, writes := make([]string, count), make(chan int)
	var workers sync.WaitGroup
	// More at a time would be slower than the client's patience where the race detector, and
	// the other clients' tests, have the machine.
	for range 16 {
		workers.Go(func() {
			for n := range writes {
				w, err := bad.Write(t.Context(), fmt.Sprint("write ", n), nil)
				if err != nil {
					t.Errorf("write %d: %v", n, err)
					continue
				}
				ids[n] = w.ID
			}
		})
	}
	for n := range count {
		writes <- n
	}
	close(writes)
	workers.Wait()
	if t.Failed() {
		return
	}
	network.metAll(t)
	contents := make([]string, count)
	listed := 0
	for m, err := range straight.List(t.Context(), memoryledger.ListOptions{PageSize: 1000}) {
		noErr(t, err)
		listed++
		var n int
		if _, err := fmt.Sscanf(m.Content, "write %d", &n); err != nil || n >= count || ids[n] != m.ID || contents[n] != "" {
			t.Fatalf("%+v: %v, written as %s", m, err, ids[n])
		}
		contents[n] = m.Content
	}
	if listed != count || slices.Contains(contents, "") {
		t.Errorf("%d memories of %d", listed, count)
	}
	// Reads succeed, too.
	for n := range 10 {
		if r, err := bad.Receipt(t.Context(), ids[n]); err != nil || r.Entry.Content != contents[n] {
			t.Errorf("%+v, %v", r, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := bad.Write(ended, "never", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestGoClientFollowsOverABadNetwork: a stream that is cut repeatedly delivers each event
// once, in order.
func TestGoClientFollowsOverABadNetwork(t *testing.T) {
	s := shared(t)
	c := newGoClient(t, s, memoryledger.WithHTTPClient(http.DefaultClient))
	key := must(c.CreateKey(t.Context(), memoryledger.NewKey{Label: "follower"}))
	cut, streams := cuttingProxy(t, s.Core[0].URL)
	follower := memoryledger.New(cut, memoryledger.WithAPIKey(key.Secret), memoryledger.WithOwner(c.Owner()), memoryledger.WithRetries(3, time.Millisecond))
	const count = 60
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := range count {
			if _, err := c.Write(t.Context(), fmt.Sprint(n), nil); err != nil {
				t.Error(err)
			}
		}
	})
	next := 0.0
	for e, err := range follower.Follow(t.Context(), "0") {
		noErr(t, err)
		if e.Type != "MemoryWritten" {
			continue
		}
		if e.Data["leafIndex"] != next {
			t.Fatalf("leaf %v comes after %v", e.Data["leafIndex"], next-1)
		}
		if next++; next == count {
			break
		}
	}
	writer.Wait()
	if streams.Load() < 3 {
		t.Errorf("only %d streams", streams.Load())
	}
}

// cuttingProxy starts a proxy that cuts each answer after a different number of bytes, at least
// 700, and counts the answers.
func cuttingProxy(t *testing.T, target string) (url string, answers *atomic.Int64) {
	t.Helper()
	answers = new(atomic.Int64)
	cut := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		again, err := http.NewRequestWithContext(r.Context(), r.Method, target+r.URL.RequestURI(), nil)
		if err != nil {
			panic(err)
		}
		again.Header = r.Header.Clone()
		answer, err := http.DefaultClient.Do(again)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		left := 700 + 331*answers.Add(1)
		for buffer := make([]byte, 512); left > 0; {
			n, err := answer.Body.Read(buffer[:min(left, 512)])
			if _, gone := w.Write(buffer[:n]); err != nil || gone != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
			left -= int64(n)
		}
		panic(http.ErrAbortHandler)
	}))
	cut.Config.ErrorLog = log.New(io.Discard, "", 0)
	cut.Start()
	t.Cleanup(cut.Close)
	return cut.URL, answers
}
