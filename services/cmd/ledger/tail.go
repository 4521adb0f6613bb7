package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/untrusted"
)

type tailing struct {
	from   uint64
	newest int // negative: all
	owner  string
	kinds  []string
	follow bool
	json   bool
	admin  bool

	printed int // number of events
}

func newTail() *cobra.Command {
	var t tailing
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Prints the event log, oldest first",
		Args:  cobra.NoArgs,
		Example: `  ledger tail -n 20 --follow
  ledger tail --owner KEY --type MemoryWritten,GrantMinted --json
  ledger tail --admin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.admin {
				return t.adminLog(cmd.Context(), cmd.OutOrStdout())
			}
			return t.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&t.from, "from", 1, "first stream sequence")
	flags.IntVarP(&t.newest, "newest", "n", -1, "only the newest `N` events; all if negative")
	flags.StringVar(&t.owner, "owner", "", "only this owner's events (base58 public key)")
	flags.StringSliceVar(&t.kinds, "type", nil, "only events of these types, such as MemoryWritten; several with commas, or repeated")
	flags.BoolVar(&t.follow, "follow", false, "keep printing new events")
	flags.BoolVar(&t.json, "json", false, "one CloudEvent per line, with its stream sequence")
	flags.BoolVar(&t.admin, "admin", false, "what operators did, instead of the event log")
	for _, other := range []string{"owner", "type", "follow"} {
		cmd.MarkFlagsMutuallyExclusive("admin", other)
	}
	return cmd
}

func (t *tailing) run(ctx context.Context, out, complaints io.Writer) error {
	subject, err := t.subject()
	if err != nil {
		return err
	}
	cfg, err := loadFor(config.NeedLog)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	options := []nats.Option{nats.Name("memory-ledger tail")}
	if t.follow {
		options = append(options, patience(cancel, complaints)...)
	}
	nc, err := assembly.Dial(cfg)(options...)
	if err != nil {
		return fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	if !t.follow || t.newest >= 0 {
		if err := t.upTo(ctx, log, head, subject, out); err != nil {
			return err
		}
		t.from = max(t.from, head+1)
	}
	t.sayNothing(head, complaints)
	if t.follow {
		return t.goOn(ctx, log, subject, out)
	}
	return nil
}

// upTo prints the log up to a sequence, or only the newest events of that.
func (t *tailing) upTo(ctx context.Context, log eventlog.PartReader, head uint64, subject string, out io.Writer) error {
	if t.newest < 0 {
		return log.Read(ctx, eventlog.ReadConfig{From: t.from, To: head, Subject: subject}, t.printer(out))
	}
	var lines []string // oldest first
	for to := head; to >= max(t.from, 1) && len(lines) < t.newest; {
		// This is how many messages one read covers in the backward search for the newest
		// ones, from the end of the log.
		from := max(t.from, 1, to-min(to, 8192-1))
		var window lineWriter
		if err := log.Read(ctx, eventlog.ReadConfig{From: from, To: to, Subject: subject}, t.printer(&window)); err != nil {
			return err
		}
		lines = append(window, lines...)
		to = from - 1
	}
	for _, line := range lines[len(lines)-min(len(lines), t.newest):] {
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	return nil
}

// lineWriter keeps the written lines. Each call writes one line.
type lineWriter []string

func (w *lineWriter) Write(line []byte) (int, error) {
	*w = append(*w, string(line))
	return len(line), nil
}

// sayNothing tells a person at a terminal that nothing was printed, and why.
func (t *tailing) sayNothing(head uint64, complaints io.Writer) {
	if t.printed > 0 || !isTerminal(complaints) {
		return
	}
	switch {
	case t.follow && t.newest < 0: // the existing events are still to be printed
	case head == 0:
		fmt.Fprintln(complaints, "the log is empty so far")
	default:
		fmt.Fprintf(complaints, "no event matches, of %d messages in the log\n", head)
	}
	if t.follow && t.from > head {
		fmt.Fprintln(complaints, "waiting for events; Ctrl-C ends it")
	}
}

// goOn follows the log until the context ends, or until the server is away for too long.
func (t *tailing) goOn(ctx context.Context, log *eventlog.JetStream, subject string, out io.Writer) error {
	follow := eventlog.FollowConfig{From: t.from, Subject: subject, Poll: true} // an auditor has no right to more
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

// subject returns the subject filter of the options. Empty means all subjects.
func (t *tailing) subject() (string, error) {
	for _, kind := range t.kinds {
		if !slices.ContainsFunc(events.Catalogue(), func(d events.Definition) bool { return string(d.Type) == kind }) {
			return "", fmt.Errorf("--type: there is no event type %q", kind)
		}
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
		if len(t.kinds) > 0 && !slices.Contains(t.kinds, string(e.Type())) {
			continue
		}
		t.printed++
		if t.json {
			// The event's own text, with one more attribute at the end. Owners can write
			// anything into metadata, and a terminal obeys some of it.
			_, err = fmt.Fprintf(out, "%s,\"sequence\":%d}\n", untrusted.Visible(string(raw[i][:len(raw[i])-1])), record.Seq)
		} else {
			_, err = fmt.Fprintf(out, "%8d  %s  %-16s %s  v%d\n", record.Seq, e.Time, e.Type(), e.Owner, e.OwnerVersion)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adminLog prints what operators did: a line when an act began, and one when it ended.
func (t *tailing) adminLog(ctx context.Context, out io.Writer) error {
	cfg, err := loadFor(config.NeedLog)
	if err != nil {
		return err
	}
	var lines []string
	err = assembly.AdminLog(ctx, cfg, t.from, func(e adminlog.Entry) error {
		line := adminLine(e)
		if t.json {
			text, err := json.Marshal(e, json.Deterministic(true))
			if err != nil {
				return err
			}
			line = untrusted.Visible(string(text))
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return err
	}
	if t.newest >= 0 {
		lines = lines[len(lines)-min(len(lines), t.newest):]
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func adminLine(e adminlog.Entry) string {
	words := []string{fmt.Sprintf("%8d  %s  %-8s %-7s %s@%s", e.Sequence, e.Time.UTC().Format(time.RFC3339), e.Act, e.State, e.By.User, e.By.Host)}
	if e.By.NATS != "" {
		words = append(words, "nats="+e.By.NATS)
	}
	for _, name := range slices.Sorted(maps.Keys(e.About)) {
		words = append(words, name+"="+e.About[name])
	}
	if e.Error != "" {
		words = append(words, "error: "+e.Error)
	}
	return verify.Printable(strings.Join(words, " "))
}

var errAway = errors.New("the log's server has been away for too long")

// patience returns options for a connection that tries each node for about half a minute,
// and then cancels a context. Without it, a follower of a lost log would look just like a
// follower of a log that receives no writes.
func patience(cancel context.CancelCauseFunc, tell io.Writer) []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(150), // of each node; assembly.Dial tries a node every 0.2 seconds
		nats.ReconnectBufSize(-1),
		// A cluster announces its servers without the URL's credentials. If one of them
		// refused the client, the connection would end for good.
		nats.IgnoreDiscoveredServers(),
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if !nc.IsClosed() { // to close it on purpose is no loss
				fmt.Fprintln(tell, "ledger: lost the connection to the log's server, trying again")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { fmt.Fprintln(tell, "ledger: connected to the log's server again") }),
		nats.ClosedHandler(func(*nats.Conn) { cancel(errAway) }),
	}
}
