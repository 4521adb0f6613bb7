// Package documents finds the commands that the documents show. Tests run these commands,
// or check that the document says why not.
package documents

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Block is a fenced or indented block of a document.
type Block struct {
	Line     int    // number of the block's first line, from 1
	Language string // of a fenced block, "" if the fence names none
	Indented bool
	Text     string // unindented
	// NotRun is the reason why the block is not run, from the comment
	// <!-- not run: … --> on the line before it.
	NotRun string
}

// Shell reports whether the block is marked as commands.
func (b Block) Shell() bool { return !b.Indented && b.Language == "sh" }

// OnlyMake lists the targets of a block that has only make commands, and returns nil for
// any other block. CI runs these targets, so document tests need not run them.
func (b Block) OnlyMake() []string {
	var targets []string
	for line := range strings.Lines(b.Text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "make" {
			return nil
		}
		targets = append(targets, words[1])
	}
	return targets
}

// List returns the documents under root, without test data and foreign documents.
func List(root string) ([]string, error) {
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		foreign := []string{"node_modules", "testdata", ".git", ".data", "bin"}
		if d.IsDir() && slices.Contains(foreign, d.Name()) {
			return fs.SkipDir
		}
		if !d.IsDir() && filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return nil
	})
	return all, err
}

// Blocks reads a document's blocks, in order.
func Blocks(markdown string) []Block {
	var all []Block
	lines := strings.Split(markdown, "\n")
	for i := 0; i < len(lines); i++ {
		fence, language, fenced := openingFence(lines[i])
		indented := strings.HasPrefix(lines[i], "    ") && (i == 0 || strings.TrimSpace(lines[i-1]) == "")
		if !fenced && !indented {
			continue
		}
		b := Block{Line: i + 1, Language: language, Indented: indented, NotRun: reasonBefore(lines[:i])}
		var text []string
		if indented {
			for ; i < len(lines) && (strings.HasPrefix(lines[i], "    ") || strings.TrimSpace(lines[i]) == ""); i++ {
				text = append(text, strings.TrimPrefix(lines[i], "    "))
			}
			i-- // the line that ended the block may open another one
		} else {
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != fence; i++ {
				text = append(text, lines[i])
			}
		}
		b.Text = strings.TrimRight(strings.Join(text, "\n"), "\n ")
		all = append(all, b)
	}
	return all
}

func openingFence(line string) (fence, language string, found bool) {
	line = strings.TrimSpace(line)
	language = strings.TrimLeft(line, "`")
	fence = line[:len(line)-len(language)]
	return fence, language, len(fence) >= 3
}

func reasonBefore(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	text, found := strings.CutPrefix(strings.TrimSpace(lines[len(lines)-1]), "<!-- not run:")
	reason, closed := strings.CutSuffix(text, "-->")
	if !found || !closed {
		return ""
	}
	return strings.TrimSpace(reason)
}
