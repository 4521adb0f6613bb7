package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// view is a memory as the APIs return it.
type view struct {
	ID        string          `json:"id"`
	Content   string          `json:"content"`
	Metadata  json.RawMessage `json:"metadata"`
	LeafHash  string          `json:"leafHash"`
	LeafIndex uint64          `json:"leafIndex"`
	BatchID   *string         `json:"batchId"`
	Anchored  bool            `json:"anchored"`
	CreatedAt string          `json:"createdAt"`
}

// proofAnswer is the answer of the proof route.
type proofAnswer struct {
	Proof struct {
		Leaf       string   `json:"leaf"`
		LeafIndex  uint64   `json:"leafIndex"`
		Siblings   []string `json:"siblings"`
		Directions []bool   `json:"directions"`
	} `json:"proof"`
	BatchRoot   string  `json:"batchRoot"`
	TxSignature *string `json:"txSignature"`
	OnchainRoot *string `json:"onchainRoot"`
}

func decode[T any](t testing.TB, body []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %.300s", err, body)
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 32 {
		t.Fatalf("%q is not a hash", s)
	}
	return raw
}

// checkProof verifies a proof with third-party software, and by folding.
func checkProof(t testing.TB, p proofAnswer, size uint64) {
	t.Helper()
	leaf, root := unhex(t, p.Proof.Leaf), unhex(t, p.BatchRoot)
	siblings := make([][]byte, len(p.Proof.Siblings))
	node := leaf
	for i, s := range p.Proof.Siblings {
		siblings[i] = unhex(t, s)
		left, right := siblings[i], node
		if p.Proof.Directions[i] {
			left, right = node, siblings[i]
		}
		sum := sha256.Sum256(append(append([]byte{1}, left...), right...))
		node = sum[:]
	}
	if !bytes.Equal(node, root) {
		t.Errorf("leaf %d of %d: folding gives %x, root is %x", p.Proof.LeafIndex, size, node, root)
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, p.Proof.LeafIndex, size, leaf, siblings, root); err != nil {
		t.Errorf("leaf %d of %d: %v", p.Proof.LeafIndex, size, err)
	}
}

func TestTheMainJob(t *testing.T) {
	s := shared(t)
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session := core.SignIn(wallet)
	other := extension.SignIn(wallet)

	first := core.Expect(http.StatusCreated, "POST", "/memories", map[string]any{"content": "The Sky is blue", "metadata": map[string]any{"b": 1, "a": "<é>"}}, session)
	second := extension.Expect(http.StatusCreated, "POST", "/memories", map[string]any{"content": "  the sea \n", "source": " tab ", "metadata": map[string]any{"source": "x"}}, other)
	if first.Number("leafIndex") != 0 || second.Number("leafIndex") != 1 || second.Field("anchored") != false {
		t.Errorf("first %s, second %s", first.Body, second.Body)
	}

	got := decode[view](t, core.Expect(200, "GET", "/memories/"+first.Text("id"), nil, session).Body)
	if got.Content != "The Sky is blue" || string(got.Metadata) != `{"a":"<é>","b":1}` || got.Anchored || got.BatchID != nil {
		t.Errorf("got %+v", got)
	}
	all := decode[[]view](t, core.Expect(200, "GET", "/memories", nil, session).Body)
	if len(all) != 2 || all[1].Content != "the sea" || string(all[1].Metadata) != `{"source":"tab"}` {
		t.Errorf("got %+v", all)
	}
	wrapped := decode[struct{ Memories []view }](t, extension.Expect(200, "GET", "/memories", nil, other).Body)
	if fmt.Sprint(wrapped.Memories) != fmt.Sprint(all) {
		t.Errorf("extension lists %+v, core %+v", wrapped.Memories, all)
	}

	for query, want := range map[string]int{"SKY": 1, "the s": 2, "": 2, "nothing": 0} {
		found := decode[[]view](t, core.Expect(200, "POST", "/memories/search", map[string]any{"query": query}, session).Body)
		if len(found) != want {
			t.Errorf("search %q found %d, want %d", query, len(found), want)
		}
	}
	if found := decode[[]view](t, core.Expect(200, "POST", "/memories/search", map[string]any{}, session).Body); len(found) != 2 {
		t.Errorf("search without query found %d", len(found))
	}

	for _, m := range all {
		p := decode[proofAnswer](t, core.Expect(200, "GET", "/memories/"+m.ID+"/proof", nil, session).Body)
		if p.Proof.Leaf != m.LeafHash || p.TxSignature != nil || p.OnchainRoot != nil {
			t.Errorf("proof %+v of %+v", p, m)
		}
		checkProof(t, p, 2)
	}

	me := extension.Expect(200, "GET", "/auth/me", nil, other)
	if me.Text("publicKey") != wallet.PublicKey || me.Text("userId") == "" {
		t.Errorf("me: %s", me.Body)
	}
	extension.Expect(200, "POST", "/auth/logout", nil, other)
	extension.Expect(401, "GET", "/auth/me", nil, other)
	extension.Expect(401, "POST", "/auth/logout", nil, other)
}

func TestReadsAreNeverStale(t *testing.T) {
	s := shared(t)
	wallet := stacktest.NewWallet()
	session, other := s.Core[0].SignIn(wallet), s.Extension[0].SignIn(wallet)
	for round := range 60 {
		a := s.Core[round%2].Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint("round ", round), "metadata": map[string]any{}}, session)
		path := "/memories/" + a.Text("id")
		s.Core[(round+1)%2].Expect(200, "GET", path, nil, session)
		s.Core[(round+1)%2].Expect(200, "GET", path+"/proof", nil, session)
		listed := decode[struct{ Memories []view }](t, s.Extension[0].Expect(200, "GET", "/memories", nil, other).Body)
		if len(listed.Memories) != round+1 {
			t.Fatalf("round %d: the extension lists %d memories", round, len(listed.Memories))
		}
		found := decode[[]view](t, s.Core[(round+1)%2].Expect(200, "POST", "/memories/search", map[string]any{"query": fmt.Sprint("round ", round)}, session).Body)
		if len(found) == 0 {
			t.Fatalf("round %d: search does not find it", round)
		}
	}
}
