package localchain_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
)

// TestACopyIsOfOneMoment copies a chain many times, while transactions arrive and the
// chain saves them. Each copy is complete and holds everything that was confirmed before
// the copy. A chain that starts from a copy is the same chain.
func TestACopyIsOfOneMoment(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	c := localchaintest.Start(t, localchain.Config{DataDir: dir, SlotTime: 2 * time.Millisecond})
	var to string
	var least uint64 // the balance confirmed before the newest copy
	for range 30 {
		for range 3 {
			call[string](t, c, "requestAirdrop", somebody, some)
		}
		least = balance(t, c, confirmed)
		to = t.TempDir()
		must(t, localchain.Copy(dir, to))
	}
	if least == 0 {
		t.Fatal("nothing was ever confirmed")
	}
	again := restart(t, to)
	if got := balance(t, again, finalized); again.GenesisHash() != c.GenesisHash() || got < least {
		t.Errorf("chain %s holds %d, want %s and at least %d", again.GenesisHash(), got, c.GenesisHash(), least)
	}
	type entry struct{ Signature string }
	if list := call[[]entry](t, again, "getSignaturesForAddress", somebody); uint64(len(list)) < least/some {
		t.Errorf("%d transactions in its history, want at least %d", len(list), least/some)
	}
	if err := localchain.Copy(dir, to); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another chain: %v", err)
	}
}

// Copy refuses a folder without the complete state of a chain.
func TestOnlyAWholeStateIsCopied(t *testing.T) {
	t.Parallel()
	if err := localchain.Copy(t.TempDir(), t.TempDir()); !errors.Is(err, localchain.ErrNoState) {
		t.Errorf("an empty folder: %v", err)
	}
	const magic = "memory-ledger-localchain/1\n"
	header := func(text string) string { return magic + string([]byte{byte(len(text)), 0, 0, 0}) + text + "runtime" }
	for name, files := range map[string][2]string{
		"another file":       {"something else altogether", ""},
		"no header":          {magic, ""},
		"cut off":            {magic + "\xff\xff\x00\x00{}", ""},
		"no genesis":         {header(`{"slot":1}`), ""},
		"history cut off":    {header(`{"genesisHash":"g","slot":1,"logLength":5}`), "{}\n"},
		"half a transaction": {header(`{"genesisHash":"g","slot":1,"logLength":4}`), "{}\n{}\n"},
	} {
		from, to := t.TempDir(), t.TempDir()
		for i, file := range []string{"state", "transactions"} {
			must(t, os.WriteFile(filepath.Join(from, file), []byte(files[i]), 0o600))
		}
		if err := localchain.Copy(from, to); !errors.Is(err, localchain.ErrState) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(to, "state")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s left a state: %v", name, err)
		}
	}
}

// TestAShortWriteIsContinued: where a call writes only a part, as on a disk that fills up, the
// saved state is whole all the same.
func TestAShortWriteIsContinued(t *testing.T) {
	t.Parallel()
	program, err := node.Program(t.Context(), npm.CacheFolder(), nil)
	must(t, err)
	store, err := filepath.Abs("server/store.js")
	must(t, err)
	const script = `
const fs = require('node:fs');
const all = fs.writeSync;
fs.writeSync = (fd, bytes, offset = 0, length = bytes.length - offset, at = null) => all(fd, bytes, offset, Math.min(length, 1000), at);
const { Store } = require(process.argv[1]);
const store = new Store(process.argv[2]);
for (const text of ['a', 'b']) store.append({ text: text.repeat(3000) });
store.save({ genesisHash: 'g' }, Buffer.alloc(5000, 7));
const { header, runtime, records } = new Store(process.argv[2]).load();
console.log(header.genesisHash, runtime.length, [...records].map(({ record }) => record.text.length).join());`
	out, err := exec.Command(program, "-e", script, store, t.TempDir()).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "g 5000 3000,3000" {
		t.Errorf("%s, %v", got, err)
	}
}
