package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newForget() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use:   "forget OWNER",
		Short: "Destroys an owner's data key: nobody can read their memories any more",
		Long: `Destroys the data key of an owner, given by the wallet's public key. From then
on nothing that the owner stored can be read by anybody, and nothing can be
stored for them: both APIs answer 410. Their grants, API keys and sessions
end. The log stays whole, and every proof goes on verifying. There is no
way back.

Services that have the key in memory drop it within seconds. Backups of the
keystore from before still hold the key: destroy them as well, and after one was
restored run this again. On a cluster with permissions it takes the
administrator's credentials.

Exit 1: there is no such key, or it is hidden but not erased, since the bucket is
an older build's.`,
		Args: arguments("OWNER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, err := events.ParseOwner(args[0])
			if err != nil {
				return fmt.Errorf("OWNER: %w", err)
			}
			if !sure {
				return fmt.Errorf("this makes all memories of %s unreadable for good; say --yes", owner)
			}
			return runForget(cmd.Context(), cmd.OutOrStdout(), owner)
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "really")
	return cmd
}

func runForget(ctx context.Context, out io.Writer, owner events.Owner) error {
	cfg, err := loadFor(config.NeedLog)
	if err != nil {
		return err
	}
	done, err := assembly.Forget(ctx, cfg, owner)
	switch {
	case err != nil:
		return fmt.Errorf("not finished, run it again: %w", err)
	case !done.Existed:
		return finding{fmt.Errorf("there is no data key of %s", owner)}
	case !done.Erased:
		return finding{errors.New("the key is hidden, but its bytes, wrapped by the master key, stay in the log server's files until it writes them anew; see docs/threat-model.md")}
	}
	fmt.Fprintf(out, "the data key of %s is destroyed; services stop using it within seconds\n", owner)
	return nil
}
