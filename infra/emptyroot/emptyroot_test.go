package emptyroot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, slow = testkit.Must, testkit.Slow

// limit bounds one newcomer's time with the two commands.
const limit = 25 * time.Minute

// newcomer is a person on an empty machine.
type newcomer struct {
	suite string // of Debian
	user  string
	home  string
	tests string // make test is run for these packages; EMPTY_ROOT=all runs it for all
}

// startsPrograms lists the packages whose short tests start programs, and so notice what an
// empty machine lacks, but for the end-to-end tests, whose tours run anyhow.
const startsPrograms = "./infra/... ./anchoring/program ./events ./events/verify ./projections/projector ./services/cmd/ledger ./services/test/journey"

// TestTwoCommands: on an empty Debian, as root and as a user without sudo, make run leads to
// an anchored receipt with no step between, make test passes at the first try where tests
// start programs, and the second run needs no network. Nothing outside the repository, the
// user's caches and temporary folders changes.
func TestTwoCommands(t *testing.T) {
	slow(t)
	needs(t)
	t.Parallel()
	for _, n := range []newcomer{
		{suite: "bookworm", user: "root", home: "/root", tests: startsPrograms},
		{suite: "trixie", user: "newcomer", home: "/home/newcomer"},
	} {
		t.Run(n.suite+" as "+n.user, func(t *testing.T) {
			t.Parallel() // while one runs the commands, the other's Debian is fetched
			n.tryREADME(t)
		})
	}
}

// needs skips the test on a machine that can't make an empty root.
func needs(t *testing.T) {
	t.Helper()
	lacks := ""
	switch _, err := exec.LookPath("debootstrap"); {
	case runtime.GOOS != "linux":
		lacks = "this is not Linux"
	case os.Geteuid() != 0:
		lacks = "only root can make an empty root"
	case err != nil:
		lacks = "debootstrap is missing: make deps installs it"
	}
	if lacks == "" {
		if out, err := exec.Command("unshare", "--mount", "--pid", "--net", "--fork", "true").CombinedOutput(); err != nil {
			lacks = fmt.Sprintf("no namespaces can be made here: %v: %s", err, out)
		}
	}
	if lacks != "" {
		t.Skip(lacks)
	}
}

// ports is held by the newcomer who uses the ports of a local run.
var ports sync.Mutex

func (n newcomer) tryREADME(t *testing.T) {
	m := newMachine(t, n)
	ports.Lock()
	defer ports.Unlock()
	m.run("--mount", "first run", `
		make run >run.txt 2>&1 &
		up
		docs/tour.sh; checked
		rm receipt.json
		make -s tour; checked
		stop`)
	m.printsOnlyTheStart()
	if os.Getenv("EMPTY_ROOT") == "all" {
		m.run("--mount", "make test", `GOFLAGS=-count=1 make test`)
	} else if n.tests != "" {
		m.run("--mount", "make test", `GOFLAGS=-count=1 make test PACKAGES="`+n.tests+`"`)
	}
	m.run("--net", "without a network", `
		make run >again.txt 2>&1 &
		up
		docs/tour.sh; checked
		stop`)
	m.changesNothingElse()
}

// functions are those of the scripts. The start is bounded by the limit of the script.
const functions = `
	up() {
		run=$!
		until [ -e .data/run.json ] && bin/ledger env >/dev/null 2>&1; do
			kill -0 $run || { cat run.txt; exit 1; }
			sleep 0.2
		done
	}
	checked() {
		eval "$(bin/ledger env)"
		local said
		said=$(bin/ledger verify-receipt --rpc "$SOLANA_RPC_URL" receipt.json)
		echo "$said"
		grep -q 'is a prefix of the' <<<"$said"
	}
	stop() {
		kill -TERM $run
		wait $run || true
		if cat /proc/[0-9]*/comm 2>/dev/null | grep -xE 'ledger|postgres|node'; then exit 1; fi
	}
`

// machine is an empty root, with an overlay over it that collects what changes.
type machine struct {
	*testing.T
	newcomer
	repository         string // the same path as on this machine; see furnish
	lower, upper, root string
}

func newMachine(t *testing.T, n newcomer) *machine {
	t.Helper()
	lower := emptyDebian(t, n.suite)
	dir := filepath.Dir(lower)
	repository, err := filepath.Abs("../..")
	must(t, err)
	m := &machine{T: t, repository: repository, newcomer: n, lower: lower, upper: filepath.Join(dir, "upper"), root: filepath.Join(dir, "root")}
	for _, folder := range []string{"upper", "work", "root", "gocache", "gocache-work", "modcache", "modcache-work"} {
		must(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	m.furnish()
	return m
}

// debians has a *sync.Once for each suite whose folder debootstrap has filled; the tests
// copy the folders.
var debians sync.Map

// emptyDebian returns a folder with an empty Debian: what an installed one has beside
// debootstrap's least, and the name resolution and certificates of this machine.
func emptyDebian(t *testing.T, suite string) string {
	t.Helper()
	dir, err := os.MkdirTemp(temporary, "machine-")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	folder := filepath.Join(temporary, suite)
	fill, _ := debians.LoadOrStore(suite, new(sync.Once))
	fill.(*sync.Once).Do(func() {
		do(t, "debootstrap", "--variant=minbase", "--include=git,make,curl,ca-certificates", suite, folder)
	})
	root := filepath.Join(dir, "lower")
	do(t, "cp", "-a", folder, root)
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt"} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, file), text, 0o644)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return root
}

// temporary holds all roots.
var temporary string

func TestMain(m *testing.M) {
	var err error
	if temporary, err = os.MkdirTemp("", "ledger-emptyroot-"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := os.RemoveAll(temporary); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// furnish brings what an empty machine has besides: Go and a user. It clones the repository
// as the user would, but to the path that it has on this machine, so that the compiler finds
// in its cache what it compiled here.
func (m *machine) furnish() {
	m.Helper()
	if m.user != "root" {
		do(m.T, "chroot", m.lower, "useradd", "--create-home", "--shell", "/bin/bash", m.user)
	}
	for _, folder := range []string{"usr/local/go", m.home + "/.cache/go-build", goEnv(m, "GOMODCACHE"), m.repository} {
		must(m.T, os.MkdirAll(filepath.Join(m.lower, folder), 0o755))
	}
	if m.user != "root" { // who is to reach the modules and the repository
		for _, folder := range []string{goEnv(m, "GOMODCACHE"), m.repository} {
			for dir := filepath.Dir(folder); dir != "/"; dir = filepath.Dir(dir) {
				do(m.T, "chmod", "o+x", filepath.Join(m.lower, dir))
			}
		}
	}
	do(m.T, "git", "clone", "--quiet", "--no-local", m.repository, filepath.Join(m.lower, m.repository))
	do(m.T, "chroot", m.lower, "chown", "-R", m.user+":", m.home, m.repository)
}

// run runs a script as the newcomer, in the folder of the repository, in namespaces of its
// own: no process outlives it. The caches of Go on this machine are below overlays, and the
// modules at their path on this machine.
func (m *machine) run(namespace, what, script string) {
	m.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(m.Context(), limit)
	defer cancel()
	dir := filepath.Dir(m.root)
	inside := "set -eu\ncd " + m.repository + "\n" + functions + script
	outside := fmt.Sprintf(`set -eu
		mount -t overlay overlay -o lowerdir=%[1]s,upperdir=%[2]s,workdir=%[3]s/work %[4]s
		mount -t overlay overlay -o lowerdir=%[5]s,upperdir=%[3]s/gocache,workdir=%[3]s/gocache-work %[4]s%[7]s/.cache/go-build
		mount -t overlay overlay -o lowerdir=%[6]s,upperdir=%[3]s/modcache,workdir=%[3]s/modcache-work %[4]s%[6]s
		mount --bind -o ro %[8]s %[4]s/usr/local/go
		mount -t proc proc %[4]s/proc
		mount --rbind /dev %[4]s/dev
		# The entries may stay root's: it is enough that the user can add some.
		chroot %[4]s sh -c 'chown %[9]s %[7]s/.cache/go-build %[7]s/.cache/go-build/?? %[6]s %[6]s/cache'
		ip link set lo up 2>/dev/null || true
		exec chroot --userspec=%[9]s: %[4]s /usr/bin/env -i %[10]s bash -c "$SCRIPT"`,
		m.lower, m.upper, dir, m.root, goEnv(m, "GOCACHE"), goEnv(m, "GOMODCACHE"), m.home, goEnv(m, "GOROOT"), m.user, m.environment())
	flags := []string{"--mount", "--pid", "--fork", "--kill-child"}
	if namespace == "--net" {
		flags = append(flags, "--net")
	}
	cmd := exec.CommandContext(ctx, "unshare", append(flags, "sh", "-c", outside)...)
	cmd.Env = append(os.Environ(), "SCRIPT="+inside)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	m.Logf("%s took %v", what, time.Since(begun).Round(time.Second))
	if err != nil {
		run, _ := os.ReadFile(filepath.Join(m.upper, m.repository, "run.txt"))
		m.Fatalf("%s: %v\n%s\nrun.txt:\n%s", what, cmp.Or(ctx.Err(), err), out, run)
	}
	if testing.Verbose() {
		m.Logf("%s", out)
	}
}

// environment is a newcomer's, with the settings of Go's and npm's downloads of this
// machine.
func (m *machine) environment() string {
	set := []string{"GOMODCACHE=" + goEnv(m, "GOMODCACHE"), "HOME=" + m.home, "USER=" + m.user, "PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TERM=dumb"}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB"} {
		if value := goEnv(m, name); value != "" {
			set = append(set, name+"='"+value+"'")
		}
	}
	// A machine without npm has to be told the registry.
	registry, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		m.Fatalf("npm config get registry: %v", err)
	}
	set = append(set, "NPM_CONFIG_REGISTRY='"+strings.TrimSpace(string(registry))+"'")
	return strings.Join(set, " ")
}

// printsOnlyTheStart: a start without a terminal prints progress and the block, and no
// lines of a log.
func (m *machine) printsOnlyTheStart() {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.upper, m.repository, "run.txt"))
	must(m.T, err)
	for _, want := range []string{"compiled bin/ledger", "fetched PostgreSQL: ", "fetched the local chain: ", "fetched Node: ", "Memory Ledger is up.", "/app/", "Try next", "Ctrl-C stops it"} {
		if !strings.Contains(string(text), want) {
			m.Errorf("make run does not print %q", want)
		}
	}
	if strings.Contains(string(text), "level=") {
		m.Error("make run prints lines of its log")
	}
	if m.Failed() {
		m.Logf("%s", text)
	}
}

// changesNothingElse lists the overlay: everything that the two commands changed.
func (m *machine) changesNothingElse() {
	m.Helper()
	// Go keeps counters of its own beside its settings.
	allowed := []string{"tmp", "var/tmp", "dev", "proc"}
	for _, folder := range []string{m.repository, m.home + "/.cache", m.home + "/.config/go", goEnv(m, "GOMODCACHE")} {
		allowed = append(allowed, strings.TrimPrefix(folder, "/"))
	}
	err := filepath.WalkDir(m.upper, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == m.upper {
			return err
		}
		rel, err := filepath.Rel(m.upper, path)
		if err != nil {
			return err
		}
		if slices.Contains(allowed, rel) {
			return fs.SkipDir
		}
		above := slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(a, rel+"/") })
		if !above {
			m.Errorf("changed: /%s", rel)
		}
		return nil
	})
	if err != nil {
		m.Error(err)
	}
}

func do(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out[max(0, len(out)-2000):])
	}
}

func goEnv(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}
