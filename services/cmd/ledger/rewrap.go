package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newRewrap() *cobra.Command {
	return &cobra.Command{
		Use:   "rewrap",
		Short: "Rotates the master key: wraps every data key with MASTER_KEY, while MASTER_KEY_PREVIOUS still unwraps",
		Long: `Rotates the master key while the services run:

  1. with several replicas of the APIs: restart all, one by one, with the new key as
     MASTER_KEY_PREVIOUS beside the old MASTER_KEY, so that each can read what others wrap
  2. restart them with the new key as MASTER_KEY and the old one as MASTER_KEY_PREVIOUS
  3. run this command with the same two variables, until it says that MASTER_KEY alone
     opens every data key
  4. restart them without MASTER_KEY_PREVIOUS, then destroy the old key

Data keys do not change, so nothing is sealed again, and no memory changes. An old
backup of the keystore still needs the old key; make a new backup after step 3.
After an interruption at any point, run it again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRewrap(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

func runRewrap(ctx context.Context, out, progressTo io.Writer) error {
	cfg, err := loadFor(config.NeedLog, config.NeedMasterKey)
	if err != nil {
		return err
	}
	if cfg.MasterKeyPrevious == "" {
		return errors.New("MASTER_KEY_PREVIOUS: not set; it is the key that wrapped the data keys before MASTER_KEY")
	}
	bar := newProgress(progressTo, "rewrapping", "data keys")
	done, err := assembly.Rewrap(ctx, cfg, func(done keystore.Rewrapped) { bar.at(done.Entries, 0) })
	bar.done()
	if err != nil && done.Entries == 0 { // nothing was begun, and again would not help
		return err
	}
	fmt.Fprintf(out, "%d data keys examined: %d rewrapped, %d already wrapped, %d forgotten meanwhile, %d damaged\n",
		done.Entries, done.Fresh, done.Already, done.Gone, done.Damaged)
	if err != nil {
		return fmt.Errorf("not finished, run it again: %w", err)
	}
	fmt.Fprintln(out, "MASTER_KEY alone opens every data key: none is left under the previous key")
	return nil
}

func newCheckKey() *cobra.Command {
	var copies string
	cmd := &cobra.Command{
		Use:   "check-key FILE",
		Short: "Says whether a copy of the master key opens the keystore, or a backup of it",
		Long: `Reads a copy of the master key from FILE, as MASTER_KEY holds it, or from standard
input if FILE is -. Tries to open every data key with it: those of the keystore or,
with --backup, those of a backup, which needs no server. It changes nothing, and names
no owner. On a cluster with permissions it needs the administrator's credentials,
except with --backup.

Exit code 0: the key opens all of them. 1: it does not, and the output says how many it
leaves closed; or there is no data key to try it on. 2: FILE holds no master key, or the
keystore could not be read to its end.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := keyIn(cmd, args[0])
			if err != nil {
				return err
			}
			return runCheckKey(cmd.Context(), key, copies, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&copies, "backup", "", "the `folder` of a backup, instead of the keystore that is in use")
	return cmd
}

// keyIn reads a master key from a file, or from standard input.
func keyIn(cmd *cobra.Command, name string) (config.MasterKeySetting, error) {
	in, err := open(cmd, name)
	if err != nil {
		return config.MasterKeySetting{}, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, 1<<10))
	if err != nil {
		return config.MasterKeySetting{}, err
	}
	if name == "-" {
		name = "standard input"
	}
	return config.ParseMasterKey(name, strings.TrimSpace(string(text)))
}

func runCheckKey(ctx context.Context, key config.MasterKeySetting, copies string, out, progressTo io.Writer) error {
	var cfg config.Config
	if copies == "" {
		var err error
		if cfg, err = loadFor(config.NeedLog); err != nil {
			return err
		}
	}
	bar := newProgress(progressTo, "opening", "data keys")
	id, done, err := assembly.CheckKey(ctx, cfg, key, copies, func(done keystore.Checked) { bar.at(done.Entries, 0) })
	bar.done()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "master key %s opens %d of %d data keys\n", id, done.Opened, done.Entries)
	for _, id := range slices.Sorted(maps.Keys(done.Other)) {
		fmt.Fprintf(out, "%d need master key %s\n", done.Other[id], id)
	}
	if done.Damaged > 0 {
		fmt.Fprintf(out, "%d are damaged\n", done.Damaged)
	}
	switch {
	case done.Entries == 0:
		return finding{errors.New("there is no data key yet, so nothing shows whether this is the right master key")}
	case done.Opened < done.Entries:
		return finding{fmt.Errorf("%d data keys stay closed", done.Entries-done.Opened)}
	}
	return nil
}
