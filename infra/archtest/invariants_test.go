package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const register = root + "/docs/invariants.md"

var (
	heading = regexp.MustCompile(`^### I(\d+)\. (.+)$`)
	bullet  = regexp.MustCompile(`^- (enforced|audited|tested): (.+)$`)
	link    = regexp.MustCompile("\\[(`?)([^\\]`]+)`?\\]\\(([^)]+)\\)")
)

// problems reads a register of invariants and lists its problems: numbers out of order,
// invariants without a check or a test, and dead links. Links are relative to folder.
func problems(text, folder string) (found []string) {
	number, seen := 0, map[string]bool{"enforced": true, "tested": true}
	complain := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("I%d: ", number)+fmt.Sprintf(format, args...))
	}
	complete := func() {
		for _, kind := range []string{"enforced", "tested"} {
			if !seen[kind] {
				complain("nothing says where it is %s", kind)
			}
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if match := heading.FindStringSubmatch(line); match != nil {
			complete()
			number++
			seen = map[string]bool{}
			if match[1] != fmt.Sprint(number) {
				complain("is numbered %s", match[1])
			}
		} else if match := bullet.FindStringSubmatch(line); match != nil {
			links := link.FindAllStringSubmatch(match[2], -1)
			seen[match[1]] = len(links) > 0
			for _, l := range links {
				if problem := dangling(folder, l[1] != "", l[2], l[3], match[1] == "tested"); problem != "" {
					complain("%s", problem)
				}
			}
		} else if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "###") {
			complain("can't be read: %s", line)
		}
	}
	complete()
	if number == 0 {
		found = append(found, "no invariants")
	}
	return found
}

// dangling returns what is wrong with a link, or "" if the link is good.
func dangling(folder string, code bool, name, target string, isTest bool) string {
	path := filepath.Join(folder, target)
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("%s: no such file", target)
	}
	if isTest && (!strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz")) {
		return fmt.Sprintf("%s in %s is no test", name, target)
	}
	if !code || name == filepath.Base(path) {
		return "" // the file as a whole
	}
	names, err := declared(path, content)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(names, name) {
		return fmt.Sprintf("%s declares no %s", target, name)
	}
	return ""
}

// declared lists the names that a Go file declares; methods as "Receiver.Name".
func declared(path string, content []byte) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names, nil
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if pointer, ok := t.(*ast.StarExpr); ok {
		t = pointer.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func TestInvariantsAreLinked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(register)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems(string(text), filepath.Dir(register)) {
		t.Errorf("docs/invariants.md: %s", problem)
	}
}

// TestDanglingLinksAreFound tries registers that must not pass.
func TestDanglingLinksAreFound(t *testing.T) {
	t.Parallel()
	const good = "### I1. One\n\n- enforced: [`rules`](imports_test.go), [`rule.allows`](imports_test.go)\n- tested: [`TestRulesBite`](imports_test.go)\n"
	if found := problems(good, "."); found != nil {
		t.Errorf("a good one: %q", found)
	}
	for text, want := range map[string]string{
		"":                                   "no invariants",
		strings.Replace(good, "I1", "I2", 1): "numbered",
		strings.Replace(good, "(imports_test.go)", "(exports_test.go)", 1):     "no such file",
		strings.Replace(good, "`rules`", "`allows`", 1):                        "declares no allows",
		strings.Replace(good, "TestRulesBite", "TestRulesBark", 1):             "declares no TestRulesBark",
		strings.Replace(good, "[`TestRulesBite`](imports_test.go)", "soon", 1): "tested",
		strings.Replace(good, "[`TestRulesBite`](imports", "[`x`](imports", 1): "no test",
		strings.Replace(good, "- enforced", "- promised", 1):                   "can't be read",
	} {
		if found := problems(text, "."); !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("%s\nfound %q, want %q", text, found, want)
		}
	}
}
