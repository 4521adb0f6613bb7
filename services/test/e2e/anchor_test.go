package e2e_test

import (
	"encoding/base64"
	le "encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// anchoredStack is a stack that anchors on its own chain. The stack gets the chain as an
// endpoint, as it would get a cluster.
func anchoredStack(t *testing.T, slots time.Duration, change ...func(*config.Config)) (*stacktest.Stack, *localchain.Chain) {
	t.Helper()
	chain, authority := stacktest.Chain(t, slots)
	return stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) {
		c.SolanaRPCURL, c.AuthorityKeypair, c.CommitmentProgramID = chain.URL(), authority, program.LocalID.String()
		c.AnchorMaxWait = assembly.LocalAnchorMaxWait
		for _, do := range change {
			do(c)
		}
	}}), chain
}

// onchain reads the account of a receipt with a plain RPC call.
func onchain(t *testing.T, chain *localchain.Chain, account string) (size uint64, root string) {
	t.Helper()
	var reply struct{ Value *struct{ Data []string } }
	noErr(t, chain.Call(t.Context(), &reply, "getAccountInfo", account, map[string]string{"encoding": "base64", "commitment": "finalized"}))
	data, err := base64.StdEncoding.DecodeString(reply.Value.Data[0])
	if err != nil || len(data) != 128 {
		t.Fatalf("account %v: %v", reply, err)
	}
	return le.LittleEndian.Uint64(data[72:]), hex.EncodeToString(data[80:112])
}

func TestAnchoredMemories(t *testing.T) {
	t.Parallel()
	s, chain := anchoredStack(t, 400*time.Millisecond)
	core, wallet := s.Core[0], stacktest.NewWallet()
	token := core.Token(wallet)
	session := stacktest.Bearer(token)
	first := core.Expect(http.StatusCreated, "POST", "/memories", map[string]any{"content": "zuerst ☂", "metadata": map[string]any{"z": 1.5, "a": "ü"}}, session)
	m := decode[view](t, core.AwaitAnchored(session, first.Text("id")).Body)
	if m.BatchID == nil {
		t.Error("anchored without a batch")
	}
	p := decode[proofAnswer](t, core.Expect(200, "GET", "/memories/"+m.ID+"/proof", nil, session).Body)
	checkProof(t, p, 1)
	old := receiptOf(t, core, session, m.ID)
	size, root := onchain(t, chain, old.Anchor.Account)
	if size != 1 || root != p.BatchRoot || p.TxSignature == nil || *p.TxSignature != old.Anchor.TxSignature || p.OnchainRoot == nil || *p.OnchainRoot != root {
		t.Errorf("proof %+v, the account holds %d leaves, root %s", p, size, root)
	}
	if _, err := old.VerifyOnchain(t.Context(), chain.URL()); err != nil {
		t.Error(err)
	}

	proved, _ := use(t, agent(t, core, token), "prove", map[string]any{"id": m.ID})
	if a, _ := proved["anchor"].(map[string]any); proved["anchored"] != true || a["account"] != old.Anchor.Account || a["txSignature"] != old.Anchor.TxSignature {
		t.Errorf("what an agent gets: %v", proved)
	}

	var last stacktest.Answer
	for i := range 6 {
		last = core.Expect(http.StatusCreated, "POST", "/memories", map[string]any{"content": fmt.Sprint("more ", i), "metadata": map[string]any{}}, session)
	}
	waiting := receiptOf(t, core, session, last.Text("id"))
	if waiting.Anchor != nil || waiting.TreeSize != 7 {
		t.Errorf("receipt before anchoring: %+v", waiting)
	}
	core.AwaitAnchored(session, last.Text("id"))
	// The first memory's proof stays in its batch; the account has newer leaves.
	again := decode[proofAnswer](t, core.Expect(200, "GET", "/memories/"+m.ID+"/proof", nil, session).Body)
	size, root = onchain(t, chain, old.Anchor.Account)
	if again.BatchRoot != p.BatchRoot || again.OnchainRoot == nil || *again.OnchainRoot != root || size != 7 {
		t.Errorf("proof %+v, the account holds %d leaves, root %s", again, size, root)
	}
	// The old receipt holds against the newest account by its transaction. A new receipt
	// leads there by its consistency proof.
	for _, r := range []*verify.Receipt{old, receiptOf(t, core, session, m.ID), receiptOf(t, core, session, last.Text("id"))} {
		held, err := r.VerifyOnchain(t.Context(), chain.URL())
		if err != nil || held.Size != 7 {
			t.Errorf("%+v: %v", held, err)
		}
	}
	core.Expect(404, "GET", "/memories/"+m.ID+"/receipt", nil, core.SignIn(stacktest.NewWallet()))
	core.Expect(401, "GET", "/memories/"+m.ID+"/receipt", nil)
}

// While the chain is down, answers stay the same, writes continue, and nothing waits for
// it.
func TestChainOutOfReach(t *testing.T) {
	slow(t)
	t.Parallel()
	s, chain := anchoredStack(t, 20*time.Millisecond)
	core := s.Core[0]
	session := core.SignIn(stacktest.NewWallet())
	first := core.Expect(http.StatusCreated, "POST", "/memories", map[string]any{"content": "x", "metadata": map[string]any{}}, session)
	core.AwaitAnchored(session, first.Text("id"))
	before := decode[proofAnswer](t, core.Expect(200, "GET", "/memories/"+first.Text("id")+"/proof", nil, session).Body)
	noErr(t, chain.Fault(t.Context(), localchaintest.Down(true)))
	second := core.Expect(http.StatusCreated, "POST", "/memories", map[string]any{"content": "y", "metadata": map[string]any{}}, session)
	started := time.Now()
	after := decode[proofAnswer](t, core.Expect(200, "GET", "/memories/"+first.Text("id")+"/proof", nil, session).Body)
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("a proof took %v", took)
	}
	if after.OnchainRoot == nil || *after.OnchainRoot != *before.OnchainRoot || after.BatchRoot != before.BatchRoot {
		t.Errorf("before %+v, after %+v", before, after)
	}
	noErr(t, chain.Fault(t.Context(), localchaintest.Down(false)))
	core.AwaitAnchored(session, second.Text("id"))
}

func receiptOf(t *testing.T, core *stacktest.Client, session stacktest.Header, id string) *verify.Receipt {
	t.Helper()
	r, err := verify.ParseReceipt(core.Expect(200, "GET", "/memories/"+id+"/receipt", nil, session).Body)
	if err == nil {
		err = r.Verify()
	}
	noErr(t, err)
	return r
}
