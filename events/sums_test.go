package events_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sumsFile lists every golden file with its hash, in the format of sha256sum. Lines are
// added to it, and never changed or removed.
const sumsFile = "testdata/golden/SHA256SUMS"

// parseSums returns the hash of each file of a list.
func parseSums(list string) (map[string]string, error) {
	sums := map[string]string{}
	for line := range strings.Lines(list) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if _, twice := sums[name]; !ok || len(sum) != 64 || twice || filepath.Base(name) != name {
			return nil, fmt.Errorf("line %q", line)
		}
		sums[name] = sum
	}
	return sums, nil
}

// differences lists the differences between the files and the list.
func differences(sums map[string]string, files map[string][]byte) (found []string) {
	for name, content := range files {
		if sum, listed := sums[name]; !listed {
			found = append(found, name+" is not listed")
		} else if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sum {
			found = append(found, name+" was changed")
		}
	}
	for name := range sums {
		if _, there := files[name]; !there {
			found = append(found, name+" is gone")
		}
	}
	slices.Sort(found)
	return found
}

func goldenFiles(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestGoldenBytesNeverChange(t *testing.T) {
	list, err := os.ReadFile(sumsFile)
	must(t, err)
	sums, err := parseSums(string(list))
	must(t, err)
	files := goldenFiles(t)
	if found := differences(sums, files); len(found) > 0 {
		t.Errorf("%v; a new file gets its line by GOLDEN=write, an old one must be as it was", found)
	}
	// Each of the three kinds of difference is noticed.
	const some = "MemoryWritten.v1.json"
	for want, change := range map[string]func(map[string]string, map[string][]byte){
		some + " is not listed": func(sums map[string]string, _ map[string][]byte) { delete(sums, some) },
		some + " was changed": func(_ map[string]string, files map[string][]byte) {
			files[some] = append(slices.Clone(files[some]), '\n')
		},
		some + " is gone": func(_ map[string]string, files map[string][]byte) { delete(files, some) },
	} {
		sums, files := maps.Clone(sums), maps.Clone(files)
		change(sums, files)
		if found := differences(sums, files); !slices.Equal(found, []string{want}) {
			t.Errorf("found %v, want %q", found, want)
		}
	}
}

// lost returns the lines that the list lacks now but had at any time in its history. A
// changed line counts as lost.
func lost(history, list string) (lines []string) {
	now := slices.Collect(strings.Lines(list))
	for line := range strings.Lines(history) {
		added, ok := strings.CutPrefix(line, "+")
		if ok && !strings.HasPrefix(added, "++ ") && !slices.Contains(now, added) && !slices.Contains(lines, added) {
			lines = append(lines, added)
		}
	}
	return lines
}

// TestSumsOnlyGain looks at the whole history of the list.
func TestSumsOnlyGain(t *testing.T) {
	if found := lost("+++ b/SHA256SUMS\n+11  a\n+22  b\n-11  a\n+33  a\n", "33  a\n22  b\n"); !slices.Equal(found, []string{"11  a\n"}) {
		t.Errorf("found %q", found)
	}
	list, err := os.ReadFile(sumsFile)
	must(t, err)
	history, err := exec.Command("git", "log", "-p", "-m", "--format=", "--", sumsFile).Output()
	if err != nil {
		t.Skipf("no history at hand: %v", err)
	}
	if found := lost(string(history), string(list)); len(found) > 0 {
		t.Errorf("lines that were there once: %q", found)
	}
}

// addSum adds a golden file's line to the list; TestGolden does it for a file
// that it just wrote.
func addSum(name string, content []byte) error {
	file, err := os.OpenFile(sumsFile, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(file, "%x  %s\n", sha256.Sum256(content), name); err != nil {
		return err
	}
	return file.Close()
}
