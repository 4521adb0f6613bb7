package staking_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/events"
)

// node is a JSON-RPC endpoint with preset results.
type node map[string]string // method -> result, or "error: ..."

func (n node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct{ Method string }
	_ = json.NewDecoder(r.Body).Decode(&call)
	result, known := n[call.Method]
	if message, failed := strings.CutPrefix(result, "error: "); failed || !known {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":%q}}`, message)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
}

var (
	programID = solana.PublicKey{31: 7}
	mintID    = solana.PublicKey{31: 8}
	wallet    = solana.PublicKey{31: 9}
	owner     = events.OwnerFromBytes(wallet)
)

// onchain returns a Chain whose node is n. n may hang up on a client.
func onchain(t *testing.T, n http.Handler) *staking.Chain {
	t.Helper()
	server := httptest.NewUnstartedServer(n)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	client, err := chain.New(server.URL)
	must(t, err)
	t.Cleanup(client.Close)
	return staking.NewChain(client, programID, mintID)
}

func accountsOf(accounts ...string) string {
	return `{"context":{"slot":1},"value":[` + strings.Join(accounts, ",") + `]}`
}

func account(owner solana.PublicKey, data []byte) string {
	return fmt.Sprintf(`{"owner":%q,"lamports":1,"data":[%q,"base64"]}`, owner, base64.StdEncoding.EncodeToString(data))
}

func mintData() []byte {
	data := make([]byte, 82)
	data[44], data[45] = 9, 1
	return data
}

func tokenData(mint solana.PublicKey, amount uint64) []byte {
	data := make([]byte, 165)
	copy(data, append(mint[:], wallet[:]...))
	binary.LittleEndian.PutUint64(data[64:], amount)
	data[108] = 1
	return data
}

func TestCheck(t *testing.T) {
	t.Parallel()
	program := account(solana.PublicKey{31: 1}, nil)
	for name, test := range map[string]struct {
		accounts string
		want     error
	}{
		"good":               {accountsOf(account(solana.TokenProgramID, mintData()), program), nil},
		"token-2022":         {accountsOf(account(solana.Token2022ProgramID, mintData()), program), staking.ErrToken2022},
		"no mint":            {accountsOf("null", program), staking.ErrNotMint},
		"a wallet":           {accountsOf(account(solana.SystemProgramID, nil), program), staking.ErrNotMint},
		"a token account":    {accountsOf(account(solana.TokenProgramID, tokenData(mintID, 1)), program), staking.ErrNotMint},
		"a mint not ready":   {accountsOf(account(solana.TokenProgramID, make([]byte, 82)), program), staking.ErrNotMint},
		"no program":         {accountsOf(account(solana.TokenProgramID, mintData()), "null"), staking.ErrNoProgram},
		"too few accounts":   {accountsOf(account(solana.TokenProgramID, mintData())), staking.ErrUnreadable},
		"an error":           {"error: busy", staking.ErrUnreadable},
		"something else":     {`"hello"`, staking.ErrUnreadable},
		"data not in base64": {accountsOf(`{"owner":"11111111111111111111111111111111","lamports":1,"data":["?","base64"]}`, program), staking.ErrUnreadable},
	} {
		err := onchain(t, node{"getMultipleAccounts": test.accounts}).Check(t.Context())
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestHoldings(t *testing.T) {
	t.Parallel()
	mint := account(solana.TokenProgramID, mintData())
	tokens := func(amount uint64) string { return account(solana.TokenProgramID, tokenData(mintID, amount)) }
	prefunded := account(solana.SystemProgramID, nil)
	given := tokenData(mintID, 7)
	given[32] = 1 // another wallet's
	for name, test := range map[string]struct {
		vault, wallet string
		staked, held  uint64
	}{
		"nothing yet":          {"null", "null", 0, 0},
		"lamports but nothing": {prefunded, prefunded, 0, 0},
		"both":                 {tokens(5), tokens(1<<64 - 1), 5, 1<<64 - 1},
		"empty accounts":       {tokens(0), tokens(0), 0, 0},
		"given away":           {tokens(5), account(solana.TokenProgramID, given), 5, 0},
	} {
		h, err := onchain(t, node{"getMultipleAccounts": accountsOf(mint, test.vault, test.wallet)}).Holdings(t.Context(), owner)
		if err != nil || h.Staked != test.staked || h.WalletBalance != test.held || h.Decimals != 9 {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	for name, vault := range map[string]string{
		"another program's": account(programID, tokenData(mintID, 5)),
		"token-2022's":      account(solana.Token2022ProgramID, tokenData(mintID, 5)),
		"another mint's":    account(solana.TokenProgramID, tokenData(programID, 5)),
		"cut short":         account(solana.TokenProgramID, tokenData(mintID, 5)[:164]),
		"not initialised":   account(solana.TokenProgramID, append(tokenData(mintID, 5)[:108], make([]byte, 57)...)),
		"system with data":  account(solana.SystemProgramID, []byte{1}),
	} {
		for _, accounts := range []string{accountsOf(mint, vault, "null"), accountsOf(mint, "null", vault)} {
			if h, err := onchain(t, node{"getMultipleAccounts": accounts}).Holdings(t.Context(), owner); !errors.Is(err, staking.ErrUnreadable) {
				t.Errorf("%s: %+v, %v", name, h, err)
			}
		}
	}
}

// TestHistoryBelievesOnlyWhatIsWhole: a partial answer is an error, not a history.
func TestHistoryBelievesOnlyWhatIsWhole(t *testing.T) {
	t.Parallel()
	signature := solana.Signature{1}.String()
	c := onchain(t, node{})
	vault := c.VaultOf(owner)
	listed := fmt.Sprintf(`[{"signature":%q,"slot":5,"err":null}]`, signature)
	balances := func(amount string) string {
		return fmt.Sprintf(`[{"accountIndex":1,"mint":%q,"uiTokenAmount":{"amount":%q}}]`, mintID, amount)
	}
	transaction := func(err, pre, post string) string {
		return fmt.Sprintf(`{"slot":5,"blockTime":100,"transaction":{"message":{"accountKeys":["x"]}},
			"meta":{"err":%s,"preTokenBalances":%s,"postTokenBalances":%s,"loadedAddresses":{"writable":[%q],"readonly":[]}}}`, err, pre, post, vault)
	}
	for name, test := range map[string]struct {
		n     node
		moved int64
		want  error
	}{
		"a deposit that makes the vault": {node{"getTransaction": transaction("null", "[]", balances("7"))}, 7, nil},
		"a withdrawal":                   {node{"getTransaction": transaction("null", balances("9"), balances("2"))}, -7, nil},
		"a mention":                      {node{"getTransaction": transaction("null", balances("9"), balances("9"))}, 0, nil},
		"tokens of another mint":         {node{"getTransaction": transaction("null", "[]", strings.Replace(balances("7"), mintID.String(), programID.String(), 1))}, 0, nil},
		"tokens of another account":      {node{"getTransaction": transaction("null", "[]", strings.Replace(balances("7"), ":1,", ":0,", 1))}, 0, nil},
		"a failure":                      {node{"getTransaction": transaction(`{"x":1}`, "[]", balances("7"))}, 0, nil},
		"not there yet":                  {node{"getTransaction": "null"}, 0, staking.ErrUnreadable},
		"without its effects":            {node{"getTransaction": `{"slot":5,"blockTime":1,"transaction":{},"meta":null}`}, 0, staking.ErrUnreadable},
		"without its time":               {node{"getTransaction": `{"slot":5,"blockTime":null,"transaction":{},"meta":{}}`}, 0, staking.ErrUnreadable},
		"an amount that is none":         {node{"getTransaction": transaction("null", "[]", balances("-1"))}, 0, staking.ErrUnreadable},
		"an account that is none":        {node{"getTransaction": transaction("null", "[]", strings.Replace(balances("1"), ":1,", ":2,", 1))}, 0, staking.ErrUnreadable},
		"an error":                       {node{"getTransaction": "error: pruned"}, 0, staking.ErrUnreadable},
		"no list":                        {node{"getSignaturesForAddress": "null", "getTransaction": "null"}, 0, staking.ErrUnreadable},
		"a list that is none":            {node{"getSignaturesForAddress": `[{"signature":"no","slot":1}]`}, 0, staking.ErrUnreadable},
	} {
		if test.n["getSignaturesForAddress"] == "" {
			test.n["getSignaturesForAddress"] = listed
		}
		h, err := onchain(t, test.n).History(t.Context(), vault, "", 10, chain.Confirmed, func(string) bool { return false })
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var moved int64
		for _, m := range h.Movements {
			moved += int64(m.Amount)
			if !m.Deposit {
				moved -= 2 * int64(m.Amount)
			}
		}
		if moved != test.moved {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// TestALongHistoryComesOldestFirst: the next look continues after the youngest recorded
// transaction. So the transactions that one look leaves out must be younger. That holds
// where the node refuses the rest, too, and what it gave before counts: a look that begins
// at the same transaction would end at the same one, forever.
func TestALongHistoryComesOldestFirst(t *testing.T) {
	t.Parallel()
	vault := onchain(t, node{}).VaultOf(owner)
	signature := func(i int) string { return solana.Signature{byte(i)}.String() }
	var listed []string
	for i := 5; i > 0; i-- { // newest first, as a node lists them
		listed = append(listed, fmt.Sprintf(`{"signature":%q,"slot":%d,"err":null}`, signature(i), i))
	}
	n := node{
		"getSignaturesForAddress": "[" + strings.Join(listed, ",") + "]",
		"getTransaction": fmt.Sprintf(`{"slot":5,"blockTime":100,"transaction":{"message":{"accountKeys":[%q]}},"meta":{"err":null,"preTokenBalances":[],
			"postTokenBalances":[{"accountIndex":0,"mint":%q,"uiTokenAmount":{"amount":"7"}}],"loadedAddresses":{"writable":[],"readonly":[]}}}`, vault, mintID),
	}
	answers := 0 // until the node refuses calls
	c := onchain(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers--; answers < 0 {
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		n.ServeHTTP(w, r)
	}))
	for _, test := range []struct{ limit, answers, movements int }{{2, 9, 2}, {4, 9, 4}, {5, 9, 5}, {6, 9, 5}, {5, 4, 3}, {4, 2, 1}} {
		answers = test.answers
		limit, whole := test.limit, test.movements == 5
		h, err := c.History(t.Context(), vault, "", limit, chain.Finalized, func(string) bool { return false })
		if err != nil || h.Complete != whole || len(h.Movements) != test.movements {
			t.Fatalf("at most %d: %+v, %v", limit, h, err)
		}
		for i, m := range h.Movements {
			if m.Signature != signature(i+1) {
				t.Errorf("at most %d: movement %d is of %s", limit, i, m.Signature)
			}
		}
	}
}

func mustVault(t *testing.T) string {
	t.Helper()
	vault := staking.NewChain(nil, programID, mintID).VaultOf(owner)
	return vault.String()
}
