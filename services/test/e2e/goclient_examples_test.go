package e2e_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func goClientFolder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../clients/go")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGoClientReadme runs the README's program in its own module, outside of this
// workspace, and counts the modules that the client brings.
func TestGoClientReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program: make verify runs it")
	}
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	client := goClientFolder(t)
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
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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

// TestNotebook uses the notebook as a person does.
func TestNotebook(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program: make verify runs it")
	}
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	service := startLiar(t, s.Core[0].URL)
	owner := newGoClient(t, s)
	key := must(owner.CreateKey(t.Context(), memoryledger.NewKey{Label: "notebook"}))
	dir := t.TempDir()
	program := filepath.Join(dir, "notebook")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/notebook")
	build.Dir = goClientFolder(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "LEDGER_URL="+service.URL, "LEDGER_API_KEY="+key.Secret, "NOTEBOOK_HEADS="+filepath.Join(dir, "kept", "heads.json"))
		return cmd
	}
	says := func(want string, args ...string) string {
		t.Helper()
		out, err := command(args...).CombinedOutput()
		if err != nil || !regexp.MustCompile(want).Match(out) {
			t.Errorf("%v: %v, it says %s, want %s", args, err, out, want)
		}
		return strings.TrimSpace(string(out))
	}
	fails := func(want string, args ...string) {
		t.Helper()
		out, err := command(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v, it says %s, want %s", args, err, out, want)
		}
	}
	fails("usage")
	fails("usage", "note")
	fails("usage", "list", "all")
	cat := says(`^[0-9a-f-]{36}\n$`, "note", "The cat", "sleeps")
	says(`^[0-9a-f-]{36}\n$`, "note", "Rain at noon")
	says(`^ +1  .* Rain at noon\n +0  .* The cat sleeps\n$`, "list")
	says(`^ +0  .* The cat sleeps\n$`, "find", "sleeping", "cats")
	says(`^good: it is leaf 0 of 2 `, "verify", cat)
	says(`^good: 2 leaves, 0 of them retracted, `, "verify")
	if err := owner.Retract(t.Context(), cat); err != nil {
		t.Fatal(err)
	}
	says(`^good: 2 leaves, 1 of them retracted, `, "verify")
	fails("410", "verify", cat)

	// A fork is detected against the head that an earlier run stored.
	service.tell(lie{path: regexp.MustCompile(`^/log$`), change: flipMember("root")})
	fails("the service lies", "list")
	service.tell(lie{})

	followed(t, command("follow"), owner)
}

// followed starts a follower and writes until it prints a note.
func followed(t *testing.T, follow *exec.Cmd, owner *memoryledger.Client) {
	t.Helper()
	out, err := follow.StdoutPipe()
	if err == nil {
		err = follow.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	printed, writing := make(chan string, 1), make(chan struct{})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	go func() {
		defer close(writing)
		for ctx.Err() == nil && len(printed) == 0 {
			_, _ = owner.Write(ctx, "while it follows", nil) // until the follower has connected
		}
	}()
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		printed <- lines.Text()
	}
	<-writing
	if !strings.HasSuffix(lines.Text(), "while it follows") {
		t.Errorf("it printed %q", lines.Text())
	}
	// An interrupt ends it without an error.
	if err := follow.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := follow.Wait(); err != nil {
		t.Error(err)
	}
}
