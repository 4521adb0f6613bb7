package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newRebuild() *cobra.Command {
	var options rebuild.Config
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Replays the log into fresh read models, compares, and swaps them in with no downtime",
		Long: `Replays the log into fresh read models beside the live ones, compares the two, and
swaps the fresh ones in. Clients can read and write all the time.

If they differ, the tables and rows are printed as verify prints them, nothing is
swapped, and the exit code is 1. A difference means that the live read models were
damaged, or that another build folded the log differently. Examine it, then run again
with --force, which swaps the fresh read models in: they follow from the log.

After an interruption at any point, run it again. On a cluster with permissions, the
command needs the administrator's credentials, because the admin log records it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRebuild(cmd.Context(), options, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&options.Force, "force", false, "swap despite differences")
	return cmd
}

func runRebuild(ctx context.Context, options rebuild.Config, out, progressTo io.Writer) error {
	cfg, err := loadFor(config.NeedLog, config.NeedDatabase)
	if err != nil {
		return fmt.Errorf("nothing to rebuild: %w", err)
	}
	bar := newProgress(progressTo, "replaying", "messages")
	options.Progress = bar.at
	options.Say = bar.say
	options.Report = func(f audit.Finding) { bar.say(f.String()) }
	result, err := assembly.Rebuild(ctx, cfg, options)
	bar.done()
	if err == nil || errors.Is(err, rebuild.ErrDifferent) {
		fmt.Fprintf(out, "compared at sequence %d: %d rows, %d differences\n", result.Compared, result.Rows, result.Differences)
	}
	switch {
	case errors.Is(err, rebuild.ErrDifferent):
		return finding{fmt.Errorf("%w; nothing was swapped. --force swaps in what the log says", err)}
	case err != nil && result.Swapped:
		return fmt.Errorf("the fresh read models are live, but the old ones are still there; the next rebuild drops them: %w", err)
	case err != nil:
		return err
	}
	fmt.Fprintf(out, "the fresh read models are live, from sequence %d on\n", result.Position)
	return nil
}
