package staking_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/staking"
)

// A transaction that moved nothing is read once. There are two exceptions. One that was
// not final may land again with a different effect. A node that omitted the balances has
// not reported that nothing moved.
func TestWhatMovedNothingMayMoveYet(t *testing.T) {
	t.Parallel()
	signature := base58.Encode(make([]byte, 64))
	known := func(string) bool { return false }
	landed := func(balances string) string {
		return fmt.Sprintf(`{"slot":5,"blockTime":7,"transaction":{"message":{"accountKeys":[%q]}},"meta":{"err":null%s}}`, mustVault(t), balances)
	}
	deposit := fmt.Sprintf(`,"preTokenBalances":[],"postTokenBalances":[{"accountIndex":0,"mint":%q,"uiTokenAmount":{"amount":"4"}}]`, mintID)
	for name, c := range map[string]struct {
		first string
		level chain.Commitment
		err   error
	}{
		"on a fork":             {`,"preTokenBalances":[],"postTokenBalances":[]`, chain.Confirmed, nil},
		"balances left out":     {"", chain.Finalized, staking.ErrUnreadable},
		"those before left out": {`,"postTokenBalances":[]`, chain.Finalized, staking.ErrUnreadable},
	} {
		n := node{
			"getSignaturesForAddress": fmt.Sprintf(`[{"signature":%q,"slot":5,"err":null}]`, signature),
			"getTransaction":          landed(c.first),
		}
		onchain := onchain(t, n)
		vault, err := onchain.VaultOf(owner)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := onchain.History(t.Context(), vault, "", 9, c.level, known); !errors.Is(err, c.err) || len(h.Movements) > 0 {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		n["getTransaction"] = landed(deposit)
		h, err := onchain.History(t.Context(), vault, "", 9, chain.Finalized, known)
		if err != nil || len(h.Movements) != 1 || h.Movements[0].Amount != 4 {
			t.Errorf("%s, then a deposit: %+v, %v", name, h, err)
		}
	}
}

func mustVault(t *testing.T) string {
	t.Helper()
	vault, err := staking.NewChain(nil, programID, mintID).VaultOf(owner)
	if err != nil {
		t.Fatal(err)
	}
	return vault.String()
}
