package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/memory-ledger/ledger/services/run/assembly"
)

// console shows a local run. The log goes to a file in the data folder. Its warnings are
// also shown, below the output of the start.
type console struct {
	out     io.Writer
	level   slog.Level
	getenv  func(string) string
	program string // the command as the user typed it

	mu     sync.Mutex
	up     bool
	held   []string // warnings from before it was up
	warned string   // the last warning
	at     time.Time
}

const (
	runLogName = "run.log"
	// warnAgain is the shortest time before the same warning is shown again.
	warnAgain = time.Minute
)

func (c *console) Opened(folder string) (*slog.Logger, error) {
	path := filepath.Join(folder, runLogName)
	if info, err := os.Stat(path); err == nil && info.Size() > 16<<20 {
		_ = os.Rename(path, path+".1") // fails: the file grows on
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of this run: %w", err)
	}
	return slog.New(warning{slog.NewTextHandler(file, &slog.HandlerOptions{Level: c.level}), c, nil}), nil
}

func (c *console) Say(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.out, line)
}

func (c *console) Up(up assembly.Up) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = true
	var b strings.Builder
	fmt.Fprintf(&b, `
Memory Ledger is up.

  dashboard      %s/app/
  core API       %s
  extension API  %s
  data           %s
  log            %s
  chain          %s

Try next, in another terminal:

`, up.Core, up.Core, up.Extension, up.Folder, filepath.Join(up.Folder, runLogName), up.Chain)
	c.next(&b, up)
	start := c.program + " run"
	if c.getenv("MAKELEVEL") != "" {
		start = "make run"
	}
	fmt.Fprintf(&b, `
Ctrl-C stops it; the data stays. On other ports:

  %sCORE_ADDR=127.0.0.1:4001 EXTENSION_ADDR=127.0.0.1:4002 %s

`, c.inFolder(up), start)
	b.WriteString(strings.Join(c.held, ""))
	_, _ = io.WriteString(c.out, b.String()) // a failed write costs only display
}

// next writes commands for a newcomer to try. They work in another terminal, which has none
// of this one's environment.
func (c *console) next(out io.Writer, up assembly.Up) {
	tour := ""
	if up.Core != "http://127.0.0.1:3001" {
		tour = "CORE_URL=" + up.Core + " "
	}
	folder := c.inFolder(up)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if isThere("docs/tour.sh") {
		fmt.Fprintf(table, "  %s%sdocs/tour.sh\tsign in, write, search, prove\n", tour, folder)
	}
	fmt.Fprintf(table, "  %s%s tail --follow\twatch what is recorded\n", folder, c.program)
	fmt.Fprintf(table, "  %s%s verify\tcheck all of it\n", folder, c.program)
	_ = table.Flush() // a failed write costs only display
}

// inFolder returns what a command begins with to use this run's data folder.
func (c *console) inFolder(up assembly.Up) string {
	if c.getenv("LEDGER_DATA_DIR") == "" {
		return ""
	}
	return "LEDGER_DATA_DIR=" + shellWord(up.Folder) + " "
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// shellWord quotes a word that contains characters special to a shell.
func shellWord(s string) string {
	if url.PathEscape(s) == strings.ReplaceAll(s, "/", "%2F") {
		return s
	}
	return shellQuote(s)
}

// warn shows a warning from the log. A warning that repeats within warnAgain is shown
// once.
func (c *console) warn(r slog.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Message == c.warned && r.Time.Sub(c.at) < warnAgain {
		return
	}
	c.warned, c.at = r.Message, r.Time
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" || a.Key == "error" {
			line += ": " + a.Value.String()
		}
		return true
	})
	line = strings.ReplaceAll(line, "\n", "; ")
	logged := fmt.Sprintf("%s %s: %s\n", r.Time.Format(time.TimeOnly), strings.ToLower(r.Level.String()), line)
	switch {
	case c.up:
		_, _ = io.WriteString(c.out, logged)
	case strings.HasPrefix(line, assembly.WaitingFor): // a start that shows nothing looks stuck
		fmt.Fprintln(c.out, line+" …")
	case len(c.held) < 16: // the log file has all warnings
		c.held = append(c.held, logged)
	}
}

// warning passes all records on, and shows warnings and errors on the terminal.
type warning struct {
	slog.Handler
	console *console
	attrs   []slog.Attr // of the logger, beside those of a record
}

func (w warning) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		shown := r.Clone()
		shown.AddAttrs(w.attrs...)
		w.console.warn(shown)
	}
	return w.Handler.Handle(ctx, r)
}

func (w warning) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warning{w.Handler.WithAttrs(attrs), w.console, slices.Concat(w.attrs, attrs)}
}

func (w warning) WithGroup(name string) slog.Handler {
	return warning{w.Handler.WithGroup(name), w.console, w.attrs}
}
