package deployed_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestErasesWithItsRoleAlone: the core API erases an owner on three nodes while another
// replica reads. After the answer, neither replica returns an erased text. Soon no node's
// keystore holds the wrapped key. The owner begins again with a new key.
func TestErasesWithItsRoleAlone(t *testing.T) {
	d := deploy(t)
	d.projector()
	_, core := d.api("core-api")
	_, other := d.api("core-api")
	wallet := stacktest.NewWallet()
	session := core.SignIn(wallet)
	d.settled(core, session)
	for n := range 10 {
		core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint("secret ", n)}, session)
	}
	bucket, err := d.admin().KeyValue(t.Context(), keystore.Bucket)
	must(t, err)
	wrapped, err := bucket.Get(t.Context(), wallet.PublicKey)
	must(t, err)
	holders := func() (n int) {
		for _, store := range d.Stores {
			if len(natstest.FilesHolding(t, filepath.Join(store, "jetstream", "LEDGER", "streams", keystore.Stream), wrapped.Value())) > 0 {
				n++
			}
		}
		return n
	}
	if holders() == 0 {
		t.Fatal("no node has the key: the test looks in the wrong place")
	}

	var (
		readers      sync.WaitGroup
		erased, done atomic.Bool
		busy         = make(chan struct{})
		begun        atomic.Int64
	)
	for range 4 {
		readers.Go(func() {
			for !done.Load() {
				late := erased.Load()
				a := other.Do("GET", "/memories", nil, session)
				if late && strings.Contains(string(a.Body), "secret") {
					t.Errorf("after the answer: %d %s", a.Status, a.Body)
				}
				if begun.Add(1) == 40 {
					close(busy)
				}
			}
		})
	}
	<-busy
	challenge := core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": "erase"})
	if n := core.Expect(200, "POST", "/erasure", wallet.Answer(challenge.Text("message"))).Number("erased"); n < 10 {
		t.Errorf("%d leaves erased", n)
	}
	erased.Store(true)
	next := other.SignIn(wallet) // the readers keep the old session
	other.Expect(201, "POST", "/memories", map[string]any{"content": "new"}, next)
	done.Store(true)
	readers.Wait()
	for _, c := range []*stacktest.Client{core, other} {
		if a := c.Expect(200, "GET", "/memories", nil, next); strings.Contains(string(a.Body), "secret") || !strings.Contains(string(a.Body), "new") {
			t.Errorf("%s", a.Body)
		}
	}
	// Nodes that do not lead the stream delete the key a little later.
	for deadline := time.Now().Add(2 * time.Minute); holders() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("a node's keystore still has the key")
		}
	}
	if out, err := d.Command([]string{"verify"}, d.As("admin")).CombinedOutput(); err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
}
