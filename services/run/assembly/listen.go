package assembly

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/memory-ledger/ledger/services/run/config"
)

// listen opens the address that a variable names. If the address is in use, the error
// says how to choose another.
func listen(variable, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if !errors.Is(err, syscall.EADDRINUSE) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		return listener, nil
	}
	return nil, fmt.Errorf("%s: %s is in use; stop what has it, or choose another: %s=%s", variable, addr, variable, anotherPort(addr))
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

// anotherPort returns the same host with a port that is 1000 higher, or port 0 if there
// is no such port.
func anotherPort(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	number, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || number+1000 > 65535 {
		return net.JoinHostPort(host, "0")
	}
	return net.JoinHostPort(host, strconv.FormatUint(number+1000, 10))
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
