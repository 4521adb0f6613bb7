package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/archtest/documents"
)

// languages are the languages of fenced blocks. TestDocuments runs "sh",
// TestTypeScriptClient runs "js", and TestPythonClient runs "py".
var languages = []string{"sh", "go", "json", "text", "yaml", "sql", "js", "py"}

// looksLikeCommand finds a command in a block that is not marked as commands.
var looksLikeCommand = regexp.MustCompile(`^(\$ )?([A-Z_]+=\S+ )*(bin/ledger|ledger (run|verify|tail|rebuild|backup|restore|env)|\./\S+|make|go|curl|npm|node|docker|kubectl|psql|nats|openssl|solana(-keygen)?|export|eval|cd|sudo|apt-get|git|infra/\S+)( |$)`)

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):`)
	testName   = regexp.MustCompile(`\bTest[A-Z]\w*`)
)

// complaints lists the problems of a document's blocks. targets are the Makefile's
// targets. tests are the names of all tests.
func complaints(markdown string, targets, tests []string) (found []string) {
	for _, b := range documents.Blocks(markdown) {
		first, _, _ := strings.Cut(b.Text, "\n")
		complain := func(what string) { found = append(found, what+": "+first) }
		switch {
		case b.Indented && looksLikeCommand.MatchString(first):
			complain("a command outside a block marked sh")
		case b.Indented:
		case !slices.Contains(languages, b.Language):
			complain("a block of no known language")
		case b.NotRun != "" && !b.Shell():
			complain("nothing there that could be run")
		case b.NotRun != "" && len(b.NotRun) < len("needs X"):
			complain("no reason why it is not run")
		}
		for _, target := range b.OnlyMake() {
			if b.Shell() && !slices.Contains(targets, target) {
				complain("no such target: make " + target)
			}
		}
		for _, name := range testName.FindAllString(b.NotRun, -1) {
			if !slices.Contains(tests, name) {
				complain("no such test: " + name)
			}
		}
		if b.Shell() {
			if out, err := exec.Command("bash", "-n", "-c", b.Text).CombinedOutput(); err != nil {
				complain("not the shell's language: " + string(out))
			}
		}
	}
	return found
}

// TestCommandsAreRunOrSayWhyNot: TestDocuments (services/test/e2e) runs the commands
// that documents show, or the document says why it can't.
func TestCommandsAreRunOrSayWhyNot(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	must(t, err)
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	tests := allTests(t)
	for path, text := range texts(t) {
		for _, c := range complaints(text, targets, tests) {
			t.Errorf("%s: %s", path, c)
		}
	}
}

func allTests(t *testing.T) []string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	var names []string
	for path, source := range goFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllStringSubmatch(source, -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 100 {
		t.Fatalf("%d tests", len(names))
	}
	return names
}
