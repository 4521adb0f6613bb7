package main

import (
	"context"
	"errors"
	"fmt"
	"io"

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
}

func newTail() *cobra.Command {
	var t tailing
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Prints the event log, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&t.from, "from", 1, "first stream sequence")
	flags.StringVar(&t.owner, "owner", "", "only this owner's events (base58 public key)")
	flags.StringVar(&t.kind, "type", "", "only events of this type, such as MemoryWritten")
	flags.BoolVar(&t.follow, "follow", false, "go on with events as they come")
	flags.BoolVar(&t.json, "json", false, "one CloudEvent a line, with its stream sequence")
	return cmd
}

// errDone ends a tail that does not follow.
var errDone = errors.New("end of the log")

func (t *tailing) run(ctx context.Context, out io.Writer) error {
	subjects, err := t.subjects()
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
	nc, err := assembly.Dial(cfg)(nats.Name("memory-ledger tail"))
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
	if !t.follow && t.from > head {
		return nil
	}
	last, err := lastWanted(ctx, log, head, subjects, t)
	if err != nil || (!t.follow && last == 0) {
		return err
	}
	err = log.Follow(ctx, eventlog.FollowConfig{From: t.from, Subjects: subjects}, func(slice eventlog.Slice) error {
		for _, record := range slice.Records {
			if !t.follow && record.Seq > last {
				return errDone
			}
			if err := t.print(out, record); err != nil {
				return err
			}
		}
		if !t.follow && slice.Last >= last {
			return errDone
		}
		return nil
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// lastWanted is the sequence at which a tail that does not follow ends: the
// newest message that it would print.
func lastWanted(ctx context.Context, log *eventlog.JetStream, head uint64, subjects []string, t *tailing) (uint64, error) {
	if len(subjects) == 0 {
		return head, nil
	}
	var last uint64
	for _, family := range []events.Family{events.FamilyLedger, events.FamilyChain} {
		seq, err := log.OwnerHead(ctx, family, events.Owner(t.owner))
		if err != nil {
			return 0, err
		}
		last = max(last, seq)
	}
	if last < t.from {
		return 0, nil
	}
	return last, nil
}

func (t *tailing) subjects() ([]string, error) {
	if t.kind != "" && !isType(events.Type(t.kind)) {
		return nil, fmt.Errorf("--type: there is no event type %q", t.kind)
	}
	if t.owner == "" {
		return nil, nil
	}
	owner, err := events.ParseOwner(t.owner)
	if err != nil {
		return nil, fmt.Errorf("--owner: %w", err)
	}
	return []string{
		events.OwnerFilter(events.FamilyLedger, owner), events.OwnerFilter(events.FamilyChain, owner),
	}, nil
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
			// The event's own bytes, with one attribute more at the end.
			_, err = fmt.Fprintf(out, "%s,\"sequence\":%d}\n", raw[i][:len(raw[i])-1], record.Seq)
		} else {
			_, err = fmt.Fprintf(out, "%8d  %s  %-16s %s  v%d\n", record.Seq, e.Time, e.Type(), e.Owner, e.OwnerVersion)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
