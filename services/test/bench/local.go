package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/valyala/fasthttp"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/datadir"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

// sentence is a text of about 100 bytes, different for each n.
func sentence(n int) string {
	return "memory number " + strconv.Itoa(n) + ": the cat sleeps on the warm chair while rain falls on the roof at noon"
}

func postMemory(base string, n int, r *fasthttp.Request) {
	r.SetRequestURI(base + "/memories")
	r.Header.SetMethod(fasthttp.MethodPost)
	r.Header.SetContentType("application/json")
	r.SetBodyString(`{"content":"` + sentence(n) + `","metadata":{"source":"bench","n":` + strconv.Itoa(n) + `}}`)
}

// writeOurs writes a memory of one of the writers.
func (w *world) writeOurs(writers []writer) request {
	return func(n int, r *fasthttp.Request) {
		postMemory(w.core, n, r)
		r.Header.Set("Authorization", "Bearer "+writers[n%len(writers)].token)
	}
}

func (w *world) writePlain(writers []writer) request {
	return func(n int, r *fasthttp.Request) {
		postMemory(w.plain, n, r)
		r.Header.Set("X-Owner", writers[n%len(writers)].wallet)
	}
}

// writes compares durable POSTs.
func (w *world) writes(ctx context.Context) error {
	unkeyed := w.writeOurs(w.writers)
	keyed := func(n int, r *fasthttp.Request) {
		unkeyed(n, r)
		r.Header.Set("Idempotency-Key", uuid.NewString())
	}
	created := func(connections int, fill request) contender {
		return w.load(connections, fasthttp.StatusCreated, fill)
	}
	many, err := compare(ctx, w.rounds, created(w.connections, unkeyed),
		created(w.connections, w.writePlain(w.writers)), created(w.connections, keyed))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("POST /memories, %d connections, ", w.connections)
	addRate(name+"of a plain INSERT", many[0], many[1])
	addTime(name+"p99, of a plain INSERT's", many[0], many[1], tail)
	addRate(name+"a new Idempotency-Key each, of those without", many[2], many[0])
	single, err := compare(ctx, w.rounds, created(w.connections, w.writeOurs(w.writers[:1])), created(w.connections, w.writePlain(w.writers[:1])))
	if err != nil {
		return err
	}
	addRate(name+"all of one owner, of a plain INSERT", single[0], single[1])
	one, err := compare(ctx, w.rounds, created(1, unkeyed), created(1, w.writePlain(w.writers)))
	if err != nil {
		return err
	}
	addTime("POST /memories, one connection, p50, of a plain INSERT's", one[0], one[1], middle)
	return nil
}

// reads compares GETs by id: of 2,000 memories again and again, and of memories that were
// not read before.
func (w *world) reads(ctx context.Context) error {
	if err := w.gets(ctx, "again and again", 100, 20, func(int) int { return rand.IntN(100 * 20) }); err != nil {
		return err
	}
	const owners, each = 4, 100_000
	order := rand.Perm(owners * each)
	return w.gets(ctx, "each memory once", owners, each, func(n int) int { return order[n%len(order)] })
}

// gets compares GETs of the memories of some owners. pick chooses one for the n-th request
// that either service gets.
func (w *world) gets(ctx context.Context, name string, owners, each int, pick func(n int) int) error {
	all, ids, plainIDs := make([]writer, owners), make([][]string, owners), make([][]string, owners)
	if err := inParallel(owners, func(i int) (err error) {
		if all[i], ids[i], err = w.fill(ctx, each); err != nil {
			return err
		}
		plainIDs[i], err = w.copyPlain(ctx, all[i].wallet, each)
		return err
	}); err != nil {
		return err
	}
	var ours, plain atomic.Int64 // requests in all rounds
	got, err := compare(ctx, w.rounds,
		w.load(w.connections, fasthttp.StatusOK, func(_ int, r *fasthttp.Request) {
			i := pick(int(ours.Add(1)))
			r.SetRequestURI(w.core + "/memories/" + ids[i/each][i%each])
			r.Header.Set("Authorization", "Bearer "+all[i/each].token)
		}),
		w.load(w.connections, fasthttp.StatusOK, func(_ int, r *fasthttp.Request) {
			i := pick(int(plain.Add(1)))
			r.SetRequestURI(w.plain + "/memories/" + plainIDs[i/each][i%each])
			r.Header.Set("X-Owner", all[i/each].wallet)
		}))
	if err != nil {
		return err
	}
	addRate(fmt.Sprintf("GET /memories/:id, %d connections, %s (%d of %d), of a plain SELECT", w.connections, name, ours.Load(), owners*each), got[0], got[1])
	return nil
}

// copyPlain gives the plain service an owner with n memories, and returns their ids.
func (w *world) copyPlain(ctx context.Context, owner string, n int) ([]string, error) {
	ids := make([]string, n)
	_, err := w.pool.CopyFrom(ctx, pgx.Identifier{"plain"}, []string{"id", "owner", "content", "metadata", "created_at"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			id := uuid.Must(uuid.NewV7())
			ids[i] = id.String()
			return []any{id, owner, sentence(i), map[string]any{"source": "bench"}, time.Now()}, nil
		}))
	if err == nil {
		_, err = w.pool.Exec(ctx, `ANALYZE plain`)
	}
	return ids, err
}

// searches compares our searches of 100,000 memories with ILIKE on the same texts.
func (w *world) searches(ctx context.Context) error {
	const size = 100_000
	query := fmt.Sprintf("NUMBER %d: THE", size/2)
	kept, _, err := w.fill(ctx, size)
	if err != nil {
		return err
	}
	if _, err := w.copyPlain(ctx, kept.wallet, size); err != nil {
		return err
	}
	search := func(owner writer, mode memoryledger.Mode) (result, error) {
		start := time.Now()
		for _, err := range w.client(owner).Search(ctx, query, memoryledger.SearchOptions{Mode: mode}) {
			return result{p50: time.Since(start)}, err
		}
		return result{}, fmt.Errorf("%s search found nothing", mode)
	}
	warm := func(mode memoryledger.Mode) contender {
		return func(context.Context) (result, error) { return search(kept, mode) }
	}
	first := func(mode memoryledger.Mode) contender {
		return func(ctx context.Context) (result, error) {
			fresh, _, err := w.fill(ctx, size)
			if err != nil {
				return result{}, err
			}
			return search(fresh, mode)
		}
	}
	got, err := compare(ctx, w.rounds, warm(memoryledger.Substring), first(memoryledger.Substring), warm(memoryledger.Ranked), first(memoryledger.Ranked),
		func(ctx context.Context) (result, error) {
			var count int
			start := time.Now()
			err := w.pool.QueryRow(ctx, `SELECT count(*) FROM plain WHERE owner = $1 AND content ILIKE '%' || $2 || '%'`,
				kept.wallet, query).Scan(&count)
			if err == nil && count != 1 {
				err = fmt.Errorf("ILIKE found %d", count)
			}
			return result{p50: time.Since(start)}, err
		})
	if err != nil {
		return err
	}
	for i, name := range []string{"search of 100,000, warm", "search of 100,000, first", "ranked search of 100,000, p50", "ranked search of 100,000, first use"} {
		addTime(name+", of ILIKE's time", got[i], got[4], middle)
	}
	return nil
}

// imports compares an import of 100,000 leaves with a plain COPY of as many rows.
func (w *world) imports(ctx context.Context) error {
	const size = 100_000
	got, err := compare(ctx, w.rounds,
		func(ctx context.Context) (result, error) {
			owner, err := w.signIn(ctx)
			if err != nil {
				return result{}, err
			}
			export, err := exportOf(owner.wallet, size)
			if err != nil {
				return result{}, err
			}
			start := time.Now()
			_, err = w.client(owner).Import(ctx, bytes.NewReader(export))
			return result{perSecond: size / time.Since(start).Seconds()}, err
		},
		func(ctx context.Context) (result, error) {
			start := time.Now()
			_, err := w.copyPlain(ctx, uuid.NewString(), size)
			return result{perSecond: size / time.Since(start).Seconds()}, err
		})
	if err != nil {
		return err
	}
	rate := func(s series) string { return fmt.Sprintf("%.0f/s", s.perSecond) }
	add("import of 100,000 leaves, of a plain COPY's speed", rate(got[0]), rate(got[1]), ratio(got[0], got[1], throughput))
	return nil
}

// exportOf makes an export of an owner with n memories, as another service would.
func exportOf(owner string, n int) ([]byte, error) {
	type line struct {
		Index     int          `json:"index"`
		ID        string       `json:"id"`
		CreatedAt time.Time    `json:"createdAt"`
		Via       *verify.Via  `json:"via"`
		LeafHash  verify.Hash  `json:"leafHash"`
		Entry     verify.Entry `json:"entry"`
	}
	var lines bytes.Buffer
	log := verify.NewTree()
	for i := range n {
		salt := sha256.Sum256([]byte(sentence(i)))
		l := line{Index: i, ID: uuid.NewString(), CreatedAt: time.Now().UTC(), Entry: verify.Entry{
			Content: sentence(i), Metadata: []byte(`{"source":"bench"}`), Owner: owner, Salt: hex.EncodeToString(salt[:]), V: verify.Version,
		}}
		var err error
		if l.LeafHash, err = l.Entry.LeafHash(); err == nil {
			log.Append(l.LeafHash)
			err = json.MarshalWrite(&lines, l)
		}
		if err != nil {
			return nil, err
		}
		lines.WriteByte('\n')
	}
	header := fmt.Appendf(nil, `{"format":%q,"owner":%q,"treeSize":%d,"root":"%v","anchor":null}`+"\n", verify.ExportFormat, owner, n, log.Root())
	return fmt.Appendf(append(header, lines.Bytes()...), `{"complete":true,"leaves":%d}`+"\n", n), nil
}

// rebuilds writes memories one by one, and compares a rebuild of the read models with a
// plain COPY of their rows into tables with the same keys, and verify with the rebuild.
func (w *world) rebuilds(ctx context.Context) error {
	for written := 0; written < 200_000; {
		r, err := w.load(w.connections, fasthttp.StatusCreated, w.writeOurs(w.writers))(ctx)
		if err != nil {
			return err
		}
		written += int(r.perSecond * w.duration.Seconds())
	}
	ledger := func(command string) contender {
		return func(ctx context.Context) (result, error) {
			cmd := exec.CommandContext(ctx, w.ledger, command)
			cmd.Env = w.environ()
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return result{}, fmt.Errorf("%s: %w: %s", command, err, out)
			}
			return result{p50: time.Since(start)}, nil
		}
	}
	got, err := compare(ctx, w.rounds, ledger("rebuild"), ledger("verify"), w.copyRows)
	if err != nil {
		return err
	}
	inverse := func(r result) float64 { return 1 / float64(r.p50) }
	add("rebuild, speed of a plain COPY", short(got[0].p50), short(got[2].p50), ratio(got[0], got[2], inverse))
	addTime("verify, of the rebuild's time", got[1], got[0], middle)
	return nil
}

// copyRows times a plain COPY of the rows of our read models. It copies the memories in
// the order of the log. A rebuild stores each owner's rows side by side, and has to sort.
func (w *world) copyRows(ctx context.Context) (result, error) {
	run, err := datadir.LoadRun(w.dataDir())
	if err != nil {
		return result{}, err
	}
	conn, err := pgx.Connect(ctx, run.DatabaseURL)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var took time.Duration
	for _, table := range []string{"memories ORDER BY seq", "owners", "tiles"} {
		name, _, _ := strings.Cut(table, " ")
		if _, err := conn.Exec(ctx, `CREATE TABLE copied (LIKE `+name+` INCLUDING ALL)`); err != nil {
			return result{}, err
		}
		var rows bytes.Buffer
		if _, err := conn.PgConn().CopyTo(ctx, &rows, `COPY (SELECT * FROM `+table+`) TO STDOUT (FORMAT binary)`); err != nil {
			return result{}, err
		}
		start := time.Now()
		if _, err := conn.PgConn().CopyFrom(ctx, &rows, `COPY copied FROM STDIN (FORMAT binary)`); err != nil {
			return result{}, err
		}
		took += time.Since(start)
		if _, err := conn.Exec(ctx, `DROP TABLE copied`); err != nil {
			return result{}, err
		}
	}
	return result{p50: took}, nil
}
