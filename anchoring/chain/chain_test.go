package chain_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/infra/testkit"
)

// clientOf returns a client of a node.
func clientOf(t *testing.T, node http.HandlerFunc) *chain.Client {
	t.Helper()
	server := httptest.NewServer(node)
	t.Cleanup(server.Close)
	client, err := chain.New(server.URL + "/?api-key=secret")
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

// answering returns a client of a node that gives the same answer to every call.
func answering(t *testing.T, status int, body string) *chain.Client {
	t.Helper()
	return clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// calls are all calls that anchoring makes.
var calls = map[string]func(*testing.T, *chain.Client) error{
	"genesis":   func(t *testing.T, c *chain.Client) error { _, err := c.GenesisHash(t.Context()); return err },
	"blockhash": func(t *testing.T, c *chain.Client) error { _, err := c.LatestBlockhash(t.Context()); return err },
	"height":    func(t *testing.T, c *chain.Client) error { _, err := c.FinalizedHeight(t.Context()); return err },
	"balance": func(t *testing.T, c *chain.Client) error {
		_, err := c.Balance(t.Context(), solana.PublicKey{1})
		return err
	},
	"rent": func(t *testing.T, c *chain.Client) error { _, err := c.Rent(t.Context(), 128); return err },
	"statuses": func(t *testing.T, c *chain.Client) error {
		_, _, err := c.Statuses(t.Context(), []string{"a", "b"}, true)
		return err
	},
	"accounts": func(t *testing.T, c *chain.Client) error {
		_, _, err := c.Accounts(t.Context(), []solana.PublicKey{{1}, {2}}, chain.Finalized)
		return err
	},
	"send": func(t *testing.T, c *chain.Client) error { return c.Send(t.Context(), []byte{1}, true) },
}

// A broken answer must not count as "there is none": the anchorer would sign another
// transaction while the first one can still land.
func TestBrokenAnswersAreNoAnswers(t *testing.T) {
	t.Parallel()
	for what, a := range map[string]struct {
		status int
		body   string
	}{
		"nothing":           {200, ``},
		"not JSON":          {502, `<html>bad gateway</html>`},
		"no result":         {200, `{"jsonrpc":"2.0","id":1}`},
		"result of another": {200, `{"result":true}`},
		"empty value":       {200, `{"result":{"context":{"slot":1},"value":[]}}`},
		"one of two":        {200, `{"result":{"context":{"slot":1},"value":[null]}}`},
		"no context":        {200, `{"result":{"value":[null,null]}}`},
		"empty objects":     {200, `{"result":{"context":{"slot":1},"value":[{},{}]}}`},
		"too long":          {200, `{"result":"` + strings.Repeat("x", 9<<20) + `"}`},
		"too many requests": {429, `{"error":{"code":429,"message":"slow down"}}`},
	} {
		client := answering(t, a.status, a.body)
		for name, call := range calls {
			err := call(t, client)
			if err == nil && name == "send" {
				continue // the content of its answer does not matter
			}
			if err == nil {
				t.Errorf("%s: %s is taken for an answer", name, what)
			} else if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the error gives the URL away: %v", name, err)
			}
		}
	}
	gone, err := chain.New("http://127.0.0.1:1/?api-key=secret")
	testkit.Must(t, err)
	if _, err := gone.GenesisHash(t.Context()); !errors.Is(err, chain.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := chain.New("localhost:8899"); !errors.Is(err, chain.ErrURL) {
		t.Errorf("no URL: %v", err)
	}
}

// The time to decode base58 grows with the square of the length: a key as long as a reply
// may be would keep the anchorer busy for hours, past every deadline.
func TestLongKeysAreNoAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 1<<20)
	for name, body := range map[string]string{
		"genesis":   `{"result":"` + long + `"}`,
		"blockhash": `{"result":{"value":{"blockhash":"` + long + `","lastValidBlockHeight":1}}}`,
		"accounts":  `{"result":{"context":{"slot":1},"value":[{"owner":"` + long + `","data":["","base64"]},null]}}`,
	} {
		begun := time.Now()
		if err := calls[name](t, answering(t, 200, body)); !errors.Is(err, chain.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
	// A key with more behind it is not that key.
	client := answering(t, 200, `{"result":"11111111111111111111111111111112111111111111111111"}`)
	if hash, err := client.GenesisHash(t.Context()); err == nil {
		t.Errorf("the genesis hash is %s", hash)
	}
}

func TestExplicitNulls(t *testing.T) {
	t.Parallel()
	client := answering(t, 200, `{"result":{"context":{"slot":7},"value":[null,null]}}`)
	statuses, slot, err := client.Statuses(t.Context(), []string{"a", "b"}, false)
	if err != nil || slot != 7 || statuses[0] != nil || statuses[1] != nil {
		t.Errorf("statuses %v at %d: %v", statuses, slot, err)
	}
	accounts, slot, err := client.Accounts(t.Context(), []solana.PublicKey{{1}, {2}}, chain.Finalized)
	if err != nil || slot != 7 || accounts[0] != nil || accounts[1] != nil {
		t.Errorf("accounts %v at %d: %v", accounts, slot, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	client := answering(t, 200, `{"error":{"code":-32002,"message":"simulation failed","data":{"err":{"InstructionError":[3,{"Custom":1296826380}]},"logs":["a"]}}}`)
	if err := client.Send(t.Context(), nil, true); !errors.Is(err, program.ErrForks) {
		t.Errorf("got %v", err)
	}
	var rpc *chain.RPCError
	client = answering(t, 200, `{"error":{"code":-32005,"message":"node is behind"}}`)
	if err := client.Send(t.Context(), nil, true); !errors.As(err, &rpc) {
		t.Errorf("got %v", err)
	}
}

// A node refuses to show a transaction of a later version than the call allows.
func TestTransactionsOfVersion1AreRead(t *testing.T) {
	t.Parallel()
	client := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer := `{"error":{"code":-32015,"message":"Transaction version (1) is not supported by the requesting client"}}`
		if strings.Contains(string(body), `"maxSupportedTransactionVersion":1`) {
			answer = `{"result":{"slot":5,"blockTime":1,"meta":{"preTokenBalances":[],"postTokenBalances":[]}}}`
		}
		_, _ = io.WriteString(w, answer)
	})
	if landed, err := client.Transaction(t.Context(), "signature", chain.Finalized); err != nil || landed.Slot != 5 {
		t.Errorf("%+v, %v", landed, err)
	}
}

// A number that the read models can't keep must not get into the log, which can't forget
// it: every projector would stop there for good.
func TestNumbersThatCantBeKeptAreNoAnswers(t *testing.T) {
	t.Parallel()
	const most, signature = "9223372036854775807", "1111111111111111111111111111111111111111111111111111111111111111"
	for n, good := range map[string]bool{most: true, "9223372036854775808": false, "18446744073709551615": false} {
		client := answering(t, 200, `{"result":{"value":{"blockhash":"11111111111111111111111111111111","lastValidBlockHeight":`+n+`}}}`)
		if _, err := client.LatestBlockhash(t.Context()); (err == nil) != good {
			t.Errorf("height %s: %v", n, err)
		}
		client = answering(t, 200, `{"result":{"slot":`+n+`,"blockTime":1,"meta":{"preTokenBalances":[],"postTokenBalances":[]}}}`)
		if _, err := client.Transaction(t.Context(), signature, chain.Finalized); (err == nil) != good {
			t.Errorf("slot %s: %v", n, err)
		}
	}
	client := answering(t, 200, `{"result":{"slot":1,"blockTime":-62150000000,"meta":{"preTokenBalances":[],"postTokenBalances":[]}}}`)
	if got, err := client.Transaction(t.Context(), signature, chain.Finalized); err == nil {
		t.Errorf("a movement of the year 0: %v", got)
	}
}
