package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/valyala/fasthttp"
)

// umlauts returns a sentence that is not ASCII, so that no ASCII shortcut applies.
func umlauts(n int) string {
	return fmt.Sprintf("Erinnerung Nummer %d: die Katze schläft auf dem wärmsten Stuhl, während Regen übers Dach läuft", n)
}

// paragraph is a body of about 450 bytes, different for each n.
func paragraph(n int) string {
	return sentence(n) + strings.Repeat("; it wakes, stretches, looks for its bowl and finds that it was filled", 5)
}

// searches compares our search with ILIKE on the same texts in plaintext. It uses two
// collations: C.UTF-8, which a private database gets, and that of a language, which a
// packaged database usually has.
func searches(ctx context.Context, w *world) error {
	for _, c := range []struct {
		name  string
		size  int
		text  func(int) string
		query string // with %d for the number
	}{
		{"10,000 memories", 10_000, sentence, "NUMBER %d: THE"},
		{"100,000 memories", 100_000, sentence, "NUMBER %d: THE"},
		{"100,000 memories of 450 bytes", 100_000, paragraph, "NUMBER %d: THE"},
		{"100,000 memories, not ASCII", 100_000, umlauts, "NUMMER %d: DIE KATZE SCHLÄFT"},
	} {
		if err := w.search(ctx, c.name, c.size, c.text, fmt.Sprintf(c.query, c.size/2)); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) search(ctx context.Context, name string, size int, text func(int) string, query string) error {
	kept, err := w.fill(ctx, size, text)
	if err != nil {
		return err
	}
	for range 2 { // the second search keeps texts
		if err := w.searchOurs(ctx, kept, query); err != nil {
			return err
		}
	}
	if err := w.copyPlain(ctx, name, size, text); err != nil {
		return err
	}
	ilike := func(collation string) func(context.Context) (result, error) {
		return func(ctx context.Context) (result, error) {
			return once(func() error {
				var count int
				err := w.pool.QueryRow(ctx, `SELECT count(*) FROM plain WHERE owner = $1 AND content COLLATE "`+collation+`" ILIKE '%' || $2 || '%'`,
					name, query).Scan(&count)
				if err == nil && count != 1 {
					return fmt.Errorf("ILIKE found %d", count)
				}
				return err
			})
		}
	}
	got, err := compare(ctx, w.rounds,
		contender{"warm", func(ctx context.Context) (result, error) {
			return once(func() error { return w.searchOurs(ctx, kept, query) })
		}},
		contender{"first", func(ctx context.Context) (result, error) {
			fresh, err := w.fill(ctx, size, text)
			if err != nil {
				return result{}, err
			}
			return once(func() error { return w.searchOurs(ctx, fresh, query) })
		}},
		contender{"ilike", ilike("default")},
		contender{"ilike of a language", ilike("en-US-x-icu")},
	)
	if err != nil {
		return err
	}
	for i, collation := range []string{"C.UTF-8", "en-US-x-icu"} {
		ilike := got[2+i]
		for j, work := range []string{"warm", "first time"} {
			w.report.add("search "+name+", "+work+", times faster than ILIKE ("+collation+")",
				short(got[j].p50).String(), short(ilike.p50).String(), ratio(ilike, got[j], middle))
		}
	}
	return nil
}

func (w *world) copyPlain(ctx context.Context, owner string, size int, text func(int) string) error {
	_, err := w.pool.CopyFrom(ctx, pgx.Identifier{"plain"}, []string{"id", "owner", "content", "metadata", "created_at"},
		pgx.CopyFromSlice(size, func(i int) ([]any, error) {
			return []any{newUUID(), owner, text(i), map[string]any{"source": "bench", "n": i}, time.Now()}, nil
		}))
	if err != nil {
		return err
	}
	_, err = w.pool.Exec(ctx, `CREATE INDEX IF NOT EXISTS plain_owner ON plain (owner); ANALYZE plain`)
	return err
}

// searchOurs finds exactly one memory.
func (w *world) searchOurs(ctx context.Context, token, query string) error {
	body, status, err := w.send(ctx, http.MethodPost, "/memories/search", `{"query":"`+query+`"}`, token)
	if err != nil {
		return err
	}
	if found := strings.Count(body, `"leafHash"`); status != http.StatusOK || found != 1 {
		return fmt.Errorf("search: status %d, %d found", status, found)
	}
	return nil
}

// lists reports how long a list of everything takes until its first byte and
// its last.
func lists(ctx context.Context, w *world) error {
	const size = 100_000
	token, err := w.fill(ctx, size, sentence)
	if err != nil {
		return err
	}
	var first, last []time.Duration
	for range w.rounds {
		begin := time.Now()
		res, err := w.open(ctx, http.MethodGet, "/memories", "", token)
		if err != nil {
			return err
		}
		var one [1]byte
		_, err = io.ReadFull(res.Body, one[:])
		first = append(first, time.Since(begin))
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
		}
		last = append(last, time.Since(begin))
		res.Body.Close()
		if err != nil {
			return err
		}
	}
	w.report.add(fmt.Sprintf("list of %d memories, first byte, part of the whole", size),
		short(medianOf(first)).String(), short(medianOf(last)).String(), float64(medianOf(first))/float64(medianOf(last)))
	return nil
}

// proofs compares inclusion proofs in a small and in a large log.
func proofs(ctx context.Context, w *world) error {
	sizes := []int{1_000, w.large}
	var loads []contender
	for _, size := range sizes {
		token, err := w.fill(ctx, size, sentence)
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
		short(p50[1].p50).String(), short(p50[0].p50).String(), ratio(p50[1], p50[0], middle))
	return nil
}
