package assembly_test

import (
	"testing"

	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest/devicetest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

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
