// Package devicetest plays ledger-pkcs11 without a device.
package devicetest

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/device"
)

// Socket returns a path for a socket, short enough for one.
func Socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "device")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "socket")
}

// Serve answers on a socket until the test ends or stop is called.
func Serve(t testing.TB, socket string, handler http.Handler) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	stop = func() { _ = server.Close(); <-ended }
	t.Cleanup(stop)
	return stop
}

// Start plays a device with one key.
func Start(t testing.TB, socket string, key keystore.MasterKey) (stop func()) {
	t.Helper()
	return Serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m device.Message
		err := json.NewDecoder(r.Body).Decode(&m)
		switch {
		case err != nil:
		case r.URL.Path == device.PathSecret:
			m.Data = key[:]
		case r.URL.Path == device.PathWrap:
			m.Data, err = key.Wrap(r.Context(), m.Data, m.Bound)
		default:
			m.Data, err = key.Unwrap(r.Context(), m.Data, m.Bound)
		}
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		_ = json.NewEncoder(w).Encode(device.Message{Data: m.Data})
	}))
}
