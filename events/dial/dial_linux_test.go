package dial_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memory-ledger/ledger/events/dial"
	"github.com/memory-ledger/ledger/infra/testkit"
)

// TestAVanishedMachineIsNoticed: the kernel gives up a connection after the silence that
// was asked for, whether or not data is on its way.
func TestAVanishedMachineIsNoticed(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer listener.Close()
	conn, err := dial.Dialer().DialContext(t.Context(), "tcp", listener.Addr().String())
	testkit.Must(t, err)
	defer conn.Close()
	expect(t, conn, dial.Silence)
	testkit.Must(t, dial.Extend(conn, 15*time.Second))
	expect(t, conn, 15*time.Second)
}

func expect(t *testing.T, conn net.Conn, silence time.Duration) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	testkit.Must(t, err)
	get := func(level, option int) (value int) {
		if failed := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, option) }); failed != nil || err != nil {
			t.Fatal(failed, err)
		}
		return value
	}
	if is := time.Duration(get(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)) * time.Millisecond; is != silence {
		t.Errorf("sent data waits %s, want %s", is, silence)
	}
	if get(unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 {
		t.Error("no keepalives")
	}
	asks := get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) + get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)*get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
	if is := time.Duration(asks) * time.Second; is != silence {
		t.Errorf("a silent peer is given up after %s, want %s", is, silence)
	}
}
