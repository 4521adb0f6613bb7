package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/test/cluster"
)

// world holds the services that are measured, ours and the plain one. Each is a process of
// its own on durable storage in the same folder.
type world struct {
	options
	dir     string
	core    string // base URL of our service
	plain   string // base URL of the plain service
	pool    *pgxpool.Pool
	writers []writer
	closers []func(context.Context)

	processes []*cluster.Process // of a deployment: its API and its projector
}

// writer is an owner with a session.
type writer struct{ wallet, token string }

// start makes the folder, starts the services, and signs the writers in.
func (w *world) start(ctx context.Context, services func(*world, context.Context) error) error {
	var err error
	if w.dir, err = os.MkdirTemp("", "ledger-bench-"); err != nil {
		return err
	}
	w.closers = append(w.closers, func(context.Context) { _ = pgtest.Remove(w.dir) })
	if err := os.Chmod(w.dir, 0o711); err != nil {
		return err
	}
	if err := services(w, ctx); err != nil {
		return err
	}
	w.writers = make([]writer, w.owners)
	return inParallel(w.owners, func(i int) (err error) {
		w.writers[i], err = w.signIn(ctx)
		return err
	})
}

// close ends what was started, in reverse order.
func (w *world) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		w.closers[i](ctx)
		cancel()
	}
}

// startLocal runs `ledger run` beside the plain service, on databases of the same size.
func (w *world) startLocal(ctx context.Context) error {
	database, err := w.startDatabase(ctx, "plain")
	if err != nil {
		return err
	}
	if err := w.startPlain(ctx, database); err != nil {
		return err
	}
	addr, err := cluster.FreeAddr()
	if err != nil {
		return err
	}
	w.core = "http://" + addr
	run := exec.Command(w.ledger, "run")
	run.Env = append(w.environ(), "CORE_ADDR="+addr, "EXTENSION_ADDR=127.0.0.1:0", "LOCAL_CHAIN=off", "LOG_LEVEL=warn")
	return w.spawn(run, w.core)
}

func (w *world) dataDir() string   { return filepath.Join(w.dir, "ledger") }
func (w *world) environ() []string { return append(os.Environ(), "LEDGER_DATA_DIR="+w.dataDir()) }

func (w *world) startDatabase(ctx context.Context, name string) (*localpostgres.Server, error) {
	server, err := localpostgres.Start(ctx, localpostgres.Config{Dir: filepath.Join(w.dir, name), Settings: map[string]string{"shared_buffers": schema.LocalSharedBuffers}})
	if err == nil {
		w.closers = append(w.closers, func(ctx context.Context) { _ = server.Stop(ctx) })
	}
	return server, err
}

// startPlain starts the plain service on the database.
func (w *world) startPlain(ctx context.Context, database *localpostgres.Server) error {
	var err error
	if w.pool, err = pgxpool.New(ctx, database.URL()); err != nil {
		return err
	}
	w.closers = append(w.closers, func(context.Context) { w.pool.Close() })
	if _, err := w.pool.Exec(ctx, plainTable); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	addr, err := cluster.FreeAddr()
	if err != nil {
		return err
	}
	w.plain = "http://" + addr
	return w.spawn(exec.Command(self, "plain", addr, database.URL()), w.plain)
}

// spawn starts a process, and waits until it is ready.
func (w *world) spawn(cmd *exec.Cmd, url string) error {
	cmd.Stderr = os.Stderr
	p, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func(ctx context.Context) { _ = p.Stop(ctx, syscall.SIGTERM) })
	return cluster.Await(url+"/readyz", p.Done())
}

// client returns a client of an owner. A deployment's public address is not the one at
// which it is measured.
func (w *world) client(owner writer) *memoryledger.Client {
	options := []memoryledger.Option{memoryledger.WithSession(owner.token), memoryledger.WithoutVerification()}
	if w.processes != nil {
		options = append(options, memoryledger.WithPublicURL("http://ledger.test"))
	}
	return memoryledger.New(w.core, options...)
}

// signIn makes an owner with a session.
func (w *world) signIn(ctx context.Context) (writer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return writer{}, err
	}
	session, err := w.client(writer{}).SignIn(ctx, memoryledger.KeyWallet(key))
	if err != nil {
		return writer{}, fmt.Errorf("sign in: %w", err)
	}
	return writer{session.PublicKey, session.Token}, nil
}

// fill makes an owner with n memories, in batches, and returns their ids.
func (w *world) fill(ctx context.Context, n int) (writer, []string, error) {
	owner, err := w.signIn(ctx)
	if err != nil {
		return writer{}, nil, err
	}
	var ids []string
	for len(ids) < n {
		batch := make([]memoryledger.NewMemory, min(256, n-len(ids)))
		for i := range batch {
			batch[i] = memoryledger.NewMemory{Content: sentence(len(ids) + i), Metadata: memoryledger.Metadata{"source": "bench"}}
		}
		written, err := w.client(owner).WriteBatch(ctx, batch)
		if err != nil {
			return writer{}, nil, fmt.Errorf("fill: %w", err)
		}
		for _, m := range written {
			ids = append(ids, m.ID)
		}
	}
	return owner, ids, nil
}

// inParallel does n things, 16 at a time.
func inParallel(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
