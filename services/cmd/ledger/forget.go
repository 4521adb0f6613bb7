package main

import (
	"context"
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
		Short: "Destroys an owner's data key, so their memories can't be read again",
		Long: `Destroys the data key of an owner, named by the wallet's public key. The owner's
texts become unreadable, and no new ones can be stored: both APIs answer 410. The
owner's grants, API keys and sessions end. The log stays complete, and every proof
still verifies. This can't be undone.

Services that have the key in memory drop it within seconds. Earlier backups of the
keystore still hold the key: destroy them, too. After restoring one, run this command
again. On a cluster with permissions, the command needs the administrator's
credentials.

Exit code 1: there is no such key.`,
		Args: cobra.ExactArgs(1),
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
	cmd.Flags().BoolVar(&sure, "yes", false, "confirm that the texts become unreadable for good")
	return cmd
}

func runForget(ctx context.Context, out io.Writer, owner events.Owner) error {
	cfg, err := loadFor(config.NeedLog)
	if err != nil {
		return err
	}
	existed, err := assembly.Forget(ctx, cfg, owner)
	switch {
	case err != nil:
		return fmt.Errorf("not finished, run it again: %w", err)
	case !existed:
		return finding{fmt.Errorf("there is no data key of %s", owner)}
	}
	fmt.Fprintf(out, "the data key of %s is destroyed; services stop using it within seconds\n", owner)
	return nil
}

func newForgetMemory() *cobra.Command {
	var wallet walletFlags
	var sure bool
	cmd := &cobra.Command{
		Use:   "forget-memory ID",
		Short: "Makes the text of one memory unreadable for good",
		Long: `Signs in with the owner's wallet, as sign-in does, and destroys the key of one
memory. Nobody can read its text again. Its leaf, its proofs, its times and its
metadata, which is not encrypted, stay. This can't be undone.

Backups of the keystore from before still open the text: destroy them, too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !sure {
				return fmt.Errorf("this makes the text of memory %s unreadable for good; say --yes", args[0])
			}
			client, _, err := wallet.client(cmd.Context())
			if err != nil {
				return err
			}
			if err := client.Forget(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the text of memory %s can't be read again\n", args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "confirm that the text becomes unreadable for good")
	wallet.add(cmd.Flags())
	return cmd
}
