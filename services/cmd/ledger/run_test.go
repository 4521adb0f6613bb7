package main

import (
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

// The sign-in message names the chain: the local chain, if there is one and no setting
// says otherwise.
func TestChainOfALocalRun(t *testing.T) {
	t.Parallel()
	for want, environs := range map[string][][]string{
		"localnet": {nil, {"SIGN_IN_CHAIN_ID="}, {"LOCAL_CHAIN=on"}},
		"mainnet":  {{"LOCAL_CHAIN=off"}, {"SOLANA_RPC_URL=http://127.0.0.1:1"}, {"SIGN_IN_CHAIN_ID=mainnet"}},
		"devnet":   {{"SIGN_IN_CHAIN_ID=devnet"}},
	} {
		for _, environ := range environs {
			cfg, err := config.Load(localDefaults(environ))
			if err != nil || cfg.SignInChainID != want {
				t.Errorf("%v: %q, %v; want %q", environ, cfg.SignInChainID, err, want)
			}
		}
	}
}
