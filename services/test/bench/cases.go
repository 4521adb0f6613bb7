package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
)

// sentence is a body of about 100 bytes, different for each n.
func sentence(n int) string {
	return "memory number " + strconv.Itoa(n) + ": the cat sleeps on the warm chair while rain falls on the roof at noon"
}

func postMemory(base, path string, n int, r *fasthttp.Request) {
	r.SetRequestURI(base + path)
	r.Header.SetMethod(fasthttp.MethodPost)
	r.Header.SetContentType("application/json")
	r.SetBodyString(`{"content":"` + sentence(n) + `","metadata":{"source":"bench","n":` + strconv.Itoa(n) + `}}`)
}

// repeatable gives each request an Idempotency-Key that was never used.
func repeatable(fill request) request {
	return func(n int, r *fasthttp.Request) {
		fill(n, r)
		r.Header.Set("Idempotency-Key", uuid.NewString())
	}
}

// writes compares durable POSTs.
func writes(ctx context.Context, w *world) error {
	ours := func(tokens []string) request {
		return func(n int, r *fasthttp.Request) {
			postMemory(w.core, "/memories", n, r)
			r.Header.Set("Authorization", "Bearer "+tokens[n%len(tokens)])
		}
	}
	plain := func(n int, r *fasthttp.Request) {
		postMemory(w.plain, "/memories", n, r)
		r.Header.Set("X-Owner", w.wallets[n%len(w.wallets)])
	}
	keys, err := w.apiKeys(ctx)
	if err != nil {
		return err
	}
	load := func(connections int, fill request) func(context.Context) (result, error) {
		return func(ctx context.Context) (result, error) {
			return drive(ctx, connections, w.duration, fasthttp.StatusCreated, fill)
		}
	}
	many, err := compare(ctx, w.rounds,
		contender{"ours", load(w.connections, ours(w.tokens))},
		contender{"plain", load(w.connections, plain)},
		contender{"keys", load(w.connections, ours(keys))},
		contender{"repeatable", load(w.connections, repeatable(ours(w.tokens)))},
		contender{"log", func(ctx context.Context) (result, error) { return w.bareLog(ctx) }},
	)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("POST /memories, %d connections, %d owners", w.connections, w.owners)
	w.report.add(name+", JWT, beside a plain INSERT", rate(many[0]), rate(many[1]), ratio(many[0], many[1], throughput))
	w.report.add(name+", p99", short(many[0].p99).String(), short(many[1].p99).String(), ratio(many[0], many[1], tail))
	w.report.add(name+", API keys beside JWT", rate(many[2]), rate(many[0]), ratio(many[2], many[0], throughput))
	w.report.add(name+", a new Idempotency-Key each, beside none", rate(many[3]), rate(many[0]), ratio(many[3], many[0], throughput))
	w.report.add(name+", JWT, beside the bare log append", rate(many[0]), rate(many[4]), ratio(many[0], many[4], throughput))
	single, err := compare(ctx, w.rounds,
		contender{"ours", load(w.connections, ours(w.tokens[:1]))},
		contender{"plain", load(w.connections, func(n int, r *fasthttp.Request) { plain(n*len(w.wallets), r) })})
	if err != nil {
		return err
	}
	w.report.add(fmt.Sprintf("POST /memories, %d connections, one owner", w.connections), rate(single[0]), rate(single[1]), ratio(single[0], single[1], throughput))
	one, err := compare(ctx, w.rounds,
		contender{"ours", load(1, ours(w.tokens))}, contender{"plain", load(1, plain)})
	if err != nil {
		return err
	}
	w.report.add("POST /memories, one connection, p50", short(one[0].p50).String(), short(one[1].p50).String(), ratio(one[0], one[1], middle))
	return nil
}

// imports compares batch writes with single writes for one owner, as a client sends them
// that imports its memories.
func imports(ctx context.Context, w *world) error {
	const batch, connections = 256, 8
	authorized := func(fill request) func(context.Context) (result, error) {
		return func(ctx context.Context) (result, error) {
			return drive(ctx, connections, w.duration, fasthttp.StatusCreated, func(n int, r *fasthttp.Request) {
				fill(n, r)
				r.Header.Set("Authorization", "Bearer "+w.tokens[0])
			})
		}
	}
	got, err := compare(ctx, w.rounds,
		contender{"batches", authorized(repeatable(func(n int, r *fasthttp.Request) { postBatch(w.core, n, batch, r) }))},
		contender{"single", authorized(repeatable(func(n int, r *fasthttp.Request) { postMemory(w.core, "/memories", n, r) }))})
	if err != nil {
		return err
	}
	memories := func(r result) float64 { return throughput(r) * batch }
	w.report.add(fmt.Sprintf("POST /memories/batch of %d, one owner, %d connections, memories beside POST /memories", batch, connections),
		fmt.Sprintf("%.0f memories/s", memories(got[0].result)), rate(got[1]), ratio(got[0], got[1], throughput)*batch)
	return nil
}

func postBatch(base string, n, size int, r *fasthttp.Request) {
	r.SetRequestURI(base + "/memories/batch")
	r.Header.SetMethod(fasthttp.MethodPost)
	r.Header.SetContentType("application/json")
	body := []byte(`{"memories":[`)
	for i := range size {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"content":%q,"metadata":{"source":"bench","n":%d}}`, sentence(n*size+i), n*size+i)
	}
	r.SetBody(append(body, `]}`...))
}

// apiKeys makes a key for every owner.
func (w *world) apiKeys(ctx context.Context) ([]string, error) {
	keys := make([]string, len(w.tokens))
	errs := make(chan error, len(w.tokens))
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i, token := range w.tokens {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			answer, err := w.post(ctx, "/keys", map[string]any{"label": "bench"}, token)
			if err != nil {
				errs <- err
				return
			}
			keys[i], _ = answer["key"].(string)
		})
	}
	group.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return keys, nil
	}
}

// reads compares GETs by id.
func reads(ctx context.Context, w *world) error {
	if err := w.readAgain(ctx, ""); err != nil {
		return err
	}
	return w.readOnce(ctx, fmt.Sprintf(readName, w.connections))
}

const readName = "GET /memories/:id, %d connections, fenced and decrypted, beside a plain SELECT"

// readAgain compares GETs of 2,000 memories.
func (w *world) readAgain(ctx context.Context, where string) error {
	const each = 20
	type place struct{ token, id string }
	var mu sync.Mutex
	var places []place
	owner := make([]string, 0)
	ids := make([]string, 0)
	for i := range min(100, len(w.tokens)) {
		for n := range each {
			answer, err := w.post(ctx, "/memories", map[string]any{"content": sentence(n), "metadata": map[string]any{"source": "bench", "n": n}}, w.tokens[i])
			if err != nil {
				return err
			}
			id, _ := answer["id"].(string)
			mu.Lock()
			places = append(places, place{w.tokens[i], id})
			mu.Unlock()
			plainID := uuid.Must(uuid.NewV7()).String()
			if _, err := w.pool.Exec(ctx, `INSERT INTO plain VALUES ($1, $2, $3, $4, now())`, plainID, w.wallets[i], sentence(n), map[string]any{"source": "bench", "n": n}); err != nil {
				return err
			}
			owner, ids = append(owner, w.wallets[i]), append(ids, plainID)
		}
	}
	ours := func(_ int, r *fasthttp.Request) {
		p := places[rand.IntN(len(places))]
		r.SetRequestURI(w.core + "/memories/" + p.id)
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	plain := func(_ int, r *fasthttp.Request) {
		i := rand.IntN(len(ids))
		r.SetRequestURI(w.plain + "/memories/" + ids[i])
		r.Header.Set("X-Owner", owner[i])
	}
	load := func(fill request) func(context.Context) (result, error) {
		return func(ctx context.Context) (result, error) {
			return drive(ctx, w.connections, w.duration, fasthttp.StatusOK, fill)
		}
	}
	got, err := compare(ctx, w.rounds, contender{"ours", load(ours)}, contender{"plain", load(plain)})
	if err != nil {
		return err
	}
	name := where + fmt.Sprintf(readName, w.connections)
	w.report.add(name+", 2,000 memories again and again", rate(got[0]), rate(got[1]), ratio(got[0], got[1], throughput))
	return nil
}

// readOnce compares GETs of memories that were not read before.
func (w *world) readOnce(ctx context.Context, name string) error {
	const size = 300_000
	token, err := w.fill(ctx, size, sentence)
	if err != nil {
		return err
	}
	ids, err := w.allIDs(ctx, token)
	if err != nil {
		return err
	}
	if err := w.copyPlain(ctx, "read-once", size, sentence); err != nil {
		return err
	}
	plainIDs, err := w.plainIDs(ctx, "read-once")
	if err != nil {
		return err
	}
	load := func(base, header, credential string, ids []string) func(context.Context) (result, error) {
		next := 0 // each round continues where the last one ended
		return func(ctx context.Context) (result, error) {
			begin, most := next, 0
			var mu sync.Mutex
			r, err := drive(ctx, w.connections, w.duration, fasthttp.StatusOK, func(n int, r *fasthttp.Request) {
				mu.Lock()
				most = max(most, n)
				mu.Unlock()
				r.SetRequestURI(base + "/memories/" + ids[(begin+n)%len(ids)])
				r.Header.Set(header, credential)
			})
			next = begin + most
			if err == nil && next > len(ids) {
				w.report.note(fmt.Sprintf("each memory once: %d reads of %d memories, so some were read twice; ask for fewer or shorter rounds", next, len(ids)))
			}
			return r, err
		}
	}
	got, err := compare(ctx, w.rounds,
		contender{"ours", load(w.core, "Authorization", "Bearer "+token, ids)},
		contender{"plain", load(w.plain, "X-Owner", "read-once", plainIDs)})
	if err != nil {
		return err
	}
	w.report.add(name+", each memory once", rate(got[0]), rate(got[1]), ratio(got[0], got[1], throughput))
	return nil
}

// once measures one call.
func once(do func() error) (result, error) {
	start := time.Now()
	err := do()
	return result{p50: time.Since(start)}, err
}
