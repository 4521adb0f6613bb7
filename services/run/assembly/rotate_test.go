package assembly_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestALocalRunsKeyIsRotated: the rotation of a local run's key is interrupted after an
// entry has its new wrapping. The run works then, and works after the rotation has ended,
// with another key in the folder and the old one beside it.
func TestALocalRunsKeyIsRotated(t *testing.T) {
	t.Parallel()
	dir, wallet := t.TempDir(), stacktest.NewWallet()
	use := func(texts ...string) { // writes the last text, and reads all
		t.Helper()
		run := startRun(t, dir, "LOCAL_CHAIN=off")
		defer run.stop()
		session := run.core.SignIn(wallet)
		run.write(session, texts[len(texts)-1])
		var found []struct{ Content string }
		answer := run.core.Expect(200, "GET", "/memories", nil, session)
		if err := json.Unmarshal(answer.Body, &found); err != nil || len(found) != len(texts) || found[0].Content != texts[0] {
			t.Errorf("read %s, wrote %v", answer.Body, texts)
		}
	}
	secret := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, "secrets", name)) // "": there is none
		return string(text)
	}
	rotate := func(interrupted bool) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, kept, err := assembly.RotateLocal(ctx, config.Config{DataDir: dir}, func(keystore.Rewrapped, uint64) {
			if interrupted {
				cancel()
			}
		})
		return kept, err
	}
	if _, err := rotate(false); !errors.Is(err, datadir.ErrNoSecret) {
		t.Errorf("an empty folder: %v", err)
	}
	use("one")
	old := secret("master-key")
	if _, err := rotate(true); err == nil || secret("master-key") != old {
		t.Fatalf("interrupted: %v", err)
	}
	next := secret("master-key-next")
	use("one", "two")
	kept, err := rotate(false)
	if err != nil || secret("master-key") != next || secret("master-key-next") != "" || secret(kept) != old {
		t.Errorf("kept %q, %v", kept, err)
	}
	use("one", "two", "three")
}
