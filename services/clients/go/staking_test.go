package memoryledger

import (
	"errors"
	"os"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestChecksStakingTransactions: the vectors of the service's own transactions are good,
// and each altered one is refused for what is wrong with it.
func TestChecksStakingTransactions(t *testing.T) {
	text, err := os.ReadFile("../../../anchoring/staking/testdata/transactions.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Program, Mint, Owner string
		Transactions         []struct {
			Name, Transaction, Wrong string
			Kind                     StakeMove
			Amount                   uint64 `json:",string"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Transactions) < 20 {
		t.Fatalf("%d vectors", len(file.Transactions))
	}
	program := StakingProgram{file.Program, file.Mint}
	for _, v := range file.Transactions {
		err := program.CheckTransaction(v.Transaction, file.Owner, v.Kind, v.Amount)
		var wrong *VerificationError
		switch {
		case v.Wrong == "" && err != nil:
			t.Errorf("%s: %v", v.Name, err)
		case v.Wrong != "" && (!errors.Is(err, ErrTransaction) || !errors.As(err, &wrong) || wrong.Field != v.Wrong):
			t.Errorf("%s: %v, want %s", v.Name, err, v.Wrong)
		}
	}
	for _, p := range []StakingProgram{{}, {"x", file.Mint}, {file.Program, file.Owner}, {file.Owner, file.Mint}} {
		if err := p.CheckTransaction(file.Transactions[0].Transaction, file.Owner, MoveStake, file.Transactions[0].Amount); !errors.Is(err, ErrTransaction) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
