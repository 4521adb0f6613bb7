// Package foreign reads notes and memories that other programs keep, to store them as
// memories: lines of text or JSON, folders of Markdown, exports of mem0.
package foreign

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/memory-ledger/ledger/events/rfc3339"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/services/memory"
)

// Format names what a file or a folder holds.
type Format string

const (
	// Text: each line that is not empty is a memory.
	Text Format = "text"
	// JSONLines: each line is an object with content (or text, or memory), and perhaps id,
	// occurredAt (or date, createdAt, created_at), tags, namespace, source and metadata.
	JSONLines Format = "jsonl"
	// Markdown: each file is a memory, or each heading. Front matter becomes metadata, and
	// the first folder the namespace.
	Markdown Format = "markdown"
	// Mem0: what mem0's get_all returns.
	Mem0 Format = "mem0"
)

var Formats = []Format{Text, JSONLines, Markdown, Mem0}

type Entry struct {
	Where    string // for people: the file, and the line or heading
	ID       string // the same each time the entry is read; becomes metadata.externalId
	Content  string
	Metadata map[string]any
	Why      string // why it can't be stored; empty if it can
}

type Options struct {
	Format    Format
	ByHeading bool // Markdown: each heading is a memory, not each file
}

// Read calls yield with each entry of a file or a folder, in the order of names and lines.
func Read(path string, o Options, yield func(Entry) error) error {
	is, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !is.IsDir() {
		return readFile(path, filepath.Base(path), o, yield)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil { // WalkDir follows none
		return err
	}
	read := 0
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(path, file) // file is below path
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != path: // .obsidian, .git
			return filepath.SkipDir
		case !d.Type().IsRegular() || !slices.Contains(endings[o.Format], strings.ToLower(filepath.Ext(file))):
			return nil
		}
		read++
		return readFile(file, filepath.ToSlash(name), o, yield)
	})
	if err == nil && read == 0 {
		return fmt.Errorf("%s has no file that ends in %s", path, strings.Join(endings[o.Format], " or "))
	}
	return err
}

// endings are the names' ends of the files that are read in a folder.
var endings = map[Format][]string{
	Text: {".txt", ".text"}, JSONLines: {".jsonl", ".ndjson"}, Markdown: {".md", ".markdown"}, Mem0: {".json"},
}

func readFile(path, name string, o Options, yield func(Entry) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	give := func(e Entry) error {
		if e.Why == "" {
			e.Why = e.wrong()
		}
		return yield(e)
	}
	switch o.Format {
	case Text:
		return eachLine(file, name, func(where string, line []byte) error {
			return give(Entry{Where: where, ID: idOf(line), Content: string(line), Metadata: map[string]any{}, Why: notText(line)})
		})
	case JSONLines:
		return eachLine(file, name, func(where string, line []byte) error {
			var object map[string]any
			if json.Unmarshal(line, &object) != nil {
				return give(Entry{Where: where, Why: "it is not a JSON object"})
			}
			return give(entryOf(where, idOf(line), object))
		})
	case Mem0:
		return readMem0(file, name, give)
	case Markdown:
		text, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		if why := notText(text); why != "" {
			return give(Entry{Where: name, Why: why})
		}
		return readMarkdown(name, string(text), o.ByHeading, give)
	}
	return fmt.Errorf("unknown format %q", o.Format)
}

// notText says why a file of text or notes is left out that is none, although it can be valid
// UTF-8: most lines of UTF-16 are.
func notText(raw []byte) string {
	if bytes.IndexByte(raw, 0) >= 0 {
		return "it is not UTF-8, but UTF-16 or no text"
	}
	return ""
}

// idOf names an entry that has no id by its text.
func idOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// wrong says why the service would refuse an entry, empty if it would not.
func (e *Entry) wrong() string {
	switch {
	case strings.TrimSpace(e.Content) == "":
		return "it is empty"
	case !utf8.ValidString(e.Content):
		return "it is not UTF-8"
	case len(e.Content) > memory.MaxContentBytes:
		return memory.ErrContentTooLarge.Error()
	}
	stored := maps.Clone(e.Metadata)
	stored["externalId"] = e.ID
	text, err := jsonv2.Marshal(stored, jsonv2.Deterministic(true)) // refuses what is not UTF-8, such as the name of a file
	if err != nil {
		return "its metadata: " + err.Error()
	}
	metadata, err := canonical.Admit(text)
	switch {
	case err != nil:
		return "its metadata: " + err.Error()
	case metadata.Len() > memory.MaxMetadataBytes-1000: // room for what an import adds
		return memory.ErrMetadataTooLarge.Error()
	}
	return ""
}

// eachLine calls yield with each line that is not empty.
func eachLine(r io.Reader, name string, yield func(where string, line []byte) error) error {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))); len(line) > 0 {
			if err := yield(fmt.Sprintf("%s:%d", name, n), line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// names are the members in which programs keep what a memory has.
var names = struct{ content, occurred, tags []string }{
	content:  []string{"content", "text", "memory"},
	occurred: []string{"occurredAt", "date", "created", "createdAt", "created_at"},
	tags:     []string{"tags", "categories"},
}

// entryOf makes an entry of an object. Members that it does not know go into the metadata.
func entryOf(where, id string, object map[string]any) Entry {
	e := Entry{Where: where, ID: id, Metadata: map[string]any{}}
	if inner, ok := object["metadata"].(map[string]any); ok {
		e.Metadata = inner
	}
	delete(object, "metadata")
	if own, ok := ownID(object["id"]); ok {
		e.ID = own
		delete(object, "id")
	}
	for _, name := range names.content {
		if text, ok := object[name].(string); ok && e.Content == "" {
			e.Content = text
			delete(object, name)
		}
	}
	e.add(object)
	return e
}

// ownID returns an id that an object brings. A number that a double can't hold exactly names
// no object: two could be the same.
func ownID(value any) (string, bool) {
	switch id := value.(type) {
	case string:
		return id, id != ""
	case float64:
		return decimal(id), id == math.Trunc(id) && math.Abs(id) < 1<<53
	}
	return "", false
}

// decimal writes a number without an exponent, if it is short enough.
func decimal(n float64) string {
	if math.Abs(n) < 1e21 {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprint(n)
}

// add adds members to the metadata: dates and tags in the form in which searches find them,
// everything else as it is.
func (e *Entry) add(members map[string]any) {
	for _, name := range names.occurred {
		if at, ok := moment(members[name]); ok && e.Metadata["occurredAt"] == nil {
			e.Metadata["occurredAt"] = at
			delete(members, name)
		}
	}
	for _, name := range names.tags {
		if tags := tagsOf(members[name]); tags != nil && e.Metadata["tags"] == nil {
			e.Metadata["tags"] = tags
			delete(members, name)
		}
	}
	for name, value := range members {
		if _, has := e.Metadata[name]; !has && value != nil {
			e.Metadata[name] = plain(value)
		}
	}
	// In metadata.supersedes, the service keeps what a memory corrects, and an entry that has
	// changed corrects the one before.
	if own, has := e.Metadata["supersedes"]; has {
		e.Metadata["externalSupersedes"] = own
		delete(e.Metadata, "supersedes")
	}
}

// moment returns a date, or a date and time of RFC 3339. A time without a zone is in UTC.
func moment(value any) (string, bool) {
	if at, ok := value.(time.Time); ok { // YAML knows dates
		if at.Equal(at.Truncate(24*time.Hour)) && at.Location() == time.UTC {
			return at.Format(time.DateOnly), true
		}
		return at.Format(time.RFC3339Nano), true
	}
	text, ok := value.(string)
	if !ok {
		return "", false
	}
	for _, form := range []string{text, strings.Replace(text, " ", "T", 1), strings.Replace(text, " ", "T", 1) + "Z", strings.Replace(text, " ", "T", 1) + ":00Z"} {
		if _, ok := rfc3339.From(form); ok {
			return form, true
		}
	}
	return "", false
}

// tagsOf returns tags, nil if the value holds none, or some that a memory can't have.
func tagsOf(value any) (tags []string) {
	switch v := plain(value).(type) {
	case string:
		tags = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
	case []any:
		for _, tag := range v {
			switch n := tag.(type) {
			case float64:
				tag = decimal(n)
			case []any, map[string]any:
				return nil
			}
			if tag != nil {
				tags = append(tags, strings.TrimSpace(fmt.Sprint(tag)))
			}
		}
	}
	for i, tag := range tags {
		if tags[i] = strings.TrimPrefix(tag, "#"); memory.CheckNamespace(tags[i]) != nil {
			return nil
		}
	}
	if len(tags) > 16 {
		return nil
	}
	return tags
}

// plain returns a value that JSON can hold.
func plain(value any) any {
	switch v := value.(type) {
	case time.Time:
		text, _ := moment(v)
		return text
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	case map[any]any:
		named := map[string]any{}
		for name := range v {
			named[fmt.Sprint(name)] = plain(v[name])
		}
		return named
	}
	return value
}

// readMem0 reads a list of memories, or an object with such a list as results or memories.
func readMem0(r io.Reader, name string, yield func(Entry) error) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var of struct{ Results, Memories []map[string]any }
	list := &of.Results
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		err = json.Unmarshal(text, list)
	} else if err = json.Unmarshal(text, &of); of.Results == nil {
		list = &of.Memories
	}
	if err == nil && *list == nil {
		err = errors.New("it has no list of memories")
	}
	if err != nil {
		return fmt.Errorf("%s is not an export of mem0: %w", name, err)
	}
	for i, object := range *list {
		e := entryOf(fmt.Sprintf("%s, memory %d", name, i+1), "", object)
		if e.ID == "" {
			e.ID = idOf([]byte(e.Content))
		}
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func readMarkdown(name, text string, byHeading bool, yield func(Entry) error) error {
	front, body, err := frontMatter(strings.TrimPrefix(text, "\ufeff"))
	if err != nil {
		return yield(Entry{Where: name, Why: "its front matter is not YAML: " + err.Error()})
	}
	note := func(where, id, title, content string) error {
		e := Entry{Where: where, ID: id, Content: strings.TrimSpace(content), Metadata: map[string]any{}}
		members := map[string]any{"title": title}
		maps.Copy(members, front)
		if folder, _, in := strings.Cut(name, "/"); in && memory.CheckNamespace(folder) == nil && members["namespace"] == nil {
			members["namespace"] = folder
		}
		e.add(members)
		return yield(e)
	}
	base := name[strings.LastIndex(name, "/")+1:]
	title := strings.TrimSuffix(base, filepath.Ext(base))
	if !byHeading {
		return note(name, name, title, body)
	}
	seen := map[string]int{}
	for _, s := range sections(body) {
		if strings.TrimSpace(s.text) == "" {
			continue // a heading alone
		}
		id, of := name, title
		if s.heading != "" {
			of = s.heading
			id += "#" + s.heading
		}
		if seen[id]++; seen[id] > 1 {
			id = fmt.Sprintf("%s (%d)", id, seen[id])
		}
		content := s.text
		if s.heading != "" {
			content = s.heading + "\n\n" + s.text
		}
		if err := note(id, id, of, content); err != nil {
			return err
		}
	}
	return nil
}

// frontMatter cuts the YAML between two lines of dashes off the beginning of a note.
func frontMatter(text string) (front map[string]any, body string, err error) {
	rest, has := strings.CutPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "---\n")
	if !has {
		return nil, text, nil
	}
	head, body, closed := strings.Cut("\n"+rest, "\n---")
	if !closed {
		return nil, text, nil
	}
	_, body, _ = strings.Cut(body, "\n")
	err = yaml.Unmarshal([]byte(head), &front)
	return front, body, err
}

type section struct{ heading, text string }

// sections cuts a note at its headings, but not within fenced code.
func sections(body string) (all []section) {
	now, fenced := section{}, false
	for line := range strings.Lines(body) {
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~") {
			fenced = !fenced
		}
		heading := strings.TrimLeft(line, "#")
		if level := len(line) - len(heading); !fenced && level >= 1 && level <= 6 && strings.HasPrefix(heading, " ") {
			all = append(all, now)
			now = section{heading: strings.TrimSpace(heading)}
			continue
		}
		now.text += line
	}
	return append(all, now)
}
