package keystore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// The newest entry names the master key that the keystore is written with. A mark names
// none, and neither does an empty bucket.
func TestNewestMaster(t *testing.T) {
	t.Parallel()
	js := connect(t, natstest.Start(t))
	bucket := bucketIn(t, js)
	old, fresh := keystore.MasterKey{1}, keystore.MasterKey{2}
	want := func(id string) {
		t.Helper()
		if got, err := keystore.NewestMaster(t.Context(), js); err != nil || got != id {
			t.Errorf("%q, %v; want %q", got, err, id)
		}
	}
	want("")
	owners := newOwners(2)
	for _, owner := range owners {
		makeKey(t, openStore(t, bucket, old), owner)
		want(old.ID())
	}
	if _, err := openStore(t, bucket, fresh, old).Rewrap(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want(fresh.ID())
	if _, err := keystore.Forget(t.Context(), js, owners[0], false); err != nil {
		t.Fatal(err)
	}
	want("")
}

func TestMasterKeysThatFit(t *testing.T) {
	t.Parallel()
	a, b, c := keystore.MasterKey{1}, keystore.MasterKey{2}, keystore.MasterKey{3}
	for _, good := range []struct {
		newest  string
		masters []keystore.MasterKey
	}{{"", []keystore.MasterKey{a}}, {a.ID(), []keystore.MasterKey{a}}, {a.ID(), []keystore.MasterKey{b, a}}, {b.ID(), []keystore.MasterKey{b, a}}} {
		if err := keystore.Fits(good.newest, good.masters); err != nil {
			t.Errorf("%s: %v", good.newest, err)
		}
	}
	for _, masters := range [][]keystore.MasterKey{{a}, {a, b}} {
		err := keystore.Fits(c.ID(), masters)
		if !errors.Is(err, keystore.ErrMasterKey) || !strings.Contains(err.Error(), c.ID()) || !strings.Contains(err.Error(), "MASTER_KEY_PREVIOUS") {
			t.Fatalf("%v", err)
		}
		for _, master := range masters {
			if !strings.Contains(err.Error(), master.ID()) {
				t.Errorf("no id of %v in %v", master.ID(), err)
			}
		}
	}
}
