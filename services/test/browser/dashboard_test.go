package browser

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// owner is the input of the dashboard's driver.
type owner struct {
	Core        string `json:"core"`
	Other       string `json:"other"` // the second replica of the core API
	Extension   string `json:"extension"`
	Inspector   string `json:"inspector"` // of core, as a client of the Model Context Protocol
	RPC         string `json:"rpc"`
	Chromium    string `json:"chromium"`
	Firefox     string `json:"firefox"`
	Modules     string `json:"modules"`
	Screenshots string `json:"screenshots"`
	Pictures    string `json:"pictures"` // the folder of the documents' pictures
	Only        string `json:"only"`
	Many        int    `json:"many"`   // memories of the largest owner
	Staker      []byte `json:"staker"` // the key, PKCS #8, of a wallet with tokens
}

// TestDashboard visits the dashboard of a running product with a chain, as an owner. Each
// scenario uses its own wallet.
func TestDashboard(t *testing.T) {
	slow(t) // starts a browser
	o := owner{
		Chromium: chromium(t, windowless), Modules: modules(t), Many: 100_000,
		Screenshots: os.Getenv("LEDGER_SCREENSHOTS"), Only: os.Getenv("LEDGER_SCENARIOS"),
	}
	o.on(t)
	o.Inspector = inspector(t, o.Core+"/mcp")
	told, err := json.Marshal(o)
	must(t, err)
	report(t, play(t, "dashboard.mjs", told))
}

// TestDashboardInFirefox is the main path: sign in, write, verify, end sessions.
func TestDashboardInFirefox(t *testing.T) {
	slow(t) // starts a browser
	t.Parallel()
	o := owner{Firefox: firefox(t), Modules: modules(t)}
	o.on(t)
	told, err := json.Marshal(o)
	must(t, err)
	runNode(t, []string{"BROWSER_TEST=" + string(told)}, "node", filepath.Join("testdata", "driver", "firefox-dashboard.mjs"))
}

// on runs the product with a chain, and sets the URLs for the driver.
func (o *owner) on(t *testing.T) {
	t.Helper()
	chain, authority := stacktest.Chain(t, 100*time.Millisecond)
	treasury, staker := stacktest.TreasuryOn(t, chain, solana.TokenProgramID), stacktest.NewKey(t)
	treasury.FundWallet(staker.PublicKey())
	treasury.Give(staker.PublicKey(), 1000_500_000)
	var err error
	o.Staker, err = x509.MarshalPKCS8PrivateKey(ed25519.PrivateKey(staker))
	treasury.Must(err)
	s := stacktest.Start(t, stacktest.Options{Core: 2, Configure: func(c *config.Config) {
		c.SolanaRPCURL, c.AuthorityKeypair, c.CommitmentProgramID = chain.URL(), authority, program.LocalID.String()
		c.DashboardRPCURL, c.AnchorMaxWait = chain.URL(), time.Second
		c.StakeMint, c.StakingProgramID, c.MinPartialUnstake = treasury.Mint.String(), program.LocalID.String(), 10_000_000
	}})
	o.Core, o.Other, o.Extension, o.RPC = s.Core[0].URL, s.Core[1].URL, s.Extension[0].URL, chain.URL()
}
