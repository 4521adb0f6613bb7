package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// FromConfig runs a server on a configuration file until the test ends, on a free port
// and in a temporary folder, and returns its URL. The caller sets the environment
// variables that the file reads.
func FromConfig(t testing.TB, file string) string {
	t.Helper()
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", -1, t.TempDir(), true, true
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(2 * time.Minute) {
		t.Fatal("server is not ready")
	}
	return ns.ClientURL()
}
