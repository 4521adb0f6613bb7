package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/run/assembly"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

// A command line without a command, or with a wrong one, gets an explanation on standard
// error and the exit code of wrong usage. Requested help is printed on standard output.
func TestUsage(t *testing.T) {
	for args, want := range map[string]struct {
		code     int
		out, err string // in what is printed
		said     string // in the error
	}{
		"":                 {exitUsage, "", "Usage:", ""},
		"nonsense":         {exitUsage, "", "", "unknown command"},
		"tial":             {exitUsage, "", "", "Did you mean this?\n  tail"},
		"backup":           {exitUsage, "", "", "usage: ledger backup DIR [flags]"},
		"tail more":        {exitUsage, "", "", "usage: ledger tail [flags]"},
		"verify --no-such": {exitUsage, "", "", "unknown flag"},
		"verify --owner=":  {exitUsage, "", "", "--owner must not be empty"},
		"tail --type=":     {exitUsage, "", "", "--type must not be empty"},
		"tail --type=A,":   {exitUsage, "", "", "--type must not be empty"},
		"help":             {0, "Usage:", "", ""},
		"help tail":        {0, "--follow", "", ""},
		"help tial":        {exitUsage, "", "", "Did you mean this?\n  tail"},
		"--help":           {0, "Usage:", "", ""},
		"verify --help":    {0, "Usage:", "", ""},
		"--version":        {0, "ledger " + released + " ", "", ""},
	} {
		var out, err bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetErr(&err)
		root.SetArgs(strings.Fields(args))
		if failed := root.ExecuteContext(t.Context()); failed != nil && !strings.Contains(printable(failed), want.said) {
			t.Errorf("%q: %v", args, failed)
		}
		if !strings.Contains(out.String(), want.out) || (want.out == "") != (out.Len() == 0) || !strings.Contains(err.String(), want.err) {
			t.Errorf("%q: out %q, err %q", args, out.String(), err.String())
		}
		if code := run(strings.Fields(args), &out); code != want.code {
			t.Errorf("%q: exit code %d, want %d", args, code, want.code)
		}
	}
}

// A local run that waits for a server says so at once. Other warnings of the start come below
// its output.
func TestAStartSaysThatItWaits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &console{out: &out, getenv: func(string) string { return "" }}
	log := slog.New(warning{slog.NewTextHandler(io.Discard, nil), c, nil})
	log.Warn("something else")
	log.Warn(assembly.WaitingFor+"the database", "err", "connection refused")
	if out.String() != "waiting for the database: connection refused …\n" {
		t.Errorf("%q", out.String())
	}
	c.Up(assembly.Up{})
	if !strings.HasSuffix(out.String(), " warn: something else\n") {
		t.Errorf("%q", out.String())
	}
	log.With("status", 503).With("err", "no space left on device").Error("request failed") // as the APIs log
	if !strings.HasSuffix(out.String(), " error: request failed: no space left on device\n") {
		t.Errorf("%q", out.String())
	}
}

// TestAServerWithoutALog: commands say what is missing, as services do while they wait.
func TestAServerWithoutALog(t *testing.T) {
	t.Setenv("NATS_URL", natstest.Start(t).URL())
	for _, args := range [][]string{{"tail"}, {"verify"}, {"backup", filepath.Join(t.TempDir(), "copies")}} {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(printable(err), "the log's streams are not there: run `ledger provision`, or mend NATS_URL") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A run adds to the log of the run before. A large log becomes the previous one first.
func TestLogFileIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.log")
	for _, size := range []int64{1 << 10, 17 << 20} {
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Truncate(path, size))
		log, err := (&console{}).Opened(dir)
		must(t, err)
		log.Info("of this run")
		before, err := os.Stat(path + ".1")
		now, errNow := os.ReadFile(path)
		must(t, errNow)
		if moved := err == nil && before.Size() == size; moved != (size > 16<<20) || moved != (len(now) < 1<<10) || !bytes.Contains(now, []byte("of this run")) {
			t.Errorf("%d bytes: moved %v, now %d bytes", size, moved, len(now))
		}
	}
}

// TestNothingToRestore: restoring fails for a folder that is missing, holds no backup, or
// has a damaged part, and leaves no data folder behind.
func TestNothingToRestore(t *testing.T) {
	for name, files := range map[string][]string{
		"not there":  nil,
		"another":    {"notes.txt"},
		"unfinished": {"secrets/master-key", "log/stream.s2"},
	} {
		t.Run(name, func(t *testing.T) {
			from, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
			for _, file := range files {
				path := filepath.Join(from, file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, []byte("x"), 0o600))
			}
			t.Setenv("LEDGER_DATA_DIR", data)
			t.Setenv("NATS_URL", "")
			if code := run([]string{"restore", from}, io.Discard); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if _, err := os.Stat(data); !os.IsNotExist(err) {
				t.Errorf("the data folder: %v", err)
			}
		})
	}
}

// TestVerifyExport: each bad file is a finding; a missing file is not.
func TestVerifyExport(t *testing.T) {
	onlyEnviron(t, nil)
	const folder = "../../../events/verify/testdata/export/"
	verify := func(args string, want int, says string) {
		t.Helper()
		var out strings.Builder
		if code := run(strings.Fields("verify-export "+args), &out); code != want || !strings.Contains(out.String(), says) {
			t.Errorf("%s: exit code %d, %s", args, code, out.String())
		}
	}
	verify(folder+"good.ndjson", 0, "good: the first 5 leaves")
	verify(folder+"good-empty.ndjson", 0, "not anchored")
	// It is not wrong: it was made too early.
	verify(folder+"good-empty.ndjson --rpc http://127.0.0.1:1", exitNotAnchored, "not anchored")
	verify(folder+"good-not-anchored.ndjson --rpc http://127.0.0.1:1", exitNotAnchored, "not anchored")
	verify(folder+"good.ndjson --rpc http://127.0.0.1:1", exitUsage, "good: the first 5 leaves")
	verify(folder+"none.ndjson", exitUsage, "")
	bad, err := os.ReadDir(folder + "bad")
	if err != nil || len(bad) == 0 {
		t.Fatal(err)
	}
	for _, file := range bad {
		verify(folder+"bad/"+file.Name(), exitFinding, "")
	}
}

// TestVerifyExportIsToldWhose: with --program and --authority, an export that someone else
// anchored is refused, as a receipt is.
func TestVerifyExportIsToldWhose(t *testing.T) {
	onlyEnviron(t, nil)
	const (
		folder    = "../../../events/verify/testdata/export/"
		owner     = "5Pk716N113awdSaUDZEPZVi9Zs6hJmG5KCJtp5qQK3LB"
		program   = "YMN9Qj5jPNp7j14VPcML1B6xGgcPWVZUGLFU3Mnyfaf"
		authority = "2kAiQNWWtXy8bTzmgMUhQFHAmuPyNSxmUVZ96PAbHi1g"
		stranger  = "9qVEsM5xVLiHf8FdiLeisn9Wfy5iYau3pQgTVxxXDPQu"
		commits   = "commits to this owner's log"
	)
	text, err := os.ReadFile(folder + "good.ndjson")
	must(t, err)
	export := filepath.Join(t.TempDir(), "export.ndjson")
	account := verify.CommitmentAddress(program, authority, owner)
	must(t, os.WriteFile(export, bytes.Replace(text, []byte("cGfHiC6Kgg3FpFZvgwGcswsCRtp4aBP2fzuXRQPizuN"), []byte(account), 1), 0o600))
	for args, want := range map[string]struct {
		code  int
		named bool // who committed
	}{
		export:                           {0, false},
		export + " --program " + program: {0, false},
		export + " --program " + program + " --authority " + authority:  {0, true},
		export + " --authority " + authority:                            {exitUsage, false},
		export + " --program " + program + " --authority " + stranger:   {exitFinding, false},
		export + " --program " + stranger + " --authority " + authority: {exitFinding, false},
		folder + "good-not-anchored.ndjson --program " + program:        {exitNotAnchored, false},
	} {
		var out strings.Builder
		if code := run(strings.Fields("verify-export "+args), &out); code != want.code || strings.Contains(out.String(), commits) != want.named {
			t.Errorf("%s: exit code %d, %s", args, code, out.String())
		}
	}
}

// TestTailIsHarmless: whatever an owner wrote into metadata, an event is printed as one
// line, moves no cursor, and is the same JSON.
func TestTailIsHarmless(t *testing.T) {
	t.Parallel()
	metadata := "{\"a\u009b2J\":\"\x7f\u0080\u0085\u009f\u2028\u2029\",\"b\":\"é\u00a0\u2027\u202a😀\\u001b\\u009b\"}"
	payload, err := events.EncodeBatch([]events.Event{{
		ID: "id", Source: "/test", Owner: logtest.Owner(), Time: events.At(time.Now()), OwnerVersion: 1, CommandID: "c",
		Data: &events.MemoryWritten{MemoryID: "m", LeafVersion: 1, Metadata: []byte(metadata), Sealed: []byte("sealed")},
	}})
	must(t, err)
	var out bytes.Buffer
	tail := tailing{json: true}
	must(t, tail.print(&out, eventlog.Record{Seq: 7, Payload: payload}))
	line := strings.TrimSuffix(out.String(), "\n")
	if strings.ContainsFunc(line, unicode.IsControl) || strings.ContainsAny(line, "\u2028\u2029") {
		t.Errorf("%q", line)
	}
	for _, want := range []string{`\u007f\u0080\u0085\u009f\u2028\u2029`, `"a\u009b2J"`, "é\u00a0\u2027" + `\u202a` + "😀"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	var printed struct {
		Data struct{ Metadata any }
	}
	var want any
	if json.Unmarshal([]byte(line), &printed) != nil || json.Unmarshal([]byte(metadata), &want) != nil || !reflect.DeepEqual(printed.Data.Metadata, want) {
		t.Errorf("%s, want %s", line, metadata)
	}
}

// TestSummary marks what makes an audit incomplete among what was not checked.
func TestSummary(t *testing.T) {
	var b strings.Builder
	must(t, printSummary(&b, audit.Summary{NotChecked: []string{"a key", "a chain", "a key", "a replica"}, Incomplete: []string{"a key", "a key", "a replica"}}))
	if _, said, _ := strings.Cut(b.String(), "leaves\n"); !strings.HasPrefix(said, "INCOMPLETE   a key\nnot checked  a chain\nINCOMPLETE   a key\nINCOMPLETE   a replica\nincomplete:") {
		t.Error(b.String())
	}
}
