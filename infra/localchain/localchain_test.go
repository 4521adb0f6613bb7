package localchain_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

const (
	somebody = "6sbzC1eH4FTujJXWj51eQe25cYvr4xfXbJ1vAj7j2k5J"
	some     = 5_000_000 // lamports, enough for an account's rent
)

var (
	processed = map[string]string{"commitment": "processed"}
	confirmed = map[string]string{"commitment": "confirmed"}
	finalized = map[string]string{"commitment": "finalized"}
)

func call[T any](t *testing.T, c *localchain.Chain, method string, params ...any) T {
	t.Helper()
	var result T
	must(t, c.Call(t.Context(), &result, method, params...))
	return result
}

func fault(t *testing.T, c *localchain.Chain, f localchaintest.Fault) {
	t.Helper()
	must(t, c.Fault(t.Context(), f))
}

func code(t *testing.T, err error, want int) *localchain.RPCError {
	t.Helper()
	var rpc *localchain.RPCError
	if !errors.As(err, &rpc) || rpc.Code != want {
		t.Fatalf("got %v, want code %d", err, want)
	}
	return rpc
}

type valued[T any] struct {
	Context struct{ Slot uint64 }
	Value   T
}

func balance(t *testing.T, c *localchain.Chain, level map[string]string) uint64 {
	t.Helper()
	return call[valued[uint64]](t, c, "getBalance", somebody, level).Value
}

func TestNoFaultsUnlessAllowed(t *testing.T) {
	t.Parallel()
	cfg := localchain.Config{DataDir: t.TempDir()}
	localchaintest.Start(t, localchain.Config{}) // fetches what it needs
	c, err := localchain.Start(t.Context(), cfg)
	must(t, err)
	defer func() { _ = c.Stop(context.Background()) }()
	code(t, c.Fault(t.Context(), localchaintest.Reset()), -32601)
}

// restart starts a chain again in the same folder.
func restart(t *testing.T, dir string) *localchain.Chain {
	t.Helper()
	return localchaintest.Start(t, localchain.Config{DataDir: dir, ManualSlots: true})
}

func TestStateSurvivesStopAndKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := restart(t, dir)
	genesis := call[string](t, c, "getGenesisHash")
	signature := call[string](t, c, "requestAirdrop", somebody, some)
	slot := call[uint64](t, c, "getSlot", processed)
	must(t, c.Stop(t.Context()))

	c = restart(t, dir)
	if got := call[string](t, c, "getGenesisHash"); got != genesis || c.GenesisHash() != genesis {
		t.Fatalf("genesis %s became %s", genesis, got)
	}
	if got := balance(t, c, finalized); got != some {
		t.Fatalf("after a stop: holds %d", got)
	}
	call[string](t, c, "requestAirdrop", somebody, some)
	fault(t, c, localchaintest.Advance(1)) // confirmed, and so saved
	call[string](t, c, "requestAirdrop", somebody, some)
	c.Kill() // the last airdrop was processed only

	c = restart(t, dir)
	if got := balance(t, c, finalized); got != 2*some {
		t.Fatalf("after a kill: holds %d", got)
	}
	if got := call[uint64](t, c, "getSlot", finalized); got <= slot {
		t.Fatalf("slot %d is not after %d", got, slot)
	}
	fault(t, c, localchaintest.Advance(1000))
	slot = call[uint64](t, c, "getSlot", processed)
	c.Kill()
	c = restart(t, dir)
	if got := call[uint64](t, c, "getSlot", finalized); got <= slot {
		t.Fatalf("idle slot %d is not after %d", got, slot)
	}
	type entry struct{ Signature string }
	list := call[[]entry](t, c, "getSignaturesForAddress", somebody)
	if len(list) != 2 || list[1].Signature != signature {
		t.Fatalf("history %v", list)
	}
}

func TestTornSaveIsIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := restart(t, dir)
	call[string](t, c, "requestAirdrop", somebody, some)
	must(t, c.Stop(t.Context()))
	// A crash during a save leaves half a snapshot, and a line that no snapshot counts.
	f, err := os.OpenFile(filepath.Join(dir, "transactions"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	must(t, errorOf(f.WriteString(`{"signature":"torn`)))
	f.Close()
	must(t, os.WriteFile(filepath.Join(dir, "state.new"), []byte("half"), 0o600))
	c = restart(t, dir)
	if got := balance(t, c, finalized); got != some {
		t.Fatalf("holds %d", got)
	}
}

// TestAProjectAroundTheFolder: a run in the folder of a JavaScript project, which has modules
// and another runtime of its own, uses the pinned runtime.
func TestAProjectAroundTheFolder(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	foreign := filepath.Join(project, "node_modules", "litesvm", "dist")
	must(t, os.MkdirAll(foreign, 0o700))
	must(t, os.WriteFile(filepath.Join(foreign, "internal.js"), []byte("throw new Error('of the project')"), 0o600))
	must(t, os.WriteFile(filepath.Join(project, "package.json"), []byte(`{"type":"module"}`), 0o600))
	localchaintest.Start(t, localchain.Config{DataDir: filepath.Join(project, ".data", "chain")})
}
