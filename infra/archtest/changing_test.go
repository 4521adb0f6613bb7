package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const changing = root + "/docs/changing.md"

var precedent = regexp.MustCompile("(?m)^Precedent: `([^`]+)`")

// kits are folders of test code, which the sections name where they must change.
var kits = []string{"services/test", "services/clients/go/examples", "projections/internal/fixture"}

// TestChangesAreListed: each section of docs/changing.md names all product files that
// mention its precedent.
func TestChangesAreListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(changing)
	must(t, err)
	sources := productFiles(t)
	sections := strings.Split(string(text), "\n## ")[1:]
	precedents := 0
	for _, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		var listed []string
		for _, l := range link.FindAllStringSubmatch(section, -1) {
			listed = append(listed, filepath.Join(filepath.Dir(changing), l[1]))
		}
		match := precedent.FindStringSubmatch(section)
		if match == nil {
			continue
		}
		precedents++
		mentions, found := regexp.MustCompile(match[1]), 0
		for path, source := range sources {
			if !mentions.MatchString(source) {
				continue
			}
			found++
			if !slices.Contains(listed, path) {
				t.Errorf("%s: %s mentions %s and is not listed", title, path, match[1])
			}
		}
		if found == 0 {
			t.Errorf("%s: no file mentions %s", title, match[1])
		}
	}
	if precedents != 5 {
		t.Errorf("%d changes have a precedent", precedents)
	}
}

// productFiles returns the text of all Go files except tests and their kits, by path.
func productFiles(t *testing.T) map[string]string {
	t.Helper()
	files := goFiles(t)
	for path := range files {
		within, err := filepath.Rel(root, path)
		must(t, err)
		within = filepath.ToSlash(within)
		if strings.HasSuffix(path, "_test.go") || slices.ContainsFunc(kits, func(kit string) bool { return strings.HasPrefix(within, kit+"/") }) {
			delete(files, path)
		}
	}
	return files
}

// goFiles returns the text of all Go files, by path.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, module := range []string{"events", "projections", "anchoring", "services", "infra"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			if !strings.HasSuffix(path, ".go") {
				return nil
			}
			source, err := os.ReadFile(path)
			files[path] = string(source)
			return err
		})
		must(t, err)
	}
	return files
}
