// Notebook keeps notes in Memory Ledger, and verifies everything that it can.
//
//	notebook note TEXT…    writes a note
//	notebook find WORDS…   finds notes by words, the best first
//	notebook list          lists all notes, the newest first
//	notebook verify [ID]   proves all notes, or one
//	notebook follow        prints notes as they are written, by any program
//
// LEDGER_API_KEY is an API key. LEDGER_URL is the core API; the default is port 3001.
// With SOLANA_RPC_URL, verify also asks that node. The heads of the log are kept in
// NOTEBOOK_HEADS, or in the user's folder for settings: each run checks that the log
// extends the heads that earlier runs saw.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	fmt.Fprintln(os.Stderr, "notebook:", err)
	os.Exit(1)
}

var errUsage = errors.New("usage: notebook note TEXT… | find WORDS… | list | verify [ID] | follow")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	ledger, err := open()
	if err != nil {
		return err
	}
	n := notebook{ledger, out}
	text := strings.Join(args[1:], " ")
	switch {
	case args[0] == "note" && text != "":
		return n.note(ctx, text)
	case args[0] == "find" && text != "":
		return n.find(ctx, text)
	case args[0] == "list" && text == "":
		return n.list(ctx)
	case args[0] == "verify" && text == "":
		return n.verify(ctx)
	case args[0] == "verify":
		return n.verifyOne(ctx, text)
	case args[0] == "follow" && text == "":
		return n.follow(ctx)
	}
	return errUsage
}

func open() (*memoryledger.Client, error) {
	heads := os.Getenv("NOTEBOOK_HEADS")
	if heads == "" {
		settings, err := os.UserConfigDir()
		if err != nil {
			return nil, err
		}
		heads = filepath.Join(settings, "memory-ledger-notebook", "heads.json")
	}
	if err := os.MkdirAll(filepath.Dir(heads), 0o700); err != nil {
		return nil, err
	}
	return memoryledger.New(cmp.Or(os.Getenv("LEDGER_URL"), "http://127.0.0.1:3001"),
		memoryledger.WithAPIKey(os.Getenv("LEDGER_API_KEY")),
		memoryledger.WithRPC(os.Getenv("SOLANA_RPC_URL")),
		memoryledger.WithHeads(memoryledger.FileHeads(heads))), nil
}

type notebook struct {
	ledger *memoryledger.Client
	out    io.Writer
}

func (n notebook) print(m *memoryledger.Memory) {
	anchored := " "
	if m.Anchored {
		anchored = "*"
	}
	fmt.Fprintf(n.out, "%4d%s %s  %s  %s\n", m.LeafIndex, anchored, m.CreatedAt.Local().Format("2006-01-02 15:04"), m.ID, m.Content)
}

func (n notebook) note(ctx context.Context, text string) error {
	written, err := n.ledger.Write(ctx, text, memoryledger.Metadata{"source": "notebook"})
	if err != nil {
		return err
	}
	// The service must prove at once that the note is in the log.
	if _, err := n.ledger.Receipt(ctx, written.ID); err != nil {
		return err
	}
	fmt.Fprintln(n.out, written.ID)
	return nil
}

// found is how many notes find prints.
const found = 10

func (n notebook) find(ctx context.Context, words string) error {
	printed := 0
	for m, err := range n.ledger.Search(ctx, words, memoryledger.SearchOptions{Mode: memoryledger.Ranked, PageSize: found}) {
		if err != nil {
			return err
		}
		n.print(&m.Memory)
		if printed++; printed == found {
			break
		}
	}
	return nil
}

func (n notebook) list(ctx context.Context) error {
	for m, err := range n.ledger.List(ctx, memoryledger.ListOptions{Order: memoryledger.Newest}) {
		if err != nil {
			return err
		}
		n.print(&m)
	}
	return nil
}

func (n notebook) verify(ctx context.Context) error {
	leaves, retracted := 0, 0
	for m, err := range n.ledger.Export(ctx, memoryledger.ExportOptions{}) {
		if err != nil {
			return err
		}
		leaves++
		if m.Entry == nil {
			retracted++
		}
	}
	head, err := n.ledger.Head(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(n.out, "good: %d leaves, %d of them retracted, give the root %s; %d are anchored\n", leaves, retracted, head.Root, head.AnchoredSize)
	return nil
}

func (n notebook) verifyOne(ctx context.Context, id string) error {
	r, err := n.ledger.Receipt(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(n.out, "good: it is leaf %d of %d with the root %s\n%s\n", r.LeafIndex, r.TreeSize, r.BatchRoot, r.Entry.Content)
	return nil
}

func (n notebook) follow(ctx context.Context) error {
	for e, err := range n.ledger.Follow(ctx, "") {
		if err != nil {
			return err
		}
		id, isText := e.Data["memoryId"].(string)
		if e.Type != "MemoryWritten" || !isText {
			continue
		}
		m, err := n.ledger.Get(ctx, id)
		if errors.Is(err, memoryledger.ErrGone) {
			continue // retracted meanwhile
		}
		if err != nil {
			return err
		}
		n.print(m)
	}
	return nil
}
