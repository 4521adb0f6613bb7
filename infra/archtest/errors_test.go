package archtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const refusals = root + "/services/httpapi/refusal.go"

// errorsOf are the packages whose errors reach a route.
var errorsOf = []string{
	"events/canonical", "services/access", "services/command", "services/feed", "services/grant", "services/memory",
	"services/quota", "services/recall", "services/search", "services/signin",
}

// handled are the errors that never reach a route by this name: their callers handle them,
// and ErrGrantDead is in the table as grant.ErrDead.
var handled = []string{"command.ErrErased", "command.ErrGrantDead", "memory.ErrEnough", "signin.ErrToken"}

// TestEveryErrorHasAStatus: an error without a row in the table would be answered with 500.
func TestEveryErrorHasAStatus(t *testing.T) {
	t.Parallel()
	declared := regexp.MustCompile(`(?m)^(?:var |\t)(Err[A-Z]\w*)\s+=`)
	files, found := goFiles(t), 0
	table := files[filepath.FromSlash(refusals)]
	for path, source := range files {
		folder, err := filepath.Rel(root, filepath.Dir(path))
		must(t, err)
		folder = filepath.ToSlash(folder)
		if !slices.Contains(errorsOf, folder) || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, match := range declared.FindAllStringSubmatch(source, -1) {
			found++
			name := filepath.Base(folder) + "." + match[1]
			inTable := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(table)
			if isHandled := slices.Contains(handled, name); !inTable && !isHandled {
				t.Errorf("%s has no row in %s", name, refusals)
			} else if inTable && isHandled {
				t.Errorf("%s has a row in %s, and is listed here as handled", name, refusals)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d errors were found", found)
	}
}
