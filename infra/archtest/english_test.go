// Package archtest tests the rules that no compiler checks: which package may import
// which, what the repository must not contain, and that the documents' commands, links,
// words and lengths are as they should be.
package archtest

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/archtest/documents"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// unplain are words that make a sentence hard to read for an engineer in a hurry.
// Say which role or process does it, and "again".
var unplain = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|anybody|anew|unasked|comes to nothing|so many that wait)\b`)

// headless matches a statement that begins with a clause ("What fails is tried again.")
// instead of a subject ("A failed request is retried.").
var headless = regexp.MustCompile(`(?m)(?:^|[.:;?] )(?:What|Who|Whose|Whom|Whatever) [^.?!;:]*[.;]`)

// code matches quoted code in a document: messages and names are not prose.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// TestPlainEnglish looks for both in documents and in the comments of Go files.
func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	for path, text := range texts(t) {
		for _, word := range unplainWords(text) {
			t.Errorf("%s says %q", path, word)
		}
	}
	for path, source := range goFiles(t) {
		if filepath.Base(path) == "english_test.go" || filepath.ToSlash(path) == root+"/infra/localpostgres/doc.go" {
			continue // the words themselves, and the Unix user nobody
		}
		for _, word := range unplainComments(t, path, source) {
			t.Errorf("a comment in %s says %q", path, word)
		}
	}
}

// texts returns the text of all documents, by path.
func texts(t *testing.T) map[string]string {
	t.Helper()
	all, err := documents.List(root)
	if err != nil || len(all) < 15 {
		t.Fatalf("%d documents, %v", len(all), err)
	}
	read := map[string]string{}
	for _, path := range all {
		text, err := os.ReadFile(path)
		must(t, err)
		read[path] = string(text)
	}
	return read
}

func unplainWords(text string) []string {
	text = code.ReplaceAllString(text, "")
	return append(unplain.FindAllString(text, -1), headless.FindAllString(text, -1)...)
}

func unplainComments(t *testing.T, path, source string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.SkipObjectResolution)
	must(t, err)
	for _, group := range file.Comments {
		found = append(found, unplainWords(strings.Join(strings.Fields(group.Text()), " "))...)
	}
	return found
}

// TestDocumentsAreShort bounds the documents that grow with every change, and all of them.
func TestDocumentsAreShort(t *testing.T) {
	t.Parallel()
	count := func(path string) int {
		text, err := os.ReadFile(path)
		must(t, err)
		return len(strings.Fields(string(text)))
	}
	for name, most := range map[string]int{
		"README.md": 1000, "CHANGELOG.md": 300, "docs/agents.md": 1200, "docs/anchoring.md": 1200, "docs/api.md": 2200, "docs/architecture.md": 1000,
		"docs/audit.md": 2400, "docs/changing.md": 600, "docs/operations.md": 2400, "docs/performance.md": 800, "docs/threat-model.md": 1700,
	} {
		if words := count(filepath.Join(root, name)); words > most {
			t.Errorf("%s has %d words, of at most %d", name, words, most)
		}
	}
	pages, err := documents.List(root + "/docs")
	must(t, err)
	words := 0
	for _, path := range append(pages, root+"/README.md", root+"/CONTRIBUTING.md") {
		words += count(path)
	}
	if words > 17000 {
		t.Errorf("the documents have %d words, of at most 17000", words)
	}
}
