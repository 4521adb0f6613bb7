package localchain_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
)

const (
	systemProgram = "11111111111111111111111111111111"
	memoProgram   = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"
)

// wallet is a funded key on a chain.
type wallet struct {
	*testing.T
	*localchain.Chain
	key ed25519.PrivateKey
}

func newWallet(t *testing.T, c *localchain.Chain) *wallet {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Fund(t.Context(), base58.Encode(public), 1_000_000_000); err != nil {
		t.Fatal(err)
	}
	return &wallet{t, c, key}
}

func (w *wallet) public() []byte { return w.key.Public().(ed25519.PublicKey) }

func (w *wallet) address() string { return base58.Encode(w.public()) }

func (w *wallet) blockhash(level map[string]string) string {
	w.Helper()
	return call[valued[struct{ Blockhash string }]](w.T, w.Chain, "getLatestBlockhash", level).Value.Blockhash
}

// instruction is an instruction with one signer and one other writable account.
type instruction struct {
	program string
	to      string
	data    []byte
}

func transfer(to string, lamports uint64) instruction {
	data := binary.LittleEndian.AppendUint32(nil, 2)
	return instruction{systemProgram, to, binary.LittleEndian.AppendUint64(data, lamports)}
}

// sign returns a wire transaction and its signature.
func (w *wallet) sign(in instruction, blockhash string) (tx []byte, signature string) {
	w.Helper()
	message := []byte{1, 0, 1, 3}
	for _, k := range []string{w.address(), in.to, in.program, blockhash} {
		raw, err := base58.Decode(k)
		if err != nil || len(raw) != 32 {
			w.Fatalf("%q is no key", k)
		}
		message = append(message, raw...)
	}
	message = append(message, 1, 2, 2, 0, 1)
	message = append(append(message, compact(len(in.data))...), in.data...)
	sig := ed25519.Sign(w.key, message)
	return append(append([]byte{1}, sig...), message...), base58.Encode(sig)
}

func compact(n int) []byte {
	if n < 0x80 {
		return []byte{byte(n)}
	}
	return []byte{byte(n) | 0x80, byte(n >> 7)}
}

func (w *wallet) send(tx []byte, config map[string]any) (signature string, err error) {
	w.Helper()
	options := map[string]any{"encoding": "base64", "preflightCommitment": "processed"}
	for k, v := range config {
		options[k] = v
	}
	err = w.Call(w.Context(), &signature, "sendTransaction", base64.StdEncoding.EncodeToString(tx), options)
	return signature, err
}

var skipPreflight = map[string]any{"skipPreflight": true}

// landed reports whether the chain knows the signature, and the error it ended with.
func (w *wallet) landed(signature string) (known bool, failure any) {
	w.Helper()
	s := call[valued[[]*struct{ Err any }]](w.T, w.Chain, "getSignatureStatuses", []string{signature}).Value[0]
	if s == nil {
		return false, nil
	}
	return true, s.Err
}

func (w *wallet) mustLand(tx []byte, signature string, config map[string]any) {
	w.Helper()
	got, err := w.send(tx, config)
	if err != nil {
		w.Fatal(err)
	}
	if got != signature {
		w.Fatalf("signature %s, want %s", got, signature)
	}
	if known, failure := w.landed(signature); !known || failure != nil {
		w.Fatalf("landed %v, failed %v", known, failure)
	}
}

// simulationFailed checks the shape of a preflight refusal.
func (w *wallet) simulationFailed(err error, want string) {
	w.Helper()
	rpc := code(w.T, err, -32002)
	var data struct {
		Err  json.RawMessage
		Logs []string
	}
	if jsonErr := json.Unmarshal(rpc.Data, &data); jsonErr != nil || data.Logs == nil {
		w.Fatalf("data %s", rpc.Data)
	}
	if string(data.Err) != want || !strings.HasPrefix(rpc.Message, "Transaction simulation failed: ") {
		w.Fatalf("%q with %s, want %s", rpc.Message, data.Err, want)
	}
}

func (w *wallet) holds() uint64 {
	w.Helper()
	return call[valued[uint64]](w.T, w.Chain, "getBalance", w.address(), processed).Value
}

func TestTransferAndItsRecord(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	w.mustLand(tx, signature, nil)
	type record struct {
		Slot      uint64
		BlockTime int64
		Version   any
		Meta      struct {
			Err                       any
			Fee                       uint64
			PreBalances, PostBalances []uint64
			LogMessages               []string
			ComputeUnitsConsumed      uint64
		}
		Transaction []string
	}
	config := map[string]any{"encoding": "base64", "commitment": "confirmed"}
	if r := call[*record](t, w.Chain, "getTransaction", signature, config); r != nil {
		t.Fatalf("shown as confirmed in the slot that processed it: %+v", r)
	}
	fault(t, w.Chain, localchain.Advance(1))
	r := call[*record](t, w.Chain, "getTransaction", signature, config)
	if r == nil || r.Meta.Err != nil || r.Meta.Fee != 5000 || r.BlockTime == 0 || r.Meta.ComputeUnitsConsumed == 0 {
		t.Fatalf("%+v", r)
	}
	if r.Meta.PreBalances[0]-r.Meta.PostBalances[0] != some+5000 || r.Meta.PostBalances[1]-r.Meta.PreBalances[1] != some {
		t.Fatalf("balances %v to %v", r.Meta.PreBalances, r.Meta.PostBalances)
	}
	if r.Transaction[0] != base64.StdEncoding.EncodeToString(tx) {
		t.Fatal("not the bytes that were sent")
	}
	type entry struct {
		Signature          string
		BlockTime          int64
		ConfirmationStatus string
	}
	list := call[[]entry](t, w.Chain, "getSignaturesForAddress", somebody, confirmed)
	if len(list) != 1 || list[0].Signature != signature || list[0].BlockTime != r.BlockTime || list[0].ConfirmationStatus != "confirmed" {
		t.Fatalf("history %+v", list)
	}
	if _, err := base58.Decode(list[0].Signature); err != nil {
		t.Fatal(err)
	}
}

func TestHistoryPages(t *testing.T) {
	w := newWallet(t, manual(t))
	var sent []string
	for i := range 5 {
		tx, signature := w.sign(transfer(somebody, some+uint64(i)), w.blockhash(processed))
		w.mustLand(tx, signature, nil)
		sent = append([]string{signature}, sent...) // newest first
	}
	fault(t, w.Chain, localchain.Advance(1))
	page := func(config map[string]any) string {
		config["commitment"] = "confirmed"
		var got []string
		for _, e := range call[[]struct{ Signature string }](t, w.Chain, "getSignaturesForAddress", somebody, config) {
			got = append(got, e.Signature)
		}
		return strings.Join(got, " ")
	}
	for name, test := range map[string]struct {
		config map[string]any
		want   []string
	}{
		"all":    {map[string]any{}, sent},
		"limit":  {map[string]any{"limit": 2}, sent[:2]},
		"before": {map[string]any{"before": sent[1], "limit": 2}, sent[2:4]},
		"until":  {map[string]any{"until": sent[3]}, sent[:3]},
	} {
		if got := page(test.config); got != strings.Join(test.want, " ") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestDuplicates(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	w.mustLand(tx, signature, nil)
	before := w.holds()
	_, err := w.send(tx, nil)
	w.simulationFailed(err, `"AlreadyProcessed"`)
	if _, err := w.send(tx, skipPreflight); err != nil {
		t.Fatal(err)
	}
	if w.holds() != before {
		t.Fatal("a duplicate was executed")
	}
	fault(t, w.Chain, localchain.Expire())
	_, err = w.send(tx, nil)
	w.simulationFailed(err, `"BlockhashNotFound"`)
}

func TestExpiredBlockhash(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	fault(t, w.Chain, localchain.Advance(151))
	_, err := w.send(tx, nil)
	w.simulationFailed(err, `"BlockhashNotFound"`)
	if _, err := w.send(tx, skipPreflight); err != nil {
		t.Fatal(err)
	}
	if known, _ := w.landed(signature); known {
		t.Fatal("an expired transaction landed")
	}
}

func TestPreflightKnowsOnlyItsLevelsBlockhashes(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	_, err := w.send(tx, map[string]any{"preflightCommitment": "finalized"})
	w.simulationFailed(err, `"BlockhashNotFound"`)
	w.mustLand(tx, signature, nil)
}

func TestSignaturesAreVerified(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, _ := w.sign(transfer(somebody, some), w.blockhash(processed))
	tx[len(tx)-1] ^= 1 // another amount than the one signed
	_, err := w.send(tx, nil)
	code(t, err, -32003)
	signature, err := w.send(tx, skipPreflight)
	if err != nil {
		t.Fatal(err)
	}
	if known, _ := w.landed(signature); known {
		t.Fatal("a forged transaction landed")
	}
}

func TestFailedTransactionLandsAndCosts(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, signature := w.sign(transfer(somebody, 1<<60), w.blockhash(processed))
	_, err := w.send(tx, nil)
	w.simulationFailed(err, `{"InstructionError":[0,{"Custom":1}]}`)
	before := w.holds()
	if _, err := w.send(tx, skipPreflight); err != nil {
		t.Fatal(err)
	}
	known, failure := w.landed(signature)
	if text, _ := json.Marshal(failure); !known || string(text) != `{"InstructionError":[0,{"Custom":1}]}` {
		t.Fatalf("landed %v with %s", known, text)
	}
	if paid := before - w.holds(); paid != 5000 {
		t.Fatalf("paid %d", paid)
	}
}

func TestPayerWithoutFunds(t *testing.T) {
	c := manual(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &wallet{t, c, key}
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	_, err = w.send(tx, nil)
	w.simulationFailed(err, `"AccountNotFound"`)
	if _, err := w.send(tx, skipPreflight); err != nil {
		t.Fatal(err)
	}
	if known, _ := w.landed(signature); known {
		t.Fatal("landed")
	}
}

func TestSizeLimit(t *testing.T) {
	w := newWallet(t, manual(t))
	hash := w.blockhash(processed)
	sized := func(total int) []byte {
		empty, _ := w.sign(instruction{memoProgram, somebody, make([]byte, 200)}, hash)
		text := []byte(strings.Repeat("m", 200+total-len(empty)))
		tx, _ := w.sign(instruction{memoProgram, somebody, text}, hash)
		if len(tx) != total {
			t.Fatalf("made %d bytes, want %d", len(tx), total)
		}
		return tx
	}
	_, err := w.send(sized(1233), nil)
	if rpc := code(t, err, -32602); !strings.Contains(rpc.Message, "too large: 1233 bytes (max: 1232 bytes)") {
		t.Fatal(rpc)
	}
	_, err = w.send(sized(1300), nil)
	code(t, err, -32602)
	// The transaction reaches the memo program, which refuses an account that did not sign.
	_, err = w.send(sized(1232), nil)
	code(t, err, -32002)
}

func TestDroppedAndLost(t *testing.T) {
	w := newWallet(t, manual(t))
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	fault(t, w.Chain, localchain.Drop(1))
	if got, err := w.send(tx, nil); err != nil || got != signature {
		t.Fatalf("%s, %v", got, err)
	}
	if known, _ := w.landed(signature); known {
		t.Fatal("a dropped transaction landed")
	}
	fault(t, w.Chain, localchain.LoseReply("sendTransaction", 1))
	if _, err := w.send(tx, nil); err == nil {
		t.Fatal("the reply was not lost")
	}
	if known, failure := w.landed(signature); !known || failure != nil {
		t.Fatalf("landed %v, %v", known, failure)
	}
}

func TestFees(t *testing.T) {
	w := newWallet(t, manual(t))
	hash := w.blockhash(processed)
	tx, _ := w.sign(transfer(somebody, some), hash)
	fee := call[valued[*uint64]](t, w.Chain, "getFeeForMessage", base64.StdEncoding.EncodeToString(tx[65:]), processed).Value
	if fee == nil || *fee != 5000 {
		t.Fatalf("fee %v", fee)
	}
	fault(t, w.Chain, localchain.Expire())
	fee = call[valued[*uint64]](t, w.Chain, "getFeeForMessage", base64.StdEncoding.EncodeToString(tx[65:]), processed).Value
	if fee != nil {
		t.Fatalf("a fee of %d for an expired message", *fee)
	}
}

func TestSimulate(t *testing.T) {
	w := newWallet(t, manual(t))
	type simulated struct {
		Err           any
		UnitsConsumed uint64
		Accounts      []*struct{ Lamports uint64 }
	}
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	text := base64.StdEncoding.EncodeToString(tx)
	s := call[valued[simulated]](t, w.Chain, "simulateTransaction", text, map[string]any{
		"encoding": "base64", "commitment": "processed",
		"accounts": map[string]any{"encoding": "base64", "addresses": []string{somebody}},
	}).Value
	if s.Err != nil || s.UnitsConsumed == 0 || len(s.Accounts) != 1 || s.Accounts[0].Lamports != some {
		t.Fatalf("%+v", s)
	}
	if known, _ := w.landed(signature); known {
		t.Fatal("a simulation landed")
	}
	fault(t, w.Chain, localchain.Expire())
	for replace, want := range map[bool]any{true: nil, false: "BlockhashNotFound"} {
		s = call[valued[simulated]](t, w.Chain, "simulateTransaction", text, map[string]any{
			"encoding": "base64", "commitment": "processed", "replaceRecentBlockhash": replace,
		}).Value
		if s.Err != want {
			t.Errorf("replacing the blockhash %v: %v", replace, s.Err)
		}
	}
}

func TestSignedBeforeARestartLandsAfterIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := localchaintest.Start(t, localchain.Config{DataDir: dir, ManualSlots: true})
	w := newWallet(t, c)
	early, _ := w.sign(transfer(somebody, some), w.blockhash(processed))
	w.mustLand(early, base58.Encode(early[1:65]), nil)
	late, signature := w.sign(transfer(somebody, some+1), w.blockhash(processed))
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Chain = localchaintest.Start(t, localchain.Config{DataDir: dir, ManualSlots: true})
	_, err := w.send(early, nil)
	w.simulationFailed(err, `"AlreadyProcessed"`)
	w.mustLand(late, signature, nil)
}

func TestAutomaticSlots(t *testing.T) {
	t.Parallel()
	c := localchaintest.Start(t, localchain.Config{})
	w := newWallet(t, c)
	tx, signature := w.sign(transfer(somebody, some), w.blockhash(processed))
	w.mustLand(tx, signature, nil)
	for balance(t, c, finalized) != some {
		if t.Context().Err() != nil {
			t.Fatal("never finalized")
		}
	}
}
