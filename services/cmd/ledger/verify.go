package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

type verifying struct {
	owner, authority string
	json, logOnly    bool
	replicas         bool
}

func newVerify() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "The audit: replays the log and compares read models, tree cache, batches and chain with it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return v.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&v.owner, "owner", "", "only this owner (base58 public key)")
	flags.StringVar(&v.authority, "authority", "", "public key that commits on the chain, for those without its keypair")
	flags.BoolVar(&v.json, "json", false, "one finding per line, then a summary")
	flags.BoolVar(&v.replicas, "replicas", false, "first read the log from each node that keeps it; needs the administrator's credentials")
	flags.BoolVar(&v.logOnly, "log-only", false, "check only the log, not database, keys or chain")
	return cmd
}

func (v *verifying) run(ctx context.Context, out, progressTo io.Writer) error {
	cfg, err := loadFor(config.NeedLog)
	if err != nil {
		return err
	}
	options := assembly.AuditOptions{LogOnly: v.logOnly, Replicas: v.replicas}
	if v.owner != "" {
		if options.Owner, err = events.ParseOwner(v.owner); err != nil {
			return fmt.Errorf("--owner: %w", err)
		}
	}
	if v.authority != "" {
		if options.Chain, err = assembly.NewOnchain(cfg, v.authority); err != nil {
			return fmt.Errorf("--authority: %w", err)
		}
	}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	options.Report = func(f audit.Finding) {
		if v.json {
			_ = lines.Encode(f) // a closed output is reported at the summary
			return
		}
		fmt.Fprintln(out, f)
	}
	bar := newProgress(progressTo, "verifying", "messages")
	options.Progress = bar.at
	summary, err := assembly.Audit(ctx, cfg, options)
	bar.done()
	if errors.Is(err, eventlog.ErrDamaged) {
		return finding{err}
	}
	if err != nil {
		return err
	}
	if v.json {
		err = lines.Encode(map[string]any{"summary": summary, "good": summary.Good()})
	} else {
		err = printSummary(out, summary)
	}
	if err != nil {
		return err
	}
	switch {
	case summary.Findings > 0:
		return finding{}
	case !summary.Good():
		return errors.New("the audit is incomplete")
	}
	return nil
}

func printSummary(out io.Writer, s audit.Summary) error {
	var b strings.Builder
	fmt.Fprintf(&b, "checked  the log up to sequence %d: %d messages, %d events of %d owners\n", s.Through, s.Messages, s.Events, s.Owners)
	fmt.Fprintf(&b, "         %d leaves, %d of them recomputed from their content; %d roots against the leaves\n", s.Leaves, s.LeavesRecomputed, s.BatchRoots)
	if len(s.Rows) > 0 {
		tables := make([]string, 0, len(s.Rows))
		for name, rows := range s.Rows {
			tables = append(tables, fmt.Sprintf("%s %d", name, rows))
		}
		slices.Sort(tables)
		fmt.Fprintf(&b, "         rows of the read models: %s\n", strings.Join(tables, ", "))
	}
	if s.Accounts > 0 {
		fmt.Fprintf(&b, "         %d commitment accounts on the chain\n", s.Accounts)
	}
	incomplete := s.Incomplete // some of NotChecked, in the same order: up to one for each owner
	for _, what := range s.NotChecked {
		if len(incomplete) > 0 && incomplete[0] == what {
			incomplete = incomplete[1:]
			fmt.Fprintf(&b, "INCOMPLETE   %s\n", what)
		} else {
			fmt.Fprintf(&b, "not checked  %s\n", what)
		}
	}
	switch {
	case s.Findings == 1:
		b.WriteString("1 finding\n")
	case s.Findings > 1:
		fmt.Fprintf(&b, "%d findings\n", s.Findings)
	case len(s.Incomplete) > 0:
		b.WriteString("incomplete: no finding, but not all that was asked for or is configured could be checked\n")
	default:
		b.WriteString("all that was checked agrees\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
