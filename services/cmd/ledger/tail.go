package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/assembly"
)

// tailing is what tail was asked for.
type tailing struct {
	from   uint64
	owner  string
	kind   string
	follow bool
	json   bool

	patience time.Duration // 0: what goes with where the log is
}

func newTail() *cobra.Command {
	var t tailing
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Prints the event log, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&t.from, "from", 1, "first stream sequence")
	stringFlag(flags, &t.owner, "owner", "only this owner's events (base58 public key)")
	stringFlag(flags, &t.kind, "type", "only events of this type, such as MemoryWritten")
	flags.BoolVar(&t.follow, "follow", false, "go on with events as they come")
	flags.BoolVar(&t.json, "json", false, "one CloudEvent a line, with its stream sequence")
	return cmd
}

func (t *tailing) run(ctx context.Context, out, complaints io.Writer) error {
	subject, err := t.subject()
	if err != nil {
		return err
	}
	cfg, err := loadConfig()
	if err != nil {
		return err
	}
	if cfg.NATSURL == "" {
		return errors.New("no log to read: set NATS_URL, or run in the folder of a local run")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := patience{lasts: cmp.Or(t.patience, patienceWith(os.Getenv("NATS_URL"))), tell: complaints, cancel: cancel}
	options := []nats.Option{nats.Name("memory-ledger tail")}
	if t.follow {
		options = append(options, p.options()...)
	}
	nc, err := assembly.Dial(cfg)(options...)
	if err != nil {
		return fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	defer p.end()
	opened, err := eventlog.Open(ctx, nc)
	if err != nil {
		return err
	}
	log := opened.Direct() // an auditor may do no more
	if t.follow {
		return t.goOn(ctx, log, subject, out)
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	return log.Read(ctx, eventlog.ReadConfig{From: t.from, To: head, Subject: subject}, t.printer(out))
}

// patienceWith is how long to wait for a server that the environment names, or
// for that of a local run.
func patienceWith(named string) time.Duration {
	if named == "" {
		return localPatience
	}
	return deployedPatience
}

// goOn follows the log until it is asked to stop, or its server is away for too
// long.
func (t *tailing) goOn(ctx context.Context, log eventlog.Direct, subject string, out io.Writer) error {
	follow := eventlog.FollowConfig{From: t.from}
	if subject != "" {
		follow.Subjects = []string{subject}
	}
	err := log.Follow(ctx, follow, t.printer(out))
	if cause := context.Cause(ctx); errors.Is(cause, errAway) {
		return cause
	}
	return err
}

func (t *tailing) printer(out io.Writer) func(eventlog.Slice) error {
	return func(slice eventlog.Slice) error {
		for _, record := range slice.Records {
			if err := t.print(out, record); err != nil {
				return err
			}
		}
		return nil
	}
}

// subject is the filter for what was asked for; empty means everything.
func (t *tailing) subject() (string, error) {
	if t.kind != "" && !isType(events.Type(t.kind)) {
		return "", fmt.Errorf("--type: there is no event type %q", t.kind)
	}
	if t.owner == "" {
		return "", nil
	}
	owner, err := events.ParseOwner(t.owner)
	if err != nil {
		return "", fmt.Errorf("--owner: %w", err)
	}
	return events.OwnerFilter(events.FamilyAny, owner), nil
}

func isType(t events.Type) bool {
	for _, d := range events.Catalogue() {
		if d.Type == t {
			return true
		}
	}
	return false
}

func (t *tailing) print(out io.Writer, record eventlog.Record) error {
	batch, err := events.DecodeBatch(record.Payload)
	if err != nil {
		return finding{fmt.Errorf("sequence %d: %w", record.Seq, err)}
	}
	var raw []jsontext.Value
	if err := json.Unmarshal(record.Payload, &raw); err != nil {
		return finding{fmt.Errorf("sequence %d: %w", record.Seq, err)}
	}
	for i := range batch {
		e := &batch[i]
		if t.kind != "" && string(e.Type()) != t.kind {
			continue
		}
		if t.json {
			// The event's own bytes, as far as a terminal can bear them, with one
			// attribute more at the end.
			_, err = fmt.Fprintf(out, "%s,\"sequence\":%d}\n", harmless(raw[i][:len(raw[i])-1]), record.Seq)
		} else {
			_, err = fmt.Fprintf(out, "%8d  %s  %-16s %s  v%d\n", record.Seq, e.Time, e.Type(), e.Owner, e.OwnerVersion)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// harmless writes the characters of a JSON text as escapes that JSON allows as they
// are, and that a terminal obeys or line readers split at: metadata is whatever
// its owner wrote. It is still the same value, for they stand in strings only.
func harmless(text []byte) []byte {
	if bytes.IndexFunc(text, isHarmful) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for _, r := range string(text) {
		if isHarmful(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// isHarmful: controls beyond those that JSON forbids, and the separators of lines
// and paragraphs.
func isHarmful(r rune) bool { return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 }
