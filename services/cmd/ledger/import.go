package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/events/verify"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/foreign"
	"github.com/memory-ledger/ledger/services/memory"
)

func newImport() *cobra.Command {
	var (
		from, format, source, namespace, by string
		wallet                              walletFlags
		dry                                 bool
	)
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Stores notes and memories that other programs keep",
		Long: `Reads a file or a folder, and stores each entry as a memory at the core API at LEDGER_URL,
with the API key in LEDGER_API_KEY. The key must be able to read, too. The formats:

  text      each line is a memory
  jsonl     each line is an object: content, and perhaps id, occurredAt, tags, namespace,
            source, metadata
  markdown  each file is a memory, or with --by heading each heading. Front matter becomes
            metadata, the first folder the namespace: an Obsidian vault, for example
  mem0      what mem0's get_all returns
  export    an export of this service from another place, by its owner: signs in with the
            wallet in --keypair, and makes the same leaves, so old receipts still verify

An entry keeps its id as metadata.externalId, so that it is stored once, however often the
import runs. If its text has changed, the new memory supersedes the old one. What an entry
itself calls supersedes becomes metadata.externalSupersedes.`,
		Example: `  LEDGER_API_KEY=svc_… ledger import --from notes --format markdown --dry-run`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format == "export" {
				return moveLog(cmd, from, wallet, dry)
			}
			options := foreign.Options{Format: foreign.Format(format), ByHeading: by == "heading"}
			if err := checkImport(from, options.Format, by); err != nil {
				return err
			}
			base, key, err := coreAndKey()
			if err != nil {
				return err
			}
			// The client's checks are of answers; an import reads the list only to leave out
			// what is stored already.
			client := memoryledger.New(base, memoryledger.WithAPIKey(key), memoryledger.WithoutVerification())
			i := &importing{client: client, out: cmd.OutOrStdout(), dry: dry, set: map[string]any{}}
			for name, value := range map[string]string{"source": source, "namespace": namespace} {
				if value != "" {
					i.set[name] = value
				}
			}
			return i.run(cmd.Context(), from, options, newProgress(cmd.ErrOrStderr(), "import", "entries"))
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the file or folder to read")
	cmd.Flags().StringVar(&format, "format", "", "its format: text, jsonl, markdown, mem0 or export")
	cmd.Flags().StringVar(&by, "by", "", "with markdown, what becomes a memory: file (default) or heading")
	cmd.Flags().StringVar(&source, "source", "", "metadata.source of all entries; default: the format's name, where an entry has none")
	cmd.Flags().StringVar(&namespace, "namespace", "", "the namespace of all entries")
	wallet.add(cmd.Flags())
	cmd.Flags().BoolVar(&dry, "dry-run", false, "read everything, store nothing, and say what would be stored")
	return cmd
}

func checkImport(from string, format foreign.Format, by string) error {
	if from == "" {
		return errors.New("--from is missing: the file or folder to read")
	}
	for _, known := range foreign.Formats {
		if format == known && (by == "" || by == "file" || by == "heading" && format == foreign.Markdown) {
			return nil
		}
	}
	return errors.New("--format must be text, jsonl, markdown, mem0 or export, and --by file or, with markdown, heading")
}

type importing struct {
	client *memoryledger.Client
	out    io.Writer
	dry    bool
	set    map[string]any // of every entry

	known   map[string][]stored // by externalId
	gone    int                 // leaves that the list did not have
	batch   []memoryledger.NewMemory
	bytes   int
	read    uint64
	counts  struct{ stored, changed, there, leftOut int }
	reasons []string
}

// stored is a memory that an earlier run wrote, and that nothing supersedes.
type stored struct{ id, content string }

func (i *importing) run(ctx context.Context, from string, o foreign.Options, bar *progress) error {
	if err := i.look(ctx); err != nil {
		return fmt.Errorf("list what is stored already: %w", err)
	}
	err := foreign.Read(from, o, func(e foreign.Entry) error {
		i.read++
		bar.at(i.read, 0)
		return i.add(ctx, e, string(o.Format))
	})
	if err == nil {
		err = i.flush(ctx)
	}
	bar.done()
	verb := "stored"
	if i.dry {
		verb = "would be stored"
	}
	fmt.Fprintf(i.out, "%d entries read: %d %s, %d of them because they changed; %d were there already, %d are left out\n",
		i.read, i.counts.stored, verb, i.counts.changed, i.counts.there, i.counts.leftOut)
	for _, reason := range i.reasons {
		fmt.Fprintln(i.out, "left out:", verify.Printable(reason))
	}
	if more := i.counts.leftOut - len(i.reasons); more > 0 {
		fmt.Fprintf(i.out, "and %d more\n", more)
	}
	if err == nil && i.counts.leftOut > 0 {
		return finding{}
	}
	return err
}

// look lists what earlier runs stored.
func (i *importing) look(ctx context.Context) error {
	head, err := i.client.Head(ctx)
	if err != nil {
		return err
	}
	i.known, i.gone = map[string][]stored{}, int(head.TreeSize)
	for m, err := range i.client.List(ctx, memoryledger.ListOptions{PageSize: 1000}) {
		if err != nil {
			return err
		}
		i.gone--
		if id, ok := m.Metadata["externalId"].(string); ok && m.SupersededBy == nil {
			i.known[id] = append(i.known[id], stored{m.ID, m.Content})
		}
	}
	return nil
}

func (i *importing) leaveOut(e foreign.Entry, why string) {
	if i.counts.leftOut++; len(i.reasons) < 20 {
		i.reasons = append(i.reasons, e.Where+": "+why)
	}
}

func (i *importing) add(ctx context.Context, e foreign.Entry, source string) error {
	if e.Why != "" {
		i.leaveOut(e, e.Why)
		return nil
	}
	if e.Metadata["source"] == nil {
		e.Metadata["source"] = source
	}
	for name, value := range i.set {
		e.Metadata[name] = value
	}
	e.Metadata["externalId"] = e.ID
	m := memoryledger.NewMemory{Content: e.Content, Metadata: e.Metadata}
	was := i.known[e.ID]
	if slices.ContainsFunc(was, func(s stored) bool { return s.content == e.Content }) {
		i.counts.there++
		return nil
	}
	if n := len(was); n > 0 && was[n-1].id != "" { // not of an entry of this run with the same id
		m.Supersedes = []string{was[n-1].id}
	}
	i.known[e.ID] = append(was, stored{content: e.Content})
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// A request has a megabyte at most.
	if size := len(text); len(i.batch) == memory.MaxBatch || i.bytes+size > 900_000 {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	i.batch, i.bytes = append(i.batch, m), i.bytes+len(text)
	return nil
}

// flush stores a batch. If no answer comes, the next run finds by the key, or in the list,
// that it was stored. A batch that was stored and taken back since has another key.
func (i *importing) flush(ctx context.Context) error {
	batch := i.batch
	i.batch, i.bytes = nil, 0
	if len(batch) > 0 && !i.dry {
		text, err := json.Marshal(batch)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(fmt.Appendf(text, "%d", i.gone))
		_, err = i.client.WriteBatch(ctx, batch, memoryledger.IdempotencyKey("import-"+hex.EncodeToString(sum[:])))
		if err != nil {
			return fmt.Errorf("after %d entries: %w", i.counts.stored, err)
		}
	}
	i.counts.stored += len(batch)
	for _, m := range batch {
		if m.Supersedes != nil {
			i.counts.changed++
		}
	}
	return nil
}
