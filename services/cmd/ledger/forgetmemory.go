package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

func newForgetMemory() *cobra.Command {
	var keypair, url, public string
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
			switch {
			case keypair == "":
				return errors.New("--keypair is missing: the owner's wallet")
			case !sure:
				return fmt.Errorf("this makes the text of memory %s unreadable for good; say --yes", args[0])
			case url == "":
				url = localCore()
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 30*time.Second)
			defer cancel()
			_, token, err := signIn(ctx, url, cmp.Or(public, url), keypair)
			if err != nil {
				return err
			}
			if err := memoryledger.New(url, memoryledger.WithSession(token)).Forget(ctx, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the text of memory %s can't be read again\n", args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "confirm that the text becomes unreadable for good")
	stringFlag(cmd.Flags(), &keypair, "keypair", "file of the owner's wallet")
	stringFlag(cmd.Flags(), &url, "url", "base URL of the core API; default: that of the local run")
	stringFlag(cmd.Flags(), &public, "public-url", "the API's own public base URL, if --url is another address of it")
	return cmd
}
