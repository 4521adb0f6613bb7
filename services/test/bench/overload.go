package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// overloads sends twice the load that the service can handle. Meanwhile it measures the
// answer times of a client that sends few requests.
func overloads(ctx context.Context, w *world) error {
	lights, err := w.lightReaders(ctx)
	if err != nil {
		return err
	}
	quiet := make([]result, len(lights))
	for i, light := range lights {
		if quiet[i], err = light.read(ctx, w.duration); err != nil {
			return err
		}
	}
	capacity, err := drive(ctx, w.connections, w.duration, fasthttp.StatusCreated, w.writeOurs)
	if err != nil {
		return err
	}
	// The light reader starts only when the load is on. Most of its reads would
	// otherwise be done before the load, and the median would not show the load.
	beside := func(name string, load func(ctx context.Context, on func()) error) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		on, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- load(ctx, sync.OnceFunc(func() { close(on) })) }()
		select {
		case <-on:
		case err := <-done:
			return errors.Join(err, errors.New("there was no load"))
		}
		loaded := make([]result, len(lights))
		var err error
		for i, light := range lights {
			if loaded[i], err = light.read(ctx, 3*w.duration); err != nil {
				break
			}
		}
		stop()
		if err = errors.Join(err, <-done); err != nil {
			return err
		}
		for i, light := range lights {
			is, was := loaded[i], quiet[i]
			w.report.add(light.name+" beside "+name+", p50 of quiet", short(is.p50).String(), short(was.p50).String(), float64(is.p50)/float64(was.p50))
			w.report.add(light.name+" beside "+name+", p99 of quiet", short(is.p99).String(), short(was.p99).String(), float64(is.p99)/float64(was.p99))
		}
		return nil
	}
	if err := beside("twice the writes", func(ctx context.Context, on func()) error {
		return w.tooManyWrites(ctx, 2*capacity.perSecond, on)
	}); err != nil {
		return err
	}
	token, err := w.fill(ctx, 100_000, sentence)
	if err != nil {
		return err
	}
	if _, err := lights[0].read(ctx, settling); err != nil {
		return err
	}
	for _, search := range []struct{ name, body string }{
		{"64 searches", `{"query":"there is no such text"}`},
		{"64 ranked searches", `{"mode":"ranked","query":"what did the cat see at number 4711?"}`},
	} {
		err := beside(search.name+" of 100,000 memories at a time, half of them abandoned", func(ctx context.Context, on func()) error {
			return w.tooManySearches(ctx, token, search.body, on)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settling is how long a light reader reads after a fill before anything is measured. A
// fill connects to the log's server. While another process is connected to it, and for
// two pauses of eventlog.OwnerHeads after that, each read of the run asks the server.
const settling = 11 * time.Second

// light is a client that sends few requests.
type light struct {
	name string
	read func(context.Context, time.Duration) (result, error)
}

// lightReaders returns two readers with their own owner. One repeatedly reads a memory,
// the other a page of memories, each on one connection.
func (w *world) lightReaders(ctx context.Context) ([]light, error) {
	_, token, err := w.signIn(ctx)
	if err != nil {
		return nil, err
	}
	var id string
	for n := range 50 {
		answer, err := w.post(ctx, "/memories", map[string]any{"content": sentence(n)}, token)
		if err != nil {
			return nil, err
		}
		id, _ = answer["id"].(string)
	}
	reading := func(path string) func(context.Context, time.Duration) (result, error) {
		return func(ctx context.Context, d time.Duration) (result, error) {
			return spawnReader(ctx, w.core+path, token, d)
		}
	}
	return []light{{"a light reader", reading("/memories/" + id)}, {"a light reader of pages of 20", reading("/memories?limit=20")}}, nil
}

func (w *world) writeOurs(n int, r *fasthttp.Request) {
	postMemory(w.core, "/memories", n, r)
	r.Header.Set("Authorization", "Bearer "+w.tokens[n%len(w.tokens)])
}

// tooManyWrites posts at a rate, whether or not answers arrive, on up to 1024
// connections. Every answer must be a 201, or a 503 with Retry-After, and the logs must
// hold every acknowledged write. It calls on after 1024 acknowledged writes.
func (w *world) tooManyWrites(ctx context.Context, perSecond float64, on func()) error {
	const connections = 1024
	client := &fasthttp.Client{MaxConnsPerHost: connections, ReadTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var (
		stored, refused, late, unsent atomic.Int64
		wrong                         atomic.Pointer[string]
		group                         sync.WaitGroup
		slots                         = make(chan struct{}, connections)
	)
	before, err := w.totalLeaves(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	start := time.Now()
	for n := 0; ctx.Err() == nil; {
		due := int(time.Since(start).Seconds() * perSecond)
		for ; n < due; n++ {
			select {
			case slots <- struct{}{}:
			default:
				unsent.Add(1) // no connection is free
				continue
			}
			group.Go(func() {
				defer func() { <-slots }()
				req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				defer fasthttp.ReleaseRequest(req)
				defer fasthttp.ReleaseResponse(res)
				w.writeOurs(n, req)
				begin := time.Now()
				err := client.Do(req, res)
				if time.Since(begin) > time.Second {
					late.Add(1)
				}
				switch {
				case err == nil && res.StatusCode() == fasthttp.StatusCreated:
					if stored.Add(1) == connections {
						on()
					}
				case err == nil && res.StatusCode() == fasthttp.StatusServiceUnavailable && len(res.Header.Peek("Retry-After")) > 0:
					refused.Add(1)
				default:
					what := fmt.Sprintf("status %d, %v", res.StatusCode(), err)
					wrong.Store(&what)
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	group.Wait()
	if what := wrong.Load(); what != nil {
		return fmt.Errorf("under overload: %s", *what)
	}
	after, err := w.totalLeaves(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	// A refused write may have been stored: the answer says so.
	if got := int64(after - before); got < stored.Load() || got > stored.Load()+refused.Load() {
		return fmt.Errorf("%d leaves for %d acknowledged writes", got, stored.Load())
	}
	w.report.note(fmt.Sprintf("overload: %.0f/s asked for %.1f s: %d stored, %d refused, %d not sent for want of a connection, %d took more than a second",
		perSecond, time.Since(start).Seconds(), stored.Load(), refused.Load(), unsent.Load(), late.Load()))
	return nil
}

// totalLeaves returns the total number of leaves of all owners who write.
func (w *world) totalLeaves(ctx context.Context) (total int, err error) {
	for _, token := range w.tokens {
		body, status, err := w.get(ctx, "/log", token)
		if err != nil || status != http.StatusOK {
			return 0, fmt.Errorf("/log: status %d, %w", status, err)
		}
		_, rest, _ := strings.Cut(body, `"treeSize":`)
		var size int
		if _, err := fmt.Sscanf(rest, "%d", &size); err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

const refusedLine = "HTTP/1.1 503"

// tooManySearches runs 64 clients that repeat a search. A refused client tries again
// after a second. Every second client hangs up after fifty milliseconds and tries again
// at once. tooManySearches calls on after 64 searches have ended.
func (w *world) tooManySearches(ctx context.Context, token, body string, on func()) error {
	const clients = 64
	request := "POST /memories/search HTTP/1.1\r\nHost: ledger\r\nAuthorization: Bearer " + token +
		"\r\nContent-Type: application/json\r\nConnection: close\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	address := strings.TrimPrefix(w.core, "http://")
	var (
		group    sync.WaitGroup
		statuses sync.Map
		over     atomic.Int64
	)
	for i := range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				conn, err := net.DialTimeout("tcp", address, 5*time.Second)
				if err != nil {
					statuses.Store(err.Error(), true)
					return
				}
				limit := 30 * time.Second
				if i%2 == 1 {
					limit = 50 * time.Millisecond
				}
				_ = conn.SetDeadline(time.Now().Add(limit))
				line := make([]byte, 12)
				if _, err = conn.Write([]byte(request)); err == nil {
					_, err = conn.Read(line)
				}
				conn.Close()
				if over.Add(1) == clients {
					on()
				}
				if err == nil {
					statuses.Store(string(line), true)
					if string(line) == refusedLine { // as Retry-After says
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
						}
					}
				} else if i%2 == 0 && ctx.Err() == nil {
					statuses.Store(err.Error(), true)
				}
			}
		})
	}
	group.Wait()
	var seen []string
	statuses.Range(func(key, _ any) bool { seen = append(seen, key.(string)); return true })
	slices.Sort(seen)
	for _, s := range seen {
		if s != "HTTP/1.1 200" && s != refusedLine {
			return fmt.Errorf("under too many searches: %q", s)
		}
	}
	return nil
}
