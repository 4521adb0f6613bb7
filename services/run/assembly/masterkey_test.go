package assembly_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest/devicetest"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestALostKeyIsNotReplaced: a run whose master key is lost does not start, and makes no
// secrets that a restore of the right ones would refuse to replace.
func TestALostKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startRun(t, dir, "LOCAL_CHAIN=off")
	first.write(first.core.SignIn(stacktest.NewWallet()), "text")
	first.stop()
	secrets := filepath.Join(dir, "secrets")
	must(t, os.RemoveAll(secrets))
	cfg, err := config.Load([]string{"LEDGER_DATA_DIR=" + dir, "DATABASE_URL=" + pgtest.Database(t), "CORE_ADDR=127.0.0.1:0", "EXTENSION_ADDR=127.0.0.1:0", "LOCAL_CHAIN=off"})
	must(t, err)
	said := console{slog.New(slog.DiscardHandler), make(chan struct{})}
	if err := assembly.RunLocal(t.Context(), cfg, said); err == nil || !strings.Contains(err.Error(), "data keys need master key") {
		t.Error(err)
	}
	if made, err := os.ReadDir(secrets); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v", made, err)
	}
}

// TestARunWithoutItsDevice: without the device of the master key, an owner whose keys are in
// memory goes on. Others get 503, which they get only as long as the device is away.
func TestARunWithoutItsDevice(t *testing.T) {
	t.Parallel()
	dir, socket := t.TempDir(), devicetest.Socket(t)
	stop := devicetest.Start(t, socket, keystore.MasterKey{7})
	here, away := stacktest.NewWallet(), stacktest.NewWallet()
	first := startRun(t, dir, "LOCAL_CHAIN=off", "MASTER_KEY=unix:"+socket)
	for _, wallet := range []stacktest.Wallet{here, away} {
		first.write(first.core.SignIn(wallet), "text")
	}
	first.stop()

	run := startRun(t, dir, "LOCAL_CHAIN=off", "MASTER_KEY=unix:"+socket)
	session, other := run.core.SignIn(here), run.core.SignIn(away)
	run.core.Expect(200, "GET", "/memories", nil, session)
	stop()
	run.write(session, "another text")
	run.core.Expect(200, "GET", "/memories", nil, session)
	busy := run.core.Expect(503, "GET", "/memories", nil, other)
	if busy.Header.Get("Retry-After") == "" {
		t.Errorf("%v", busy.Header)
	}
	devicetest.Start(t, socket, keystore.MasterKey{7})
	run.core.Expect(200, "GET", "/memories", nil, other)
}

// TestNoKeyOfTheEndpointInErrors: providers put their API key into the URL, and the
// errors of failed checks are printed.
func TestNoKeyOfTheEndpointInErrors(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close() // nothing answers at its address now
	for _, url := range []string{away.URL + "/s3cr3t?api-key=s3cr3t", "http://h/%s3cr3t"} {
		anybody := solana.SystemProgramID.String()
		chain, err := assembly.NewOnchain(config.Config{SolanaRPCURL: url, CommitmentProgramID: anybody}, anybody)
		if err == nil {
			_, _, err = chain.Commitments(t.Context(), []events.Owner{events.Owner(anybody)})
		}
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
}
