package deployed_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// deposits returns the source of each deposit that the log holds, by signature.
func (d *deployment) deposits() map[string]string {
	d.t.Helper()
	sources := map[string]string{}
	d.events(func(e *events.Event) {
		if data, ok := e.Data.(*events.StakeDeposited); ok {
			sources[data.Signature] += e.Source
		}
	})
	return sources
}

// TestStakesWithRolesApart: staking is on, and no role may append another role's facts. A
// wallet stakes through the core API, which shows the chain's state and records nothing.
// When an anchorer runs, it records the deposit once. Not parallel, because it starts
// many processes.
func TestStakesWithRolesApart(t *testing.T) {
	y := stacktest.NewTreasury(t, solana.TokenProgramID)
	d := deploy(t)
	d.projector()
	environ := []string{"STAKE_MINT=" + y.Mint.String(), "STAKING_PROGRAM_ID=" + program.LocalID.String()}
	server, core := d.api("core-api", append(environ, "SOLANA_RPC_URL="+y.URL())...)
	wallet := stacktest.NewWallet()
	session := core.SignIn(wallet)
	key := solana.MustPublicKeyFromBase58(wallet.PublicKey)
	y.FundWallet(key)
	y.Give(key, 1000)

	answer := core.Expect(200, "POST", "/staking/stake", map[string]any{"amount": "600"}, session)
	raw, err := base64.StdEncoding.DecodeString(answer.Text("transaction"))
	y.Must(err)
	tx, err := solana.TransactionFromBytes(raw)
	y.Must(err)
	signature := y.LandFor(wallet, tx)
	staked := func() {
		t.Helper()
		if status := core.Expect(200, "GET", "/staking/status", nil, session); status.Text("staked") != "600" || status.Text("walletBalance") != "400" {
			t.Errorf("%s\n%s", status.Body, server.log)
		}
	}
	staked()
	if recorded := d.deposits(); len(recorded) != 0 {
		t.Errorf("the core API recorded %v", recorded)
	}

	// The anchorer checks every vault when it starts, and again a minute later. It
	// ignores a deposit that is not final yet.
	y.Finalize(signature)
	authority := stacktest.KeypairFile(y.T, y.Key)
	anchorer := d.anchorer(y.URL(), authority, environ...)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(60 * time.Second); d.deposits()[signature] == ""; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("the deposit is not recorded\n%s", anchorer.log)
		}
	}
	anchorer.Kill()
	anchorer.start()
	id := core.Expect(201, "POST", "/memories", map[string]any{"content": "beside the stake"}, session).Text("id")
	awaitAnchored(t, core, session, id, anchorer.log)
	if recorded := d.deposits(); len(recorded) != 1 || recorded[signature] != "/anchorer" {
		t.Errorf("recorded: %v, want %s by the anchorer alone", recorded, signature)
	}
	staked()
}
