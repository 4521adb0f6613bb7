// Package e2e_test tests the whole product through its two HTTP APIs, on a real log and a
// real database.
package e2e_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var noErr, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) {
	stacktest.Main(m, func() {
		for _, end := range slices.Backward(common.ends) {
			end()
		}
	})
}

// common is the stack of the tests that change no setting and damage nothing.
var common struct {
	sync.Once
	*stacktest.Stack
	ends []func()
}

// host makes what a test starts outlive it. An error that it reports later panics.
type host struct{ testing.TB }

func (host) Cleanup(end func())       { common.ends = append(common.ends, end) }
func (host) Context() context.Context { return context.Background() }
func (h host) TempDir() string {
	dir, err := os.MkdirTemp("", "ledger-e2e-")
	noErr(h.TB, err)
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// shared lets a test use the common stack beside others, with wallets of its own.
func shared(t *testing.T) *stacktest.Stack {
	t.Helper()
	t.Parallel()
	common.Do(func() { common.Stack = stacktest.Start(host{t}, stacktest.Options{Core: 2, Extension: 2}) })
	s := &stacktest.Stack{Config: common.Config, NATSURL: common.NATSURL}
	for n := range common.Core {
		s.Core = append(s.Core, stacktest.NewClient(t, contracttest.Core, common.Core[n].URL))
		s.Extension = append(s.Extension, stacktest.NewClient(t, contracttest.Extension, common.Extension[n].URL))
	}
	return s
}
