package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/valyala/fasthttp"
)

// fill makes an owner with n memories, written through the API with many
// requests in flight.
func (w *world) fill(ctx context.Context, n int) (token string, ids []string, err error) {
	_, token, err = w.signIn(ctx)
	if err != nil {
		return "", nil, err
	}
	ids = make([]string, n)
	next := make(chan int)
	var group sync.WaitGroup
	var once sync.Once
	client := &fasthttp.Client{MaxConnsPerHost: 64}
	for range 64 {
		group.Go(func() {
			req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			defer fasthttp.ReleaseRequest(req)
			defer fasthttp.ReleaseResponse(res)
			for i := range next {
				req.Reset()
				postMemory(w.core, "/memories", i, req)
				req.Header.Set("Authorization", "Bearer "+token)
				if e := client.Do(req, res); e != nil || res.StatusCode() != fasthttp.StatusCreated {
					once.Do(func() { err = fmt.Errorf("fill: status %d: %w", res.StatusCode(), errors.Join(e)) })
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	return token, ids, err
}

// searches compares our search with ILIKE on plaintext of the same texts.
func searches(ctx context.Context, w *world) error {
	for _, size := range []int{10_000, 100_000} {
		token, _, err := w.fill(ctx, size)
		if err != nil {
			return err
		}
		owner := fmt.Sprint("search-", size)
		if err := w.copyPlain(ctx, owner, size); err != nil {
			return err
		}
		query := fmt.Sprintf("NUMBER %d: THE", size/2)
		var cold time.Duration
		if cold, err = once(func() error { return w.searchOurs(ctx, token, query) }); err != nil {
			return err
		}
		got, err := compare(ctx, w.rounds,
			contender{"ours", func(ctx context.Context) (result, error) {
				d, err := once(func() error { return w.searchOurs(ctx, token, query) })
				return result{p50: d}, err
			}},
			contender{"ilike", func(ctx context.Context) (result, error) {
				d, err := once(func() error {
					var count int
					return w.pool.QueryRow(ctx, `SELECT count(*) FROM plain WHERE owner = $1 AND content ILIKE '%' || $2 || '%'`, owner, query).Scan(&count)
				})
				return result{p50: d}, err
			}},
		)
		if err != nil {
			return err
		}
		w.report.add(fmt.Sprintf("search %d memories, warm, times faster than ILIKE (collation C.UTF-8)", size),
			short(got[0].p50).String(), short(got[1].p50).String(), float64(got[1].p50)/float64(got[0].p50))
		w.report.add(fmt.Sprintf("search %d memories, first time", size),
			short(cold).String(), short(got[1].p50).String(), float64(got[1].p50)/float64(cold))
	}
	return nil
}

func (w *world) copyPlain(ctx context.Context, owner string, size int) error {
	_, err := w.pool.CopyFrom(ctx, pgx.Identifier{"plain"}, []string{"id", "owner", "content", "metadata", "created_at"},
		pgx.CopyFromSlice(size, func(i int) ([]any, error) {
			return []any{newUUID(), owner, sentence(i), map[string]any{"source": "bench", "n": i}, time.Now()}, nil
		}))
	if err != nil {
		return err
	}
	_, err = w.pool.Exec(ctx, `CREATE INDEX IF NOT EXISTS plain_owner ON plain (owner); ANALYZE plain`)
	return err
}

func (w *world) searchOurs(ctx context.Context, token, query string) error {
	return w.read(ctx, http.MethodPost, "/memories/search", `{"query":"`+query+`"}`, token)
}

// read sends a request and reads the whole answer.
func (w *world) read(ctx context.Context, method, path, body, token string) error {
	var reader io.Reader
	if body != "" {
		reader = bytesReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.core+path, reader)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d", method, path, res.StatusCode)
	}
	return nil
}

// proofs compares inclusion proofs in a small and in a large log.
func proofs(ctx context.Context, w *world) error {
	var p50 []result
	sizes := []int{1_000, w.large}
	var loads []contender
	for _, size := range sizes {
		token, err := w.grow(ctx, size)
		if err != nil {
			return err
		}
		ids, err := w.someIDs(ctx, token, size)
		if err != nil {
			return err
		}
		loads = append(loads, contender{fmt.Sprint(size), func(ctx context.Context) (result, error) {
			return drive(ctx, 1, w.duration, fasthttp.StatusOK, func(n int, r *fasthttp.Request) {
				r.SetRequestURI(w.core + "/memories/" + ids[n%len(ids)] + "/proof")
				r.Header.Set("Authorization", "Bearer "+token)
			})
		}})
	}
	p50, err := compare(ctx, w.rounds, loads...)
	if err != nil {
		return err
	}
	w.report.add(fmt.Sprintf("proof in a log of %d beside one of %d, p50", sizes[1], sizes[0]),
		short(p50[1].p50).String(), short(p50[0].p50).String(), float64(p50[1].p50)/float64(p50[0].p50))
	return nil
}

// grow is fill for logs of any size.
func (w *world) grow(ctx context.Context, size int) (string, error) {
	token, _, err := w.fill(ctx, size)
	return token, err
}
