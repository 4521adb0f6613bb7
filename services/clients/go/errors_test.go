package memoryledger

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
)

// TestErrorsArePrintable: neither a service's message nor a file's text can act on the
// terminal.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	const bad = `\u001b[2J\u009b31m\u202e\r\ngood`
	client, _ := roundTrip(func(int, *http.Request) (*http.Response, error) {
		return answer(http.StatusBadRequest, `{"error": "`+bad+`"}`), nil
	}).client()
	_, refused := New("http://ledger", WithHTTPClient(client), WithoutVerification()).Head(t.Context())
	text, err := os.ReadFile("../../../events/verify/testdata/receipt/good.json")
	noErr(t, err)
	good := string(text)
	_, member := ParseReceipt([]byte(strings.Replace(good, `"version"`, `"`+bad+`": 1, "version"`, 1)))
	_, value := ParseReceipt([]byte(strings.Replace(good, `"version": 1`, `"version": "`+bad+`"`, 1)))
	_, header := ReadExport(strings.NewReader(`{"` + bad + `": 1}` + "\n"))
	for name, err := range map[string]error{"a refusal": refused, "a member": member, "a value": value, "an export": header} {
		if err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, err)
		}
	}
}

// expect checks the kind of an error, and its field if one is given.
func expect(t *testing.T, err error, kind error, field string) {
	t.Helper()
	var v *VerificationError
	if !errors.As(err, &v) || !errors.Is(err, kind) || field != "" && v.Field != field {
		t.Errorf("got %v, want %v of %q", err, kind, field)
	}
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChecksStakingTransactions: the vectors of the service's own transactions are good,
// and each altered one is refused for what is wrong with it.
func TestChecksStakingTransactions(t *testing.T) {
	text, err := os.ReadFile("../../../anchoring/staking/testdata/transactions.json")
	noErr(t, err)
	var file struct {
		Program, Mint, Owner string
		Transactions         []struct {
			Name, Transaction, Wrong string
			Kind                     StakeMove
			Amount                   uint64 `json:",string"`
		}
	}
	noErr(t, json.Unmarshal(text, &file))
	if len(file.Transactions) < 20 {
		t.Fatalf("%d vectors", len(file.Transactions))
	}
	program := StakingProgram{file.Program, file.Mint}
	for _, v := range file.Transactions {
		if err := program.CheckTransaction(v.Transaction, file.Owner, v.Kind, v.Amount); v.Wrong != "" {
			expect(t, err, ErrTransaction, v.Wrong)
		} else if err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	for _, p := range []StakingProgram{{}, {"x", file.Mint}, {file.Program, file.Owner}, {file.Owner, file.Mint}} {
		if err := p.CheckTransaction(file.Transactions[0].Transaction, file.Owner, MoveStake, file.Transactions[0].Amount); !errors.Is(err, ErrTransaction) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
