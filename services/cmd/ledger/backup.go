package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/backup"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newBackup() *cobra.Command {
	var only []string
	var metrics string
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copies log, keystore, admin log, and a local run's secrets and chain, while everything runs",
		Long: `Copies everything that can't be rebuilt into DIR, with a folder for each part: log,
keystore, secrets, chain, admin (what operators did). Store them apart: the first three
together can decrypt all texts. A deployment's own MASTER_KEY and JWT_SECRET are not
copied, and neither are the read models, which are rebuilt from the log. On a cluster
with permissions, the command needs the administrator's credentials.

--metrics writes when the backup was taken into a file, which node exporter's textfile
collector reads, so that an alert can tell how old the newest backup is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadFor(config.NeedLog)
			if err != nil {
				return fmt.Errorf("nothing to back up: %w", err)
			}
			parts, err := parseParts(only)
			if err != nil {
				return err
			}
			bar, taken := &steps{out: cmd.ErrOrStderr()}, time.Now()
			err = assembly.Backup(cmd.Context(), cfg, args[0], parts, bar.before(printDone(cmd.OutOrStdout(), "copied")), bar.at)
			bar.end()
			if err == nil && metrics != "" {
				err = writeTaken(metrics, taken)
			}
			return damagedIsAFinding(err)
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "parts to copy, of "+partNames()+"; a part that is named must be there")
	cmd.Flags().StringVar(&metrics, "metrics", "", "file for node exporter's textfile collector, such as /copies/backup.prom")
	return cmd
}

func newRestore() *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Restores a backup, into an empty data folder or into the servers of NATS_URL",
		Long: `Restores a backup into the data folder of a stopped local run, or into the servers of
NATS_URL. Neither may already hold a log. Then start the services; the projector
builds the read models from the log. If a database is left from before, run
rebuild --force.

With MASTER_KEY, --only keystore also puts back the data keys that a keystore in use has
lost, or that are damaged. Those of a backup from before a new master key need
MASTER_KEY_PREVIOUS, too.

Provisioned streams keep their number of replicas; other streams get NATS_REPLICAS, by
default 3 on a cluster and 1 elsewhere. The consumers are made as provision makes them. A
local run's secrets and chain are restored into a data folder only.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(environ())
			if err != nil {
				return err
			}
			parts, err := parseParts(only)
			if err != nil {
				return err
			}
			bar := &steps{out: cmd.ErrOrStderr()}
			err = assembly.Restore(cmd.Context(), cfg, args[0], parts, bar.before(printRestored(cmd.OutOrStdout())), bar.at)
			bar.end()
			return damagedIsAFinding(err)
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "parts to put back, of "+partNames()+"; a part that is named must be there")
	return cmd
}

// writeTaken writes the time of a whole backup as a metric. After a crash before it, the file
// still has the time of the backup before.
func writeTaken(path string, taken time.Time) error {
	const name = "ledger_backup_timestamp_seconds"
	text := fmt.Sprintf("# HELP %[1]s When the newest backup was taken.\n# TYPE %[1]s gauge\n%[1]s %[2]d\n", name, taken.Unix())
	return datadir.WriteFile(path, []byte(text), 0o644)
}

// before removes the bar before say prints a line.
func (s *steps) before(say func(backup.Done)) func(backup.Done) {
	return func(d backup.Done) {
		s.end()
		say(d)
	}
}

// damagedIsAFinding turns the error for a damaged stream into a finding. Other errors
// mean that the backup could not be made, and stay as they are.
func damagedIsAFinding(err error) error {
	if errors.Is(err, backup.ErrDamaged) {
		return finding{err}
	}
	return err
}

func partNames() string {
	var names []string
	for _, part := range backup.Parts {
		names = append(names, string(part))
	}
	return strings.Join(names, ", ")
}

// parseParts returns the parts that --only names, or nil, for all that there are.
func parseParts(only []string) (parts []backup.Part, err error) {
	for _, name := range only {
		part := backup.Part(name)
		if !slices.Contains(backup.Parts, part) {
			return nil, fmt.Errorf("--only: %q is not one of %s", name, partNames())
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// printRestored prints each restored part, and what a restored log means for clients.
func printRestored(out io.Writer) func(backup.Done) {
	restored := printDone(out, "restored")
	return func(d backup.Done) {
		restored(d)
		if d.Part == backup.Log {
			fmt.Fprintln(out, "clients that saw a longer log refuse this one: tell the owners that a backup was restored, so that they accept it")
		}
	}
}

func printDone(out io.Writer, verb string) func(backup.Done) {
	return func(d backup.Done) {
		what := "messages"
		switch d.Part {
		case backup.Keystore:
			what = "data keys"
		case backup.Secrets:
			what = "secrets"
		case backup.Admin:
			what = "records"
		case backup.Chain:
			what = "files"
		}
		fmt.Fprintf(out, "%s %s: %d %s, %d bytes\n", verb, d.Part, d.Messages, what, d.Bytes)
	}
}
