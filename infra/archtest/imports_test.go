package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	prefix = "github.com/memory-ledger/ledger/"
)

// rule says which of our packages the packages below a folder may import.
type rule struct {
	folder string
	may    []string // prefixes of packages; a package may always import below its own folder
}

// rules are tried in order: the first rule whose folder contains the package decides.
// They make the folder tree show the data flow: facts, derived state, commitments, APIs,
// and machines (infra), which import none of our other packages.
var rules = []rule{
	// A verifier must not need the product.
	{"events/verify", nil},
	{"events", nil},
	{"infra", nil},
	{"projections", []string{"events"}},
	// The anchorer's owners are a projection of the log. The package projector runs it.
	{"anchoring/anchorer", []string{"events", "anchoring", "projections/tree", "projections/schema", "projections/projector"}},
	{"anchoring", []string{"events", "projections/tree", "projections/schema", "projections/readmodel/batches"}},
	// A backup is a folder that must survive power cuts: datadir can do that. It holds
	// the files of a local chain, is tested on a separate server, and gets its streams'
	// settings from their files.
	{"services/run/backup", []string{"events", "services", "infra/datadir", "infra/localchain", "infra/localnats", "infra/nats"}},
	{"services/cmd", []string{"events", "projections", "anchoring", "infra", "services"}},
	{"services/run/assembly", []string{"events", "projections", "anchoring", "infra", "services"}},
	{"services/test", []string{"events", "projections", "anchoring", "infra", "services"}},
	// A program that uses a client must not import the product.
	{"services/clients", []string{"events/verify"}},
	{"services/core", servicesBut("services/extension", "services/staking")},
	{"services/extension", servicesBut("services/core")},
	{"services/staking", servicesBut("services/extension", "services/run/assembly", "services/cmd")},
	{"services", servicesBut("services/core", "services/extension", "services/run/assembly", "services/cmd")},
}

// servicesBut returns everything but infra and the given packages, which are
// marked with a leading "!".
func servicesBut(not ...string) []string {
	may := []string{"events", "projections", "anchoring", "services"}
	for _, n := range not {
		may = append(may, "!"+n)
	}
	return may
}

func (r rule) allows(importing, imported string) bool {
	allowed := below(imported, r.folder) && below(importing, r.folder)
	for _, m := range r.may {
		if not, found := strings.CutPrefix(m, "!"); found {
			if below(imported, not) {
				return false
			}
			continue
		}
		allowed = allowed || below(imported, m)
	}
	return allowed
}

func below(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func ruleOf(pkg string) (rule, bool) {
	for _, r := range rules {
		if below(pkg, r.folder) {
			return r, true
		}
	}
	return rule{}, false
}

// TestImportDirections reads the imports of every file that is not a test.
func TestImportDirections(t *testing.T) {
	t.Parallel()
	files := 0
	for path := range goFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			files++
			must(t, checkImports(t, path))
		}
	}
	if files < 50 {
		t.Errorf("only %d files were read", files)
	}
}

func checkImports(t *testing.T, path string) error {
	t.Helper()
	relative, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	importing := filepath.ToSlash(relative)
	r, known := ruleOf(importing)
	if !known {
		t.Errorf("%s: no rule says what this folder may import", path)
		return nil
	}
	if supportsTests(t, filepath.Dir(path)) {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, spec := range file.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		imported, ours := strings.CutPrefix(full, prefix)
		if ours && !r.allows(importing, imported) {
			t.Errorf("%s imports %s: %s may import %v", path, imported, r.folder, r.may)
		}
	}
	return nil
}

// supportsTests reports whether a package imports "testing". Such a package is not part
// of the product and may use the machines.
func supportsTests(t *testing.T, dir string) bool {
	t.Helper()
	packages, err := filepath.Glob(filepath.Join(dir, "*.go"))
	must(t, err)
	for _, path := range packages {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		must(t, err)
		for _, spec := range file.Imports {
			if spec.Path.Value == `"testing"` && !strings.HasSuffix(path, "_test.go") {
				return true
			}
		}
	}
	return false
}

// TestModulesRequireNoKit: these modules can be used without servers and test kits.
func TestModulesRequireNoKit(t *testing.T) {
	t.Parallel()
	for module, without := range map[string][]string{
		"events/verify": {prefix + "events ", "nats-io"},
		"events":        {prefix + "infra", "nats-server"}, "projections": {prefix + "infra", "nats-server"}, "anchoring": {prefix + "infra"},
		"services": {prefix + "services/test"}, "services/clients/go": {prefix + "events ", "nats-io", "pgx"},
	} {
		text, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		must(t, err)
		for _, other := range without {
			if strings.Contains(string(text), other) {
				t.Errorf("%s requires %s", module, other)
			}
		}
	}
}

// drawers are names that say nothing about what is inside.
var drawers = []string{"common", "util", "utils", "helper", "helpers", "types", "misc", "shared", "base", "lib"}

func TestNoDrawers(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		if strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "node_modules" {
			return filepath.SkipDir
		}
		for _, drawer := range drawers {
			if entry.Name() == drawer {
				t.Errorf("%s: a name that says nothing", path)
			}
		}
		return nil
	})
	must(t, err)
}
