//go:build unix

package httpapi

import (
	"log/slog"
	"net"
	"testing"
	"time"
)

// TestGone: a connection is gone once its peer has closed it. An idle connection, one
// with unread bytes, and one past its deadline are not gone.
func TestGone(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := newListener(inner, 1, slog.New(slog.DiscardHandler)).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	conn := accepted.(*conn)
	if conn.Gone() {
		t.Error("an idle connection is gone")
	}
	if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if conn.Gone() {
		t.Error("a connection past its deadline is gone")
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	var b [2]byte
	if _, err := conn.Read(b[:1]); err != nil || conn.Gone() {
		t.Errorf("a connection with a byte to be read is gone, %v", err)
	}
	if _, err := conn.Read(b[1:]); err != nil || b != [2]byte{'a', 'b'} {
		t.Errorf("looking took something away: %q, %v", b, err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(b[:]); n != 0 || err == nil { // the close has arrived
		t.Fatalf("read %d, %v", n, err)
	}
	if !conn.Gone() {
		t.Error("a closed connection is not gone")
	}
}
