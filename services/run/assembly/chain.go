package assembly

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
)

const (
	// chainPatience is how long the start of a local run waits for its chain, once it has
	// what the chain needs. The run then goes on, and anchors when the chain is up.
	chainPatience = time.Minute
	// localFunds is the balance that the authority of a local chain is topped up to.
	localFunds = 1000 * solana.LAMPORTS_PER_SOL
)

// localChain is the chain of a local run.
type localChain struct {
	cancel context.CancelFunc
	cfg    localchain.Config
	done   chan struct{} // closed when the start has succeeded or failed
	url    string
	server *localchain.Chain
	err    error
}

// startChain starts the chain of a local run, unless the environment names one, and makes
// sure that an authority exists. A missing chain is not an error: memories are still
// written, and wait to be anchored.
func (l *local) startChain(ctx context.Context) error {
	if err := l.authority(); err != nil {
		return err
	}
	if l.cfg.CommitmentProgramID == "" {
		l.cfg.CommitmentProgramID = program.LocalID.String()
	}
	if l.cfg.SolanaRPCURL != "" {
		l.chainIs = "that of SOLANA_RPC_URL, at " + hostOf(l.cfg.SolanaRPCURL) // the rest of the URL may be secret
		return nil
	}
	if l.cfg.LocalChain == "off" {
		l.chainIs = "none is configured, so memories stay unanchored"
		return nil
	}
	dir, err := l.dir.Sub(chainFolder)
	if err != nil {
		return err
	}
	cfg := localchain.Config{
		DataDir: dir, OnFetch: l.console.Fetching,
		Programs: []localchain.Program{{ID: program.LocalID.String(), ELF: program.ELF}},
	}
	if err := localchain.Fetch(ctx, cfg); err != nil {
		l.chainIs = "none, so memories stay unanchored: " + err.Error()
		return ctx.Err()
	}
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.chain = &localChain{cancel: cancel, done: make(chan struct{}), cfg: cfg}
	go l.chain.start(starting, l.cfg.AuthorityKeypair)
	select {
	case <-ctx.Done():
	case <-l.chain.done:
		if err := l.chain.err; err != nil {
			l.chainIs = "none, so memories stay unanchored: " + err.Error()
			return nil
		}
		l.cfg.SolanaRPCURL, l.cfg.DashboardRPCURL = l.chain.url, l.chain.url
		l.chainIs = "local, " + l.chain.url
	case <-time.After(chainPatience):
		l.chainIs = "not up yet; memories stay unanchored until it is"
	}
	return nil
}

// start brings the chain up with the program deployed and the authority funded. After a
// crash, the next start continues from the chain's saved state.
func (c *localChain) start(ctx context.Context, keypair string) {
	defer close(c.done)
	key, err := solana.PrivateKeyFromSolanaKeygenFile(keypair)
	if err != nil {
		c.err = fmt.Errorf("read the authority's key pair: %w", err)
		return
	}
	if c.server, c.err = localchain.Start(ctx, c.cfg); c.err != nil {
		return
	}
	c.url = c.server.URL()
	c.cfg.Addr = strings.TrimPrefix(c.url, "http://") // for each restart too
	c.err = c.server.Fund(ctx, key.PublicKey().String(), localFunds)
}

// authority makes the key pair that signs commits, in the format of the Solana command
// line, if the environment names none. The pair is on disk before it signs anything: an
// account belongs to its authority for good.
func (l *local) authority() error {
	if l.cfg.AuthorityKeypair != "" {
		return nil
	}
	folder, err := l.dir.Sub("secrets")
	if err != nil {
		return err
	}
	l.cfg.AuthorityKeypair = filepath.Join(folder, "authority.json")
	return EnsureKeypair(l.cfg.AuthorityKeypair)
}

// EnsureKeypair makes a key pair in the format of the Solana command line, mode 0600,
// unless the file exists. The file is on disk when EnsureKeypair returns.
func EnsureKeypair(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key pair: %w", err)
	}
	numbers := make([]int, len(private)) // a JSON array of numbers, not base64
	for i, b := range private {
		numbers[i] = int(b)
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		return err
	}
	return datadir.WriteFile(path, text, 0o600)
}

// runChain waits for the chain, then anchors until ctx ends.
func (l *local) runChain(ctx context.Context, d *APIServer) error {
	b := d.Base
	if l.chain != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-l.chain.done:
		}
		if l.chain.err != nil {
			l.logger.Info("no local chain, so memories stay unanchored", "err", l.chain.err)
			<-ctx.Done()
			return nil
		}
		if b.Config.SolanaRPCURL == "" {
			b.Config.SolanaRPCURL, b.Config.DashboardRPCURL = l.chain.url, l.chain.url
			l.cfg.SolanaRPCURL = b.Config.SolanaRPCURL
			l.console.Say("the local chain is up: " + l.chain.url)
			if err := d.connectChain(); err != nil {
				return err
			}
			if err := l.note(); err != nil {
				return err
			}
		}
	}
	if b.Config.SolanaRPCURL == "" {
		return nil
	}
	anchorer, err := NewAnchorer(b, d.Fence)
	if err != nil {
		return err
	}
	l.anchorer.Store(anchorer)
	return withStakes(b, d.Fence, anchorer.Run)(ctx)
}

// anchoring returns the reason why memories stay unanchored, or nil.
func (l *local) anchoring() error {
	if a := l.anchorer.Load(); a != nil {
		return a.Ready()
	}
	return errors.New("there is no chain, so memories stay unanchored")
}

// keep restarts the chain at the same address if it ends unexpectedly. The chain keeps
// everything that was confirmed. If the restart fails, the run goes on: writing needs no
// chain, and waiting memories are anchored after the next start.
func (c *localChain) keep(ctx context.Context, logger *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-c.done:
	}
	if c.err != nil {
		return // it was never up; runChain logs that
	}
	err := keepUp(ctx, logger, "the local chain", func() <-chan struct{} { return c.server.Done() }, c.restart)
	if err != nil {
		logger.Error("memories stay unanchored until the next start", "err", err)
	}
}

func (c *localChain) restart(ctx context.Context) (err error) {
	c.server, err = localchain.Start(ctx, c.cfg)
	return err
}

// stop ends the chain. It may still be starting.
func (c *localChain) stop(ctx context.Context) error {
	c.cancel()
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("the local chain was still starting: %w", ctx.Err())
	}
	if c.server == nil {
		return nil
	}
	return c.server.Stop(ctx)
}
