package assembly

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/run/config"
)

// listen opens the address that a variable names.
func listen(variable, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %s is in use; stop what has it, or set %s to another address", variable, addr, variable)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return listener, nil
}

// mayListen returns an error if an address is in use. A local run calls it before it
// starts its servers.
func mayListen(variable, addr string) error {
	listener, err := listen(variable, addr)
	if err != nil {
		return err
	}
	return listener.Close()
}

// listenTo listens. If the base URL is the default for addr, it updates the base URL to
// the address that the system assigned.
func listenTo(variable, addr string, baseURL *string) (net.Listener, error) {
	listener, err := listen(variable, addr)
	if err != nil {
		return nil, err
	}
	if *baseURL == config.URLOf(addr) {
		*baseURL = config.URLOf(listener.Addr().String())
	}
	return listener, nil
}

// maxConnections returns how many connections an API may have open: as usual, or
// fewer if the log and the database would otherwise run out of file descriptors.
func (d *APIServer) maxConnections() int {
	var limit syscall.Rlimit // Go raises the soft limit to the hard one at its start
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return httpapi.DefaultConnections
	}
	const plenty = 1 << 30     // also for "unlimited", which is the largest number
	files := uint64(limit.Cur) // its type differs between systems
	// The number is for the log's files and connections, and pipes to local servers.
	left := int(min(files, plenty)) - 64 - 2*int(d.Pool.Config().MaxConns)
	// The APIs of this process share what is left. Each has at least 16.
	most := min(httpapi.DefaultConnections, max(16, left/max(1, d.neighbors.APIs)))
	if most < httpapi.DefaultConnections {
		d.Logger.Warn("fewer connections than usual, for the limit on open files (ulimit -n)", "connections", most, "files", files)
	}
	return most
}
