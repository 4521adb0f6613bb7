package localchain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/npm"
)

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
	if err := c.Call(t.Context(), &result, method, params...); err != nil {
		t.Fatal(err)
	}
	return result
}

func fault(t *testing.T, c *localchain.Chain, f localchain.Fault) {
	t.Helper()
	if err := c.Fault(t.Context(), f); err != nil {
		t.Fatal(err)
	}
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

func manual(t *testing.T) *localchain.Chain {
	t.Helper()
	t.Parallel()
	return localchaintest.Start(t, localchain.Config{ManualSlots: true})
}

func TestLevelsFollowSlots(t *testing.T) {
	c := manual(t)
	call[string](t, c, "requestAirdrop", somebody, some)
	steps := []struct{ processed, confirmed, finalized uint64 }{
		{some, 0, 0}, {some, some, 0}, {some, some, 0}, {some, some, 0}, {some, some, some},
	}
	for i, want := range steps {
		got := struct{ processed, confirmed, finalized uint64 }{
			balance(t, c, processed), balance(t, c, confirmed), balance(t, c, finalized),
		}
		if got != want {
			t.Errorf("after %d slots: %+v, want %+v", i, got, want)
		}
		fault(t, c, localchain.Advance(1))
	}
}

func TestStatusRises(t *testing.T) {
	c := manual(t)
	signature := call[string](t, c, "requestAirdrop", somebody, some)
	type status struct {
		Slot               uint64
		Confirmations      *int
		ConfirmationStatus string
		Err                any
	}
	read := func() *status {
		return call[valued[[]*status]](t, c, "getSignatureStatuses", []string{signature}).Value[0]
	}
	if s := read(); s.ConfirmationStatus != "processed" || *s.Confirmations != 0 || s.Err != nil {
		t.Fatalf("%+v", s)
	}
	fault(t, c, localchain.Lag(2))
	fault(t, c, localchain.Advance(2))
	if s := read(); s.ConfirmationStatus != "processed" || *s.Confirmations != 2 {
		t.Fatalf("lagging: %+v", s)
	}
	fault(t, c, localchain.Lag(0))
	fault(t, c, localchain.Advance(2))
	if s := read(); s.ConfirmationStatus != "finalized" || s.Confirmations != nil {
		t.Fatalf("%+v", s)
	}
	// The transaction is older than the recent window: only a history search finds it.
	fault(t, c, localchain.Advance(400))
	if s := read(); s != nil {
		t.Fatalf("an old status was found without a search: %+v", s)
	}
	searched := call[valued[[]*status]](t, c, "getSignatureStatuses", []string{signature}, map[string]bool{"searchTransactionHistory": true})
	if s := searched.Value[0]; s == nil || s.ConfirmationStatus != "finalized" {
		t.Fatalf("%+v", s)
	}
}

func TestBlockhashWindow(t *testing.T) {
	c := manual(t)
	type latest struct {
		Blockhash            string
		LastValidBlockHeight uint64
	}
	valid := func(hash string) bool {
		return call[valued[bool]](t, c, "isBlockhashValid", hash, processed).Value
	}
	h := call[valued[latest]](t, c, "getLatestBlockhash", processed).Value
	height := call[uint64](t, c, "getBlockHeight", processed)
	if h.LastValidBlockHeight != height+150 {
		t.Fatalf("valid to %d at %d", h.LastValidBlockHeight, height)
	}
	fault(t, c, localchain.Advance(150))
	if !valid(h.Blockhash) {
		t.Fatal("invalid at its last valid height")
	}
	fault(t, c, localchain.Advance(1))
	if valid(h.Blockhash) {
		t.Fatal("valid after its last valid height")
	}
	h = call[valued[latest]](t, c, "getLatestBlockhash", processed).Value
	fault(t, c, localchain.Expire())
	if valid(h.Blockhash) {
		t.Fatal("valid after it was made to expire")
	}
	if h = call[valued[latest]](t, c, "getLatestBlockhash", finalized).Value; h.Blockhash == "" {
		t.Fatal("no finalized blockhash")
	}
}

func TestHealthAndDown(t *testing.T) {
	c := manual(t)
	fault(t, c, localchain.Behind(7))
	rpc := code(t, c.Call(t.Context(), nil, "getHealth"), -32005)
	if string(rpc.Data) != `{"numSlotsBehind":7}` {
		t.Fatalf("data %s", rpc.Data)
	}
	fault(t, c, localchain.Behind(0))
	if got := call[string](t, c, "getHealth"); got != "ok" {
		t.Fatal(got)
	}
	fault(t, c, localchain.Down(true))
	var rpcErr *localchain.RPCError
	if err := c.Call(t.Context(), nil, "getSlot"); err == nil || errors.As(err, &rpcErr) {
		t.Fatalf("a chain that is down answered: %v", err)
	}
	fault(t, c, localchain.Down(false))
	call[uint64](t, c, "getSlot")
}

func TestLostReplyIsDone(t *testing.T) {
	c := manual(t)
	fault(t, c, localchain.LoseReply("requestAirdrop", 1))
	if err := c.Call(t.Context(), nil, "requestAirdrop", somebody, some); err == nil {
		t.Fatal("the reply was not lost")
	}
	if got := balance(t, c, processed); got != some {
		t.Fatalf("holds %d", got)
	}
	fault(t, c, localchain.Fail("requestAirdrop", 1))
	code(t, c.Call(t.Context(), nil, "requestAirdrop", somebody, some), -32603)
	if got := balance(t, c, processed); got != some {
		t.Fatalf("holds %d", got)
	}
	call[string](t, c, "requestAirdrop", somebody, some)
}

func TestClock(t *testing.T) {
	c := manual(t)
	fault(t, c, localchain.Clock(4_000_000_000))
	at := call[uint64](t, c, "getSlot", processed)
	if got := call[int64](t, c, "getBlockTime", at); got < 4_000_000_000 || got > 4_000_000_060 {
		t.Fatalf("block time %d", got)
	}
}

func TestMalformedRequests(t *testing.T) {
	c := manual(t)
	for name, test := range map[string]struct {
		method string
		params []any
		code   int
	}{
		"unknown method":      {"getNothing", nil, -32601},
		"inherited name":      {"toString", nil, -32601},
		"short key":           {"getBalance", []any{"abc"}, -32602},
		"key that is long":    {"getBalance", []any{strings.Repeat("1", 200_000)}, -32602},
		"key not base58":      {"getBalance", []any{strings.Repeat("0", 44)}, -32602},
		"key a number":        {"getBalance", []any{7}, -32602},
		"no key":              {"getBalance", nil, -32602},
		"unknown commitment":  {"getSlot", []any{map[string]string{"commitment": "max"}}, -32602},
		"too many signatures": {"getSignatureStatuses", []any{make([]string, 257)}, -32602},
		"no transaction":      {"sendTransaction", nil, -32602},
		"transaction garbage": {"sendTransaction", []any{"AAAA", map[string]string{"encoding": "base64"}}, -32602},
		"transaction too long": {"sendTransaction", []any{strings.Repeat("A", 1644), map[string]string{"encoding": "base64"}},
			-32602},
		"future context slot": {"getBalance", []any{somebody, map[string]any{"minContextSlot": 1 << 40}}, -32016},
		"negative airdrop":    {"requestAirdrop", []any{somebody, -1}, -32602},
	} {
		t.Run(name, func(t *testing.T) {
			code(t, c.Call(t.Context(), nil, test.method, test.params...), test.code)
		})
	}
	call[uint64](t, c, "getSlot") // the chain still answers
}

func TestNoFaultsUnlessAllowed(t *testing.T) {
	t.Parallel()
	cfg := localchain.Config{DataDir: t.TempDir()}
	localchaintest.Start(t, localchain.Config{}) // fetches what it needs
	c, err := localchain.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.Background()) }()
	code(t, c.Fault(t.Context(), localchain.Reset()), -32601)
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
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	c = restart(t, dir)
	if got := call[string](t, c, "getGenesisHash"); got != genesis || c.GenesisHash() != genesis {
		t.Fatalf("genesis %s became %s", genesis, got)
	}
	if got := balance(t, c, finalized); got != some {
		t.Fatalf("after a stop: holds %d", got)
	}
	call[string](t, c, "requestAirdrop", somebody, some)
	fault(t, c, localchain.Advance(1)) // confirmed, and so saved
	call[string](t, c, "requestAirdrop", somebody, some)
	c.Kill() // the last airdrop was processed only

	c = restart(t, dir)
	if got := balance(t, c, finalized); got != 2*some {
		t.Fatalf("after a kill: holds %d", got)
	}
	if got := call[uint64](t, c, "getSlot", finalized); got <= slot {
		t.Fatalf("slot %d is not after %d", got, slot)
	}
	fault(t, c, localchain.Advance(1000))
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
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A crash during a save leaves half a snapshot, and a line that no snapshot counts.
	f, err := os.OpenFile(filepath.Join(dir, "transactions"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"signature":"torn`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(filepath.Join(dir, "state.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = restart(t, dir)
	if got := balance(t, c, finalized); got != some {
		t.Fatalf("holds %d", got)
	}
}

func TestReset(t *testing.T) {
	c := manual(t)
	before := call[string](t, c, "getGenesisHash")
	call[string](t, c, "requestAirdrop", somebody, some)
	fault(t, c, localchain.Reset())
	if call[string](t, c, "getGenesisHash") == before || balance(t, c, processed) != 0 {
		t.Fatal("the chain was not reset")
	}
	if list := call[[]json.RawMessage](t, c, "getSignaturesForAddress", somebody); len(list) != 0 {
		t.Fatalf("history %s", list)
	}
}

func TestOneChainAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	restart(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := localchain.Start(ctx, localchain.Config{DataDir: dir})
	if !errors.Is(err, datadir.ErrLocked) {
		t.Fatalf("got %v", err)
	}
}

func TestForeignStateIsRefused(t *testing.T) {
	t.Parallel()
	localchaintest.Start(t, localchain.Config{}) // fetches what it needs
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state"), []byte("something else altogether, and long"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := localchain.Start(t.Context(), localchain.Config{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "is not a state of this chain") {
		t.Fatalf("got %v", err)
	}
}

func TestFund(t *testing.T) {
	c := manual(t)
	for range 2 {
		if err := c.Fund(t.Context(), somebody, some); err != nil {
			t.Fatal(err)
		}
	}
	if got := balance(t, c, processed); got != some {
		t.Fatalf("holds %d", got)
	}
}

func TestOutOfReach(t *testing.T) {
	registry := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(registry.Close)
	t.Setenv("NPM_CONFIG_REGISTRY", registry.URL)
	t.Setenv("npm_config_registry", "")
	_, err := localchain.Start(t.Context(), localchain.Config{DataDir: t.TempDir(), CacheDir: t.TempDir()})
	if !errors.Is(err, localchain.ErrUnavailable) || !errors.Is(err, npm.ErrFetch) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
}

// TestFollowsItsParent starts a parent process, which starts a chain. It kills the parent
// without warning. The chain ends, too.
func TestFollowsItsParent(t *testing.T) {
	if os.Getenv("LOCALCHAIN_PARENT") != "" {
		beParent(t)
		return
	}
	t.Parallel()
	localchaintest.Start(t, localchain.Config{}) // fetches what it needs
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run=^TestFollowsItsParent$", "-test.v")
	parent.Env = append(os.Environ(), "LOCALCHAIN_PARENT="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, out)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	// The folder's lock is released when the last process that holds it ends.
	c, err := localchain.Start(t.Context(), localchain.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop(context.Background()) }()
	if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
		t.Fatalf("process %d outlived its parent", pid)
	}
}

func beParent(t *testing.T) {
	c, err := localchain.Start(context.Background(), localchain.Config{
		DataDir: os.Getenv("LOCALCHAIN_PARENT"),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(c.PID()) + "\n")
	<-c.Done()
}

func readPID(t *testing.T, out io.Reader) int {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the parent did not say its chain's pid")
	return 0
}

// zombie reports whether a process has ended but its parent has not yet waited for it.
// The parent may be a process that inherited it.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
