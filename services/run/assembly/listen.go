package assembly

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/memory-ledger/ledger/services/run/config"
)

// listen opens the address that a variable names. If the address is in use, the error
// says how to choose another, and names the process that uses it if that can be known.
func listen(variable, addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if !errors.Is(err, syscall.EADDRINUSE) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		return listener, nil
	}
	by := ""
	if holder := holderOf(addr); holder != "" {
		by = ", by " + holder
	}
	return nil, fmt.Errorf("%s: %s is in use%s; stop what has it, or choose another: %s=%s", variable, addr, by, variable, anotherPort(addr))
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

// holderOf names the process that listens on an address's port. It returns an empty
// string if this process is not permitted to see that, or if the system is not Linux.
func holderOf(addr string) string {
	_, text, err := net.SplitHostPort(addr)
	port, bad := strconv.ParseUint(text, 10, 16)
	if err != nil || bad != nil {
		return ""
	}
	sockets := listening(uint16(port))
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, path := range open {
		target, err := os.Readlink(path)
		if err != nil || !slices.Contains(sockets, target) {
			continue
		}
		pid := strings.Split(path, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			continue
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return ""
}

// listening returns the sockets that listen on a port, in the form of the links in
// /proc/PID/fd.
func listening(port uint16) (sockets []string) {
	const local, state, inode, listens = 1, 3, 9, "0A"
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) > inode && fields[state] == listens && strings.HasSuffix(fields[local], fmt.Sprintf(":%04X", port)) {
				sockets = append(sockets, "socket:["+fields[inode]+"]")
			}
		}
	}
	return sockets
}
