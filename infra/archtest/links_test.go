package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestLinks follows the links between documents, and to files, as a reader would.
func TestLinks(t *testing.T) {
	t.Parallel()
	for path, text := range texts(t) {
		for _, l := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if problem := dangling(path, l[1]); problem != "" {
				t.Errorf("%s: %s: %s", path, l[1], problem)
			}
		}
	}
}

// dangling returns what is wrong with a link of a document, or "" if it is good.
func dangling(document, target string) string {
	if strings.Contains(target, "://") {
		return ""
	}
	name, fragment, _ := strings.Cut(target, "#")
	path := document
	if name != "" {
		path = filepath.Join(filepath.Dir(document), name)
	}
	if _, err := os.Stat(path); err != nil {
		return "no such file"
	}
	if fragment == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchor(h[1]) == fragment {
			return ""
		}
	}
	return "no such heading"
}

// anchor is the fragment that GitHub gives a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
