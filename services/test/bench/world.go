package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/projections/schema"
)

// world holds the services that the cases measure: our service and the plain service.
// Each is a separate process on durable storage in the same folder.
type world struct {
	options
	dir    string
	report report

	core     string // base URL
	plain    string
	local    datadir.Run
	database *localpostgres.Server // of the plain service
	pool     *pgxpool.Pool         // on it
	children []*exec.Cmd
	tokens   []string // one for each owner
	wallets  []string // public keys, in the same order
}

func newWorld(ctx context.Context, o options) (*world, error) {
	dir, err := os.MkdirTemp("", "ledger-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	w := &world{options: o, dir: dir}
	if err := w.start(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) start(ctx context.Context) error {
	var err error
	w.report.fsync, err = fsyncLatency(w.dir)
	if err != nil {
		return err
	}
	if w.database, err = localpostgres.Start(ctx, localpostgres.Config{
		Dir: filepath.Join(w.dir, "plain"), SharedBuffers: schema.LocalSharedBuffers, // as much as the ledger's database has
	}); err != nil {
		return err
	}
	if err := w.servePlain(ctx); err != nil {
		return err
	}
	if err := w.startLedger(); err != nil {
		return err
	}
	return w.signInAll(ctx)
}

// servePlain starts the plain service on the database.
func (w *world) servePlain(ctx context.Context) error {
	var err error
	if w.pool, err = pgxpool.New(ctx, w.database.URL()); err != nil {
		return err
	}
	if _, err := w.pool.Exec(ctx, plainTable); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	line, err := w.spawn(exec.Command(self, "plain", "-database", w.database.URL()), "plain is up")
	if err != nil {
		return err
	}
	w.plain = strings.TrimSpace(strings.TrimPrefix(line, "plain is up:"))
	return nil
}

func (w *world) startLedger() error {
	data := filepath.Join(w.dir, "ledger")
	ledger := exec.Command(w.ledger, "run")
	ledger.Env = append(os.Environ(), "LEDGER_DATA_DIR="+data, "CORE_ADDR=127.0.0.1:0", "EXTENSION_ADDR=127.0.0.1:0",
		"LOCAL_CHAIN=off", "LOG_LEVEL=warn")
	if _, err := w.spawn(ledger, "Memory Ledger is up."); err != nil {
		return err
	}
	var err error
	if w.local, err = datadir.LoadRun(data); err != nil {
		return err
	}
	w.core = w.local.CoreURL
	return nil
}

// spawn starts a child and waits for the line that says it is up.
func (w *world) spawn(cmd *exec.Cmd, ready string) (string, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.children = append(w.children, cmd)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), ready) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return lines.Text(), nil
		}
	}
	return "", fmt.Errorf("%s ended without %q", cmd.Path, ready)
}

// close stops the started processes by their ids, and removes the folder.
func (w *world) close() {
	if w.pool != nil {
		w.pool.Close()
	}
	for _, c := range w.children {
		_ = c.Process.Signal(syscall.SIGTERM)
	}
	for _, c := range w.children {
		timer := time.AfterFunc(15*time.Second, func() { _ = c.Process.Kill() })
		_ = c.Wait()
		timer.Stop()
	}
	if w.database != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.database.Stop(ctx)
	}
	_ = os.RemoveAll(w.dir)
}

// signInAll gives every owner a core session.
func (w *world) signInAll(ctx context.Context) error {
	w.tokens, w.wallets = make([]string, w.owners), make([]string, w.owners)
	errs := make([]error, w.owners)
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range w.owners {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			w.wallets[i], w.tokens[i], errs[i] = w.signIn(ctx)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (w *world) signIn(ctx context.Context) (publicKey, token string, err error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	publicKey = base58.Encode(public)
	challenge, err := w.post(ctx, "/auth/challenge", map[string]any{"publicKey": publicKey}, "")
	if err != nil {
		return "", "", err
	}
	message, _ := challenge["message"].(string)
	session, err := w.post(ctx, "/auth/verify", map[string]any{
		"publicKey": publicKey, "message": message, "signature": base58.Encode(ed25519.Sign(private, []byte(message))),
	}, "")
	if err != nil {
		return "", "", err
	}
	token, _ = session["token"].(string)
	return publicKey, token, nil
}

// post sends JSON to the core API and returns the object in the answer.
func (w *world) post(ctx context.Context, path string, body any, token string) (map[string]any, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.core+path, strings.NewReader(string(encoded)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, fmt.Errorf("%s: status %d: %v", path, res.StatusCode, answer)
	}
	return answer, nil
}
