package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestNoAcknowledgementBeforeTheFsync watches the system calls of a run. Each 201 leaves
// only after everything that was written to the log before it is synced, by an fsync that
// began after the write.
func TestNoAcknowledgementBeforeTheFsync(t *testing.T) {
	slow(t)
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		stacktest.Lacking(t, "strace is missing: make deps installs it")
	}
	dir := filepath.Join(pgtest.Folder(t), "data")
	trace := filepath.Join(t.TempDir(), "trace")
	const writes = 20
	r := launchUnder(t, []string{strace, "-f", "-y", "-s", "24", "-e", "trace=pwrite64,write,fsync,fdatasync", "-o", trace}, dir)
	r.awaitUp()
	core, extension := r.clients()
	wallet := stacktest.NewWallet()
	session, other := core.SignIn(wallet), extension.SignIn(wallet)
	for n := range writes {
		core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint(n)}, session)
		extension.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint(n), "source": "s"}, other)
	}
	r.stop()
	w := watch(t, trace)
	if w.acknowledged < 2*writes || w.stored < 2*writes {
		t.Errorf("the trace shows %d acknowledgements and %d writes to the log", w.acknowledged, w.stored)
	}
}

var (
	logWrite  = regexp.MustCompile(`^(\d+) +pwrite64\(\d+<[^>]*/streams/LEDGER/msgs/\d+\.blk>`)
	syncStart = regexp.MustCompile(`^(\d+) +f(?:data)?sync\(\d+<[^>]*/streams/LEDGER/msgs/\d+\.blk>`)
	resumed   = regexp.MustCompile(`^(\d+) +<\.\.\. (?:pwrite64|fsync|fdatasync) resumed>`)
	answered  = regexp.MustCompile(`^\d+ +write\(\d+<(TCP|socket)[^>]*>*, "HTTP/1\.1 201`)
)

// witness follows a trace line by line.
type witness struct {
	stored       int // completed writes to the log
	synced       int // how many of them are known to be on stable storage
	acknowledged int
	begun        map[string]int // by thread: how many writes a running fsync covers
	writing      map[string]bool
}

func watch(t *testing.T, path string) *witness {
	t.Helper()
	f, err := os.Open(path)
	noErr(t, err)
	defer f.Close()
	w := &witness{begun: map[string]int{}, writing: map[string]bool{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w.line(t, lines.Text())
	}
	return w
}

func (w *witness) line(t *testing.T, line string) {
	unfinished := strings.HasSuffix(line, "<unfinished ...>")
	switch {
	case logWrite.MatchString(line):
		if unfinished {
			w.writing[logWrite.FindStringSubmatch(line)[1]] = true
			return
		}
		w.stored++
	case syncStart.MatchString(line):
		thread := syncStart.FindStringSubmatch(line)[1]
		w.begun[thread] = w.stored
		if !unfinished {
			w.finishSync(thread)
		}
	case resumed.MatchString(line):
		thread := resumed.FindStringSubmatch(line)[1]
		if w.writing[thread] {
			w.writing[thread] = false
			w.stored++
			return
		}
		w.finishSync(thread)
	case answered.MatchString(line):
		w.acknowledged++
		if w.synced < w.stored {
			t.Errorf("a 201 left when %d of %d writes were synced: %s", w.synced, w.stored, line)
		}
	}
}

func (w *witness) finishSync(thread string) {
	if covered, ok := w.begun[thread]; ok {
		w.synced = max(w.synced, covered)
		delete(w.begun, thread)
	}
}
