package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

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
			key, err := keyIn(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			return runCheckKey(cmd.Context(), key, copies, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	stringFlag(cmd.Flags(), &copies, "backup", "the `folder` of a backup, instead of the keystore that is in use")
	return cmd
}

// keyIn reads a master key from a file, or from in if the file's name is -.
func keyIn(file string, in io.Reader) (config.MasterKeySetting, error) {
	read, what := func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, 1<<10)) }, "standard input"
	if file != "-" {
		read, what = func() ([]byte, error) { return os.ReadFile(file) }, file
	}
	text, err := read()
	if err != nil {
		return config.MasterKeySetting{}, err
	}
	return config.ParseMasterKey(what, strings.TrimSpace(string(text)))
}

func runCheckKey(ctx context.Context, key config.MasterKeySetting, copies string, out, progressTo io.Writer) error {
	var cfg config.Config
	if copies == "" {
		var err error
		if cfg, err = loadFor(config.NeedLog); err != nil {
			return err
		}
	}
	bar := newProgressOf(progressTo, "opening", "data keys")
	id, done, err := assembly.CheckKey(ctx, cfg, key, copies, func(done keystore.Checked, total uint64) { bar.at(done.Entries, total) })
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
