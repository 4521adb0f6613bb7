package assembly

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/run/backup"
)

type localChain struct {
	cfg    localchain.Config
	server *localchain.Chain
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
		l.chainIs = "that of SOLANA_RPC_URL, at " + connect.HostOf(l.cfg.SolanaRPCURL) // the rest of the URL may be secret
		return nil
	}
	if l.cfg.LocalChain == "off" {
		l.chainIs = "none is configured, so memories stay unanchored"
		return nil
	}
	dir, err := l.dir.Sub(string(backup.Chain))
	if err != nil {
		return err
	}
	cfg := localchain.Config{
		DataDir: dir, OnFetch: l.console.Say,
		Programs: []localchain.Program{{ID: program.LocalID.String(), ELF: program.ELF}},
	}
	url, err := l.launchChain(ctx, cfg)
	if err != nil {
		l.chainIs = "none, so memories stay unanchored: " + err.Error()
		return ctx.Err()
	}
	l.cfg.SolanaRPCURL, l.cfg.DashboardRPCURL = url, url
	l.chainIs = "local, " + url
	return nil
}

// launchChain brings the chain up with the program deployed and the authority funded. After
// a crash, the next start continues from the chain's saved state.
func (l *local) launchChain(ctx context.Context, cfg localchain.Config) (url string, err error) {
	key, err := solana.PrivateKeyFromSolanaKeygenFile(l.cfg.AuthorityKeypair)
	if err != nil {
		return "", fmt.Errorf("read the authority's key pair: %w", err)
	}
	server, err := localchain.Start(ctx, cfg)
	if err != nil {
		return "", err
	}
	cfg.Addr = strings.TrimPrefix(server.URL(), "http://") // for each restart
	l.chain = &localChain{cfg, server}
	return server.URL(), server.Fund(ctx, key.PublicKey().String(), 1000*solana.LAMPORTS_PER_SOL)
}

// authority makes the key pair that signs commits, in the format of the Solana command
// line, if the environment names none. The pair is on disk before it signs anything: an
// account belongs to its authority for good.
func (l *local) authority() error {
	if l.cfg.AuthorityKeypair != "" {
		return nil
	}
	folder, err := l.dir.Sub(string(backup.Secrets))
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

// anchoring returns the reason why memories stay unanchored, or nil.
func (l *local) anchoring() error {
	if a := l.anchorer; a != nil {
		return a.Ready()
	}
	return errors.New("there is no chain, so memories stay unanchored")
}

// keepChain restarts the local chain at the same address if it ends unexpectedly. The chain keeps
// everything that was confirmed. If the restart fails, the run goes on: writing needs no
// chain, and waiting memories are anchored after the next start.
func (l *local) keepChain(ctx context.Context) {
	if l.chain == nil {
		return
	}
	err := keepUp(ctx, l.logger, "the local chain", func() <-chan struct{} { return l.chain.server.Done() }, l.chain.restart)
	if err != nil {
		l.logger.Error("memories stay unanchored until the next start", "err", err)
	}
}

func (c *localChain) restart(ctx context.Context) (err error) {
	c.server, err = localchain.Start(ctx, c.cfg)
	return err
}
