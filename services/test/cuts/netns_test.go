package cuts_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

// inside marks the test process that runs in its own network namespace.
const inside = "LEDGER_TEST_NAMESPACE"

// cannot says why this process has no network namespace of its own.
var cannot error

// TestMain starts the test program again in a new network namespace. The namespace has no
// name, and neither have those of the machines: the kernel removes them, and all that is in
// them, when the last process in them ends.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		cannot = enter()
	}
	pgtest.Main(m)
}

// enter returns only if it fails.
func enter() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can make network namespaces")
	}
	for _, program := range []string{"ip", "iptables", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing", program)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the namespace is the thread's, until Exec makes it the only thread
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	if out, err := exec.Command("iptables", "-S").CombinedOutput(); err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), inside+"=1"))
}

// machine is a network namespace, with a cable to the bridge in this process's namespace.
type machine struct {
	t    *testing.T
	name string
	ip   string
	ns   *os.File
}

// run runs a program in a machine's namespace, or in this process's if ns is nil.
func run(t *testing.T, ns *os.File, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	if ns != nil {
		within(ns, cmd)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// within changes a command so that it runs in a namespace. nsenter replaces itself by the
// command: the process keeps its id.
func within(ns *os.File, cmd *exec.Cmd) {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		panic(err) // enter found it
	}
	cmd.Args = append([]string{"nsenter", "--net=" + file(ns), "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = nsenter
}

func file(ns *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd()) }

// hub is the address of this process, and of the database.
const hub = "10.77.0.254"

// network makes the bridge and the machines of these names.
func network(t *testing.T, names ...string) map[string]*machine {
	t.Helper()
	run(t, nil, "ip link set lo up; ip link add bridge type bridge; ip addr add "+hub+"/24 dev bridge; ip link set bridge up")
	machines := map[string]*machine{}
	for i, name := range names {
		m := &machine{t: t, name: name, ip: fmt.Sprintf("10.77.0.%d", i+1), ns: namespace(t)}
		run(t, nil, fmt.Sprintf("ip link add to-%s type veth peer name eth0 netns %s; ip link set to-%[1]s master bridge up", name, file(m.ns)))
		run(t, m.ns, "ip link set lo up; ip addr add "+m.ip+"/24 dev eth0; ip link set eth0 up")
		machines[name] = m
	}
	return machines
}

// namespace makes a network namespace, which lasts as long as the file is open or a process
// is in it. The thread that made it ends with its goroutine, because it is not unlocked.
func namespace(t *testing.T) *os.File {
	t.Helper()
	var ns *os.File
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
	}()
	<-done
	must(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

// vanish drops every packet from and to the machine: it says no goodbye.
func (m *machine) vanish() { run(m.t, m.ns, "iptables -A INPUT -j DROP; iptables -A OUTPUT -j DROP") }

// deaf drops the packets that come from the others.
func (m *machine) deaf(others ...*machine) {
	for _, other := range others {
		run(m.t, m.ns, "iptables -A INPUT -s "+other.ip+" -j DROP")
	}
}

// cut drops the packets from and to the others.
func (m *machine) cut(others ...*machine) {
	m.deaf(others...)
	for _, other := range others {
		run(m.t, m.ns, "iptables -A OUTPUT -d "+other.ip+" -j DROP")
	}
}

// heal ends all cuts that were made at this machine.
func (m *machine) heal() { run(m.t, m.ns, "iptables -F") }

// processes returns a process and those that it started.
func processes(t *testing.T, pid int) []int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	must(t, err)
	var all []int
	for _, child := range strings.Fields(string(children)) {
		var id int
		if _, err := fmt.Sscan(child, &id); err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	return append(all, pid)
}

// signal sends a signal to a process, and to those that it started.
func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	for _, id := range processes(t, pid) {
		if err := syscall.Kill(id, sig); err != nil && id == pid { // another may have ended
			t.Fatal(err)
		}
	}
}
