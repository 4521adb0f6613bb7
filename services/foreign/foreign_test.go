package foreign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/foreign"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var must = testkit.Must

// folder writes files and returns the folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func read(t *testing.T, path string, o foreign.Options) (all []foreign.Entry) {
	t.Helper()
	must(t, foreign.Read(path, o, func(e foreign.Entry) error {
		all = append(all, e)
		return nil
	}))
	return all
}

// TestWhatEachFormatHolds: texts, dates, tags and namespaces arrive where searches find
// them, and everything else is kept.
func TestWhatEachFormatHolds(t *testing.T) {
	t.Parallel()
	vault := map[string]string{
		"work/plan.md":          "---\ndate: 2024-03-01\ntags: [plans, \"#big\"]\nrating: 4.5\nnested: {a: [1, 2024-01-01]}\n---\nShip in May.\n\n## Risks\n\nNone.\n\n```\n# not a heading\n```\n\n## Risks\n\nOne.\n",
		"loose.md":              "\ufeffNo front matter.\r\n",
		".obsidian/settings.md": "never read",
		"work/picture.png":      "never read",
		"home/broken.md":        "---\na: [\n---\ntext",
		"home/empty.md":         "---\na: 1\n---\n",
		"home/named.md":         "---\nin: !!binary gIGC\n---\nnot UTF-8",
	}
	lines := `{"id":7,"text":"Jo is 30.","date":"1970-01-01","tags":"a, b","mood":"good","metadata":{"kept":true,"supersedes":"m"}}
not json
{"content":"at noon","created_at":"2099-12-31 12:00:00","tags":["x","y"],"namespace":"n","source":"s","occurredAt":null}

{"content":""}
`
	mem0 := `{"results":[{"id":"m1","memory":"Likes chess","hash":"h","metadata":{"k":"v"},"created_at":"2024-07-20T01:30:36.275141-07:00","updated_at":null,"user_id":"alex","categories":["hobbies"]}]}`
	dir := filepath.Join(t.TempDir(), "vault")
	must(t, os.Symlink(folder(t, vault), dir))
	for name, c := range map[string]struct {
		path string
		o    foreign.Options
		want []string
	}{
		"files": {dir, foreign.Options{Format: foreign.Markdown}, []string{
			`home/broken.md|||map[]|its front matter is not YAML`,
			`home/empty.md|home/empty.md||map[a:1 namespace:home title:empty]|it is empty`,
			"home/named.md|home/named.md|not UTF-8|map[in:\x80\x81\x82 namespace:home title:named]|its metadata: ",
			`loose.md|loose.md|No front matter.|map[title:loose]|`,
			`work/plan.md|work/plan.md|Ship in May.`,
		}},
		"headings": {dir, foreign.Options{Format: foreign.Markdown, ByHeading: true}, []string{
			`home/broken.md|`, `home/named.md|`, `loose.md|loose.md|No front matter.|map[title:loose]|`,
			`work/plan.md|work/plan.md|Ship in May.|map[namespace:work nested:map[a:[1 2024-01-01]] occurredAt:2024-03-01 rating:4.5 tags:[plans big] title:plan]|`,
			"work/plan.md#Risks|work/plan.md#Risks|Risks\n\n\nNone.\n\n```\n# not a heading\n```|", "work/plan.md#Risks (2)|work/plan.md#Risks (2)|Risks\n\n\nOne.|",
		}},
		"lines of JSON": {filepath.Join(folder(t, map[string]string{"x.jsonl": lines}), "x.jsonl"), foreign.Options{Format: foreign.JSONLines}, []string{
			`x.jsonl:1|7|Jo is 30.|map[externalSupersedes:m kept:true mood:good occurredAt:1970-01-01 tags:[a b]]|`, `x.jsonl:2|||map[]|it is not a JSON object`,
			`x.jsonl:3|d90273dfeea7739a653b0fdbc4ba2f0f|at noon|map[namespace:n occurredAt:2099-12-31T12:00:00Z source:s tags:[x y]]|`, `x.jsonl:5|`,
		}},
		"mem0": {filepath.Join(folder(t, map[string]string{"x.json": mem0}), "x.json"), foreign.Options{Format: foreign.Mem0}, []string{
			`x.json, memory 1|m1|Likes chess|map[hash:h k:v occurredAt:2024-07-20T01:30:36.275141-07:00 tags:[hobbies] user_id:alex]|`,
		}},
		"lines of text": {filepath.Join(folder(t, map[string]string{"x.txt": "one\n\n two \r\nthree\n\x00u\x00"}), "x.txt"), foreign.Options{Format: foreign.Text}, []string{
			`x.txt:1|7692c3ad3540bb803c020b3aee66cd88|one|map[]|`, `x.txt:3|3fc4ccfe745870e2c0d99f71f30ff065|two|`, `x.txt:4|8b5b9db0c13db24256c829aa364aa90c|three|`, "x.txt:5|1b77023149bde9e45838d27810737f72|\x00u\x00|map[]|it is not UTF-8",
		}},
	} {
		got := read(t, c.path, c.o)
		if len(got) != len(c.want) {
			t.Errorf("%s: %d entries, want %d: %v", name, len(got), len(c.want), got)
			continue
		}
		for i, e := range got {
			text := fmt.Sprintf("%s|%s|%s|%v|%s", e.Where, e.ID, e.Content, e.Metadata, e.Why)
			if !strings.HasPrefix(text, c.want[i]) {
				t.Errorf("%s: %s\nwant %s", name, text, c.want[i])
			}
		}
		if again := read(t, c.path, c.o); !reflect.DeepEqual(got, again) {
			t.Errorf("%s: read again: %v", name, again)
		}
	}
	if err := foreign.Read(dir, foreign.Options{Format: foreign.Text}, nil); err == nil || !strings.Contains(err.Error(), "ends in .txt or .text") {
		t.Errorf("a folder with none of the format's files: %v", err)
	}
	other := filepath.Join(folder(t, map[string]string{"x.json": `{"content":"of jsonl"}`}), "x.json")
	if err := foreign.Read(other, foreign.Options{Format: foreign.Mem0}, nil); err == nil || !strings.Contains(err.Error(), "no list of memories") {
		t.Errorf("a file of another format: %v", err)
	}
}

// TestTheDashboardReadsAlike: the dashboard gives entries the ids, texts and metadata that
// the command line gives them, so that what one stored, the other finds.
func TestTheDashboardReadsAlike(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		stacktest.Lacking(t, "node is not here")
	}
	dir := folder(t, map[string]string{
		"work/plan.md":    "---\ndate: 2024-03-01\ntags: [plans, 2024-03-02, \"#big\"]\nrating: 4.5\ndone: true\n__proto__: y\nby: 'Ada: L'\nsupersedes: [ADR-1, 2]\n---\nShip in May.\n\n## Risks\n\nNone.\n\n```\n# no heading\n```\n\n## Risks\nOne.\n\n#none\n### Empty\n",
		"work/in/deep.md": "---\ntags:\n  - a\n  - b\naliases:\n- x y\nsource: vault\n---\nDeep.",
		"loose.md":        "\ufeffNo front matter.\r\n---\r\n",
		"bare.md":         "---\n---\nx",
		"lines.txt":       "one\n\n two \r\nthree",
		"all.jsonl": `{"id":7,"text":"Jo is 30.","date":"1970-01-01","tags":"a, b","mood":"good","metadata":{"kept":true,"supersedes":[1]}}
{"content":"at noon","created_at":"2099-12-31 12:00:00","tags":["x","y"],"namespace":"n","source":"s","occurredAt":null}
{"id":12345678,"text":"a large id","tags":[20240101]}
{"id":1234567890123456789,"text":"an id that a double rounds"}
{"id":"","text":"an empty id","tags":["x",null]}
{"id":{"a":1},"text":"an object","tags":["x",{"a":["b"]}]}
{"text":"odd names","constructor":1,"__proto__":{"source":"x"}}
{"text":"a noncharacter","mood":"\ufffe"}
{"text":"a long id","id":"` + strings.Repeat("x", 65_000) + `"}
`,
		"latin.txt": "caf\xe9", "u16.txt": "\x00u\x00",
		"mem0.json": `{"results":[{"id":"m1","memory":"Likes chess","metadata":{"k":"v"},"created_at":"2024-07-20T01:30:36.275141-07:00","updated_at":null,"categories":["hobbies"]},{"memory":"No id"}]}`,
	})
	app := t.TempDir()
	must(t, os.CopyFS(app, os.DirFS("../dashboard/app")))
	must(t, os.WriteFile(filepath.Join(app, "package.json"), []byte(`{"type": "module"}`), 0o600))
	for _, byHeading := range []bool{false, true} {
		want := map[string]any{}
		for _, format := range foreign.Formats {
			for _, e := range read(t, dir, foreign.Options{Format: format, ByHeading: byHeading}) {
				if e.Why != "" {
					continue
				}
				if e.Metadata["source"] == nil {
					e.Metadata["source"] = string(format)
				}
				want[e.ID] = []any{e.Content, e.Metadata}
			}
		}
		cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
			import { readdirSync, readFileSync, statSync } from 'node:fs';
			import { read } from './foreign.js';
			const [dir, how] = process.argv.slice(1), names = readdirSync(dir, { recursive: true }).filter((name) => statSync(dir + '/' + name).isFile());
			const entries = await read(names.map((path) => ({ path, file: new File([readFileSync(dir + '/' + path)], path) })), how === 'true');
			console.log(JSON.stringify(Object.fromEntries(entries.filter((e) => !e.why).map((e) => [e.id, [e.content, e.metadata]]))));`, dir, fmt.Sprint(byHeading))
		cmd.Dir = app
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var got map[string]any
		text, err := json.Marshal(want)
		must(t, errors.Join(err, json.Unmarshal(out, &got), json.Unmarshal(text, &want)))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("by heading %v: got\n%s\nwant\n%s", byHeading, out, text)
		}
	}
}
