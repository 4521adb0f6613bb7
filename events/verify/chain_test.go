package verify

import (
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mr-tron/base58"
)

// nodeSays is the set of answers of a node.
type nodeSays struct {
	genesis string
	at      string // address of the account
	account *nodeAccount
	tx      *nodeTransaction

	asked sync.Map // requested commitment, by method
}

type nodeAccount struct {
	Owner string   `json:"owner"`
	Data  []string `json:"data"`
}

type nodeTransaction struct {
	Slot        uint64           `json:"slot"`
	Meta        *nodeMeta        `json:"meta"`
	Transaction nodeInstructions `json:"transaction"`
}

type nodeMeta struct {
	Err any `json:"err"`
}

type nodeInstructions struct {
	Message struct {
		AccountKeys  []string          `json:"accountKeys"`
		Instructions []nodeInstruction `json:"instructions"`
	} `json:"message"`
}

type nodeInstruction struct {
	Program  int    `json:"programIdIndex"`
	Accounts []int  `json:"accounts"`
	Data     string `json:"data"`
}

// holding is an account of the program that holds a commitment.
func holding(c Account) *nodeAccount {
	return &nodeAccount{programID, []string{base64.StdEncoding.EncodeToString(c.Encode()), "base64"}}
}

// committedAccount returns the vectors' account when their commit was its newest.
func committedAccount() Account {
	return Account{
		Authority: filled(0x21), Owner: filled(0x41), Size: committedSize,
		Root: good().Anchor.CommittedRoot, Slot: slot, Count: 1,
	}
}

// truth returns a chain that holds the vectors' commitment. If size is larger, the
// account has moved on. If size is 0, the account does not exist.
func truth(size uint64) *nodeSays {
	held := committedAccount()
	if size != committedSize {
		held.Size, held.Root, held.Slot = size, [32]byte{1}, slot+100
	}
	says := &nodeSays{genesis: genesis, at: account(), tx: &nodeTransaction{Slot: slot, Meta: &nodeMeta{}}}
	if size > 0 {
		says.account = holding(held)
	}
	message := &says.tx.Transaction.Message
	message.AccountKeys = []string{authority, account(), programID}
	message.Instructions = []nodeInstruction{{2, []int{0, 1}, commitOf(committedAccount())}}
	return says
}

// commitOf returns the data of the instruction that writes an account.
func commitOf(a Account) string {
	return base58.Encode(Commit{Owner: a.Owner, Size: a.Size, Root: a.Root}.Encode())
}

// node serves the chain of truth.
func node(t *testing.T, size uint64) string { return truth(size).serve(t) }

func (n *nodeSays) serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var call struct {
			Method string
			Params []any
		}
		_ = stdjson.NewDecoder(q.Body).Decode(&call)
		if len(call.Params) == 2 {
			n.asked.Store(call.Method, call.Params[1].(map[string]any)["commitment"])
		}
		var result any
		switch call.Method {
		case "getGenesisHash":
			result = n.genesis
		case "getAccountInfo":
			value := n.account
			if call.Params[0] != n.at {
				value = nil
			}
			result = map[string]any{"value": value}
		case "getTransaction":
			if version := call.Params[1].(map[string]any)["maxSupportedTransactionVersion"]; version != 1.0 {
				t.Errorf("transactions up to version %v are asked for: a node does not show those of version 1", version)
			}
			if call.Params[0] == signature {
				result = n.tx
			}
		}
		_ = stdjson.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestWhatTheChainSays: each case changes one thing on the chain, and a check of a
// good receipt finds that change.
func TestWhatTheChainSays(t *testing.T) {
	t.Parallel()
	somebody := filled(0x42)
	somebodys := CommitmentAddress(programID, authority, base58.Encode(of(somebody)))
	message := func(n *nodeSays) *nodeInstruction { return &n.tx.Transaction.Message.Instructions[0] }
	for name, c := range map[string]struct {
		change func(*nodeSays, *Receipt)
		want   string
	}{
		"all that the receipt says": {func(*nodeSays, *Receipt) {}, ""},
		"another instruction before it": {func(n *nodeSays, _ *Receipt) {
			list := &n.tx.Transaction.Message.Instructions
			*list = append([]nodeInstruction{{0, nil, ""}, {7, []int{9, -1}, ""}}, *list...)
		}, ""},
		"the account of somebody else's log": {func(n *nodeSays, r *Receipt) {
			held := committedAccount()
			held.Owner = somebody
			n.at = somebodys
			n.account, r.Anchor.Account = holding(held), n.at
		}, "anchor.account: " + somebodys + " commits to the log of"},
		"an account at another place": {func(n *nodeSays, r *Receipt) {
			n.at = base58.Encode(of(somebody))
			n.tx.Transaction.Message.AccountKeys[1], r.Anchor.Account = n.at, n.at
		}, "anchor.account: the program keeps this owner's commitment at " + account()},
		"the account of another authority at this one's place": {func(n *nodeSays, _ *Receipt) {
			held := committedAccount()
			held.Authority = somebody
			n.account = holding(held)
		}, "anchor.account: the program keeps this owner's commitment at"},
		"an account with other magic": {func(n *nodeSays, _ *Receipt) {
			data := committedAccount().Encode()
			data[7]++
			n.account.Data[0] = base64.StdEncoding.EncodeToString(data)
		}, "anchor.account: " + account() + " holds no commitment"},
		"a longer account": {func(n *nodeSays, _ *Receipt) {
			n.account.Data[0] = base64.StdEncoding.EncodeToString(append(committedAccount().Encode(), 0))
		}, "anchor.account: " + account() + " holds no commitment"},
		"another root": {func(n *nodeSays, _ *Receipt) {
			held := committedAccount()
			held.Root[0]++
			n.account = holding(held)
		}, "anchor.committedRoot:"},
		"an account that was written in another slot": {func(n *nodeSays, _ *Receipt) {
			held := committedAccount()
			held.Slot++
			n.account = holding(held)
		}, "anchor.slot: it is 4242, the account"},
		"no such transaction":                  {func(n *nodeSays, _ *Receipt) { n.tx = nil }, "anchor.txSignature: the node knows no such"},
		"a transaction whose fate is not said": {func(n *nodeSays, _ *Receipt) { n.tx.Meta = nil }, "anchor.txSignature: the node knows no such"},
		"a transaction that failed":            {func(n *nodeSays, _ *Receipt) { n.tx.Meta.Err = "InstructionError" }, "anchor.txSignature: that transaction failed"},
		"a transaction in another slot":        {func(n *nodeSays, _ *Receipt) { n.tx.Slot++ }, "anchor.slot: it is 4242, the transaction"},
		"a commit of another root": {func(n *nodeSays, _ *Receipt) {
			other := committedAccount()
			other.Root[0]++
			message(n).Data = commitOf(other)
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit of another size": {func(n *nodeSays, _ *Receipt) {
			other := committedAccount()
			other.Size++
			message(n).Data = commitOf(other)
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit of somebody else's log": {func(n *nodeSays, _ *Receipt) {
			other := committedAccount()
			other.Owner = somebody
			message(n).Data = commitOf(other)
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit by another program": {func(n *nodeSays, _ *Receipt) {
			n.tx.Transaction.Message.AccountKeys[2] = base58.Encode(of(somebody))
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit to another account": {func(n *nodeSays, _ *Receipt) {
			n.tx.Transaction.Message.AccountKeys[1] = base58.Encode(of(somebody))
		}, "anchor.txSignature: that transaction does not commit"},
		"a commit without accounts": {func(n *nodeSays, _ *Receipt) { message(n).Accounts = nil }, "anchor.txSignature: that transaction does not commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says, r := truth(committedSize), good()
			c.change(says, r)
			_, err := r.VerifyOnchain(t.Context(), says.serve(t))
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrChain) || !strings.Contains(err.Error(), "the issuer lies: "+c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			// State that is not final yet may still be rolled back.
			if is, _ := says.asked.Load("getAccountInfo"); is != "finalized" {
				t.Errorf("the account is asked for as it is %v", is)
			}
			if is, _ := says.asked.Load("getTransaction"); is != nil && is != "confirmed" {
				t.Errorf("the transaction is asked for as it is %v", is)
			}
		})
	}
}

func TestChainUnreachable(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<html>", "{}", `{"result":1}`, `{"result":null}`, `{"error":{"message":"busy"}}`} {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		if _, err := good().VerifyOnchain(t.Context(), node.URL+"/secret"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", body, err)
		}
		node.Close()
		if _, err := good().VerifyOnchain(t.Context(), node.URL+"/secret"); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("closed: %v", err)
		}
	}
}

// An answer that does not say whether there is an account, or holds it as it was before the
// anchor, is no answer: it must not make the receipt a lie.
func TestAnswersWithoutTheAccount(t *testing.T) {
	t.Parallel()
	older := committedAccount()
	older.Size--
	held, err := stdjson.Marshal(holding(older))
	noErr(t, err)
	for result, want := range map[string]error{
		`null`: ErrUnreachable, `{}`: ErrUnreachable, `{"context":{"slot":1}}`: ErrUnreachable,
		`{"context":{"slot":4241},"value":null}`: ErrUnreachable, `{"context":{"slot":4241},"value":` + string(held) + `}`: ErrUnreachable,
		`{"context":{"slot":4242},"value":null}`: ErrChain, `{"context":{"slot":4242},"value":` + string(held) + `}`: ErrChain,
	} {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			var call struct{ Method string }
			_ = stdjson.NewDecoder(q.Body).Decode(&call)
			if call.Method == "getGenesisHash" {
				_, _ = io.WriteString(w, `{"result":"`+genesis+`"}`)
				return
			}
			_, _ = io.WriteString(w, `{"result":`+result+`}`)
		}))
		if _, err := good().VerifyOnchain(t.Context(), node.URL); !errors.Is(err, want) {
			t.Errorf("%s: %v", result, err)
		}
		node.Close()
	}
}

// A receipt that another authority anchored, or that is anchored in another program, is
// valid in itself and on the chain. VerifyIssuer with the expected issuer refuses it.
func TestVerifyIssuer(t *testing.T) {
	t.Parallel()
	anchored := func(to, by string) *Receipt {
		r := good()
		r.Anchor.ProgramID, r.Anchor.Account = to, CommitmentAddress(to, by, owner)
		noErr(t, r.Verify())
		return r
	}
	theirs, stranger := base58.Encode(of(filled(0x71))), base58.Encode(of(filled(0x51)))
	service := Issuer{ProgramID: programID, Authority: authority}
	waiting := good()
	waiting.Anchor = nil
	for name, c := range map[string]struct {
		receipt *Receipt
		by      Issuer
		want    error
		field   string
	}{
		"the service's":             {anchored(programID, authority), service, nil, ""},
		"anybody's":                 {anchored(theirs, stranger), Issuer{}, nil, ""},
		"another authority":         {anchored(programID, stranger), service, ErrChain, "anchor.account"},
		"another program":           {anchored(theirs, authority), service, ErrChain, "anchor.programId"},
		"the program alone":         {anchored(theirs, authority), Issuer{ProgramID: programID}, ErrChain, "anchor.programId"},
		"the authority alone":       {anchored(theirs, authority), Issuer{Authority: authority}, ErrIssuer, ""},
		"not anchored":              {waiting, service, ErrNotAnchored, ""},
		"not anchored, nobody's":    {waiting, Issuer{}, nil, ""},
		"an authority that is none": {anchored(programID, authority), Issuer{programID, "l0O"}, ErrIssuer, ""},
		"a program that is none":    {anchored(programID, authority), Issuer{ProgramID: signature}, ErrIssuer, ""},
	} {
		err := c.receipt.VerifyIssuer(c.by)
		var v *Error
		if !errors.Is(err, c.want) || errors.As(err, &v) != (c.field != "") || v != nil && v.Field != c.field {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
