package deployed_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestErasesWithItsRoleAlone: on three nodes, the core API forgets one memory and then erases
// the owner, while another replica reads. After each answer, neither replica returns a text
// that is gone. Soon no node's keystore holds a key that opens it. The owner begins again
// with a new key.
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
	whisper := core.Expect(201, "POST", "/memories", map[string]any{"content": "a secret whisper"}, session).Text("id")
	bucket, err := d.admin().KeyValue(t.Context(), keystore.Bucket)
	must(t, err)
	entry := func() []byte {
		wrapped, err := bucket.Get(t.Context(), wallet.PublicKey)
		must(t, err)
		return wrapped.Value()
	}
	// Nodes that do not lead the stream delete an entry a little later.
	destroyed := func(entry []byte) {
		t.Helper()
		testkit.Await(t, "no node's keystore has the key", func() bool { return len(d.holding(t, entry)) == 0 })
	}

	var (
		readers      sync.WaitGroup
		gone         atomic.Value // what no answer may have
		done         atomic.Bool
		busy, served = make(chan struct{}), atomic.Int64{}
	)
	gone.Store("nothing of the kind")
	for reader := range 4 {
		readers.Go(func() {
			for !done.Load() {
				late := gone.Load().(string)
				a := other.Do("GET", "/memories", nil, session)
				if reader%2 == 0 {
					a = other.Do("POST", "/memories/search", map[string]any{"query": "secret", "mode": "ranked", "limit": 50}, session)
				}
				if strings.Contains(string(a.Body), late) {
					t.Errorf("after the answer: %d %s", a.Status, a.Body)
				}
				if served.Add(1) == 40 {
					close(busy)
				}
			}
		})
	}
	<-busy
	before := entry()
	if len(d.holding(t, before)) == 0 {
		t.Fatal("no node has the key: the test looks in the wrong place")
	}
	core.Expect(200, "POST", "/memories/"+whisper+"/forget", nil, session)
	gone.Store("whisper")
	destroyed(before)
	if a := other.Expect(200, "GET", "/memories", nil, session); strings.Contains(string(a.Body), "whisper") || !strings.Contains(string(a.Body), "secret 9") {
		t.Errorf("%s", a.Body)
	}

	before = entry()
	challenge := core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": "erase"})
	if n := core.Expect(200, "POST", "/erasure", wallet.Answer(challenge.Text("message"))).Number("erased"); n < 10 {
		t.Errorf("%d leaves erased", n)
	}
	gone.Store("secret")
	next := other.SignIn(wallet) // the readers keep the old session
	other.Expect(201, "POST", "/memories", map[string]any{"content": "new"}, next)
	done.Store(true)
	readers.Wait()
	for _, c := range []*stacktest.Client{core, other} {
		if a := c.Expect(200, "GET", "/memories", nil, next); strings.Contains(string(a.Body), "secret") || !strings.Contains(string(a.Body), "new") {
			t.Errorf("%s", a.Body)
		}
	}
	destroyed(before)
	if out, err := d.Command([]string{"verify"}, d.As("admin")).CombinedOutput(); err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
}

// holding returns the files of the nodes' keystores that hold these bytes.
func (d *deployment) holding(t *testing.T, bytes []byte) (files []string) {
	t.Helper()
	for _, store := range d.Stores {
		files = append(files, natstest.FilesHolding(t, filepath.Join(store, "jetstream", "LEDGER", "streams", keystore.Stream), bytes)...)
	}
	return files
}
