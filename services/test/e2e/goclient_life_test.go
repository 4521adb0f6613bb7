package e2e_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

// TestGoClientCorrects: the client checks members and corrections of an honest service, and
// two receipts prove a correction without it.
func TestGoClientCorrects(t *testing.T) {
	s := shared(t)
	ctx, c := t.Context(), newGoClient(t, s)
	old := must(c.Write(ctx, "Ada lives in Oslo", nil))
	other := must(c.Write(ctx, "Bob lives in Rome", nil))
	correction := memoryledger.NewMemory{
		Content: "Ada lives in Porto", Metadata: memoryledger.Metadata{"n": 1}, Source: " diary ", OccurredAt: "1999-05-01",
		Tags: []string{"people"}, Namespace: "friends", Supersedes: []string{old.ID},
	}
	w := must(c.Store(ctx, correction, memoryledger.IdempotencyKey("once")))
	if again := must(c.Store(ctx, correction, memoryledger.IdempotencyKey("once"))); *again != *w {
		t.Errorf("%+v, again %+v", w, again)
	}
	m, was := must(c.Get(ctx, w.ID)), must(c.Get(ctx, old.ID))
	if !slices.Equal(m.Supersedes, []string{old.ID}) || !slices.Equal(was.SupersededBy, []string{w.ID}) || m.Metadata["source"] != "diary" {
		t.Errorf("%+v, %+v", m, was)
	}
	newer, older, beside := must(c.Receipt(ctx, w.ID)), must(c.Receipt(ctx, old.ID)), must(c.Receipt(ctx, other.ID))
	noErr(t, newer.Corrects(older))
	for _, pair := range [][2]*memoryledger.Receipt{{older, newer}, {newer, beside}, {newer, newer}} {
		if err := pair[0].Corrects(pair[1]); !errors.Is(err, memoryledger.ErrNoCorrection) {
			t.Error(err)
		}
	}
	changed := *newer
	changed.Entry.Metadata = []byte(`{"supersedes":["` + beside.LeafHash.String() + `"]}`)
	if err := changed.Corrects(beside); !errors.Is(err, memoryledger.ErrWrongText) {
		t.Error(err)
	}
	forged := *older
	forged.Entry.Content = "Ada lived in Rome"
	if err := newer.Corrects(&forged); !errors.Is(err, memoryledger.ErrWrongText) {
		t.Error(err)
	}
	stranger := newGoClient(t, s)
	theirs := must(stranger.Receipt(ctx, must(stranger.Write(ctx, "Ada lives in Oslo", nil)).ID))
	if err := newer.Corrects(theirs); !errors.Is(err, memoryledger.ErrWrongOwner) {
		t.Error(err)
	}

	// A client that does not know the old memory.
	program := memoryledger.New(s.Core[0].URL, memoryledger.WithAPIKey(must(c.CreateKey(ctx, memoryledger.NewKey{Label: "x"})).Secret))
	must(program.Get(ctx, must(program.Store(ctx, memoryledger.NewMemory{Content: "Ada lives in Faro", Supersedes: []string{w.ID}})).ID))

	no := false
	found := must(all(c.Search(ctx, "lives", memoryledger.SearchOptions{Order: memoryledger.Occurred, Filter: memoryledger.Filter{
		Namespace: "friends", Tags: []string{"people"}, OccurredFrom: "1999-05-01", OccurredTo: "1999-05-01",
	}})))
	if len(found) != 1 || found[0].ID != w.ID {
		t.Errorf("%+v", found)
	}
	if found = must(all(c.Search(ctx, "Ada", memoryledger.SearchOptions{Filter: memoryledger.Filter{Superseded: &no}}))); len(found) != 1 || found[0].Content != "Ada lives in Faro" {
		t.Errorf("%+v", found)
	}
}

// TestGoClientWithALimitedKey: an honest service is not called a liar, and a lie about what
// can be checked is caught.
func TestGoClientWithALimitedKey(t *testing.T) {
	s := shared(t)
	ctx, c := t.Context(), newGoClient(t, s)
	service := startLiar(t, s.Core[0].URL)
	must(c.Store(ctx, memoryledger.NewMemory{Content: "at home", Namespace: "home"}))
	key := must(c.CreateKey(ctx, memoryledger.NewKey{Label: "x", Namespaces: []string{"work"}}))
	if !slices.Equal(key.Namespaces, []string{"work"}) {
		t.Errorf("%+v", key)
	}
	told := memoryledger.New(service.URL, memoryledger.WithAPIKey(key.Secret), memoryledger.WithNamespaces("work"))
	untold := memoryledger.New(service.URL, memoryledger.WithAPIKey(key.Secret))
	var ids []string
	for _, program := range []*memoryledger.Client{told, untold} {
		id := must(program.Write(ctx, "at work", memoryledger.Metadata{"n": 1})).ID
		if m := must(program.Get(ctx, id)); m.Metadata["namespace"] != "work" {
			t.Errorf("%+v", m)
		}
		ids = append(ids, id)
	}
	list := func(c *memoryledger.Client, order memoryledger.Order) ([]string, error) {
		listed, err := all(c.List(ctx, memoryledger.ListOptions{Order: order, PageSize: 10}))
		return memoryIDs(listed), err
	}
	if got, err := list(told, memoryledger.Oldest); err != nil || !slices.Equal(got, ids) {
		t.Error(got, err)
	}
	if got, err := list(told, memoryledger.Newest); err != nil || !slices.Equal(got, []string{ids[1], ids[0]}) {
		t.Error(got, err)
	}
	if _, err := list(untold, memoryledger.Oldest); !errors.Is(err, memoryledger.ErrForbidden) {
		t.Error(err)
	}
	for name, change := range map[string]func([]any) []any{
		"another order":     func(m []any) []any { return []any{m[1], m[0]} },
		"twice":             func(m []any) []any { return []any{m[0], m[0], m[1]} },
		"another text":      func(m []any) []any { m[0].(map[string]any)["content"] = "at rest"; return m },
		"another namespace": func(m []any) []any { m[1].(map[string]any)["metadata"] = map[string]any{"namespace": "home"}; return m },
		"another leaf": func(m []any) []any {
			m[0].(map[string]any)["leafHash"] = flip(m[0].(map[string]any)["leafHash"])
			return m
		},
	} {
		service.tell(lie{method: http.MethodGet, path: regexp.MustCompile(`^/memories$`), change: editList(change)})
		var v *memoryledger.VerificationError
		if _, err := list(told, memoryledger.Oldest); !errors.As(err, &v) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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
