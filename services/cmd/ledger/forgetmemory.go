package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newForgetMemory() *cobra.Command {
	var wallet ownerFlags
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
			client, _, err := wallet.signIn(cmd.Context())
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
