package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

// TestGoClientReadme runs the README's program in its own module, outside of this
// workspace, and counts the modules that the client brings.
func TestGoClientReadme(t *testing.T) {
	slow(t) // compiles a program
	s := shared(t)
	client := must(filepath.Abs("../../clients/go"))
	readme := must(os.ReadFile(filepath.Join(client, "README.md")))
	_, after, found := strings.Cut(string(readme), "```go\n")
	program, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("the README has no program")
	}
	_, after, found = strings.Cut(string(readme), "```sh\n")
	install, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("the README does not say how to install the client")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": strings.Replace(program, "http://127.0.0.1:3001", s.Core[0].URL, 1),
		"go.mod":  "module fresh\n\ngo 1.26.0\n",
	} {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	key := must(newGoClient(t, s).CreateKey(t.Context(), memoryledger.NewKey{Label: "readme"}))
	command := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "LEDGER_API_KEY="+key.Secret)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	goCommand := func(args ...string) string { return command("go", args...) }
	command("sh", "-ec", strings.ReplaceAll(install, "/path/to/ledger", filepath.Join(client, "../../..")))
	if out, want := goCommand("run", "."), "0 I had oatmeal this morning\n"; !strings.HasSuffix(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
	if modules := strings.Count(goCommand("list", "-m", "all"), "\n"); modules >= 15 {
		t.Errorf("%d modules", modules)
	}
}
