package assembly

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// TestABusyPort: the error for an address in use names its variable, the process that
// uses it, and what to do.
func TestABusyPort(t *testing.T) {
	t.Parallel()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addr := first.Addr().String()
	for _, try := range []func() error{
		func() error { return mayListen("CORE_ADDR", addr) },
		func() error { url := ""; _, err := listenTo("CORE_ADDR", addr, &url); return err },
	} {
		err := try()
		if err == nil || !strings.HasPrefix(err.Error(), "CORE_ADDR: "+addr+" is in use") || !strings.Contains(err.Error(), "choose another: CORE_ADDR=127.0.0.1:") {
			t.Errorf("%v", err)
		}
		if _, noProc := os.Stat("/proc/net/tcp"); noProc == nil && !strings.Contains(err.Error(), fmt.Sprintf("by process %d (", os.Getpid())) {
			t.Errorf("who has it is not said: %v", err)
		}
	}
	if err := mayListen("CORE_ADDR", "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
}
