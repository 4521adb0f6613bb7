package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/run/config"
)

// printedVariable names the variable that lists digests of the values that env printed. A
// shell that evaluated them passes them to every command. The commands of ledger ignore
// these values, and find the local run, if it still runs, by its data folder.
const printedVariable = "LEDGER_ENV"

// environ returns the environment without the values that env printed.
func environ() []string {
	printed := strings.Split(os.Getenv(printedVariable), ",")
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		_, value, _ := strings.Cut(variable, "=")
		return slices.Contains(printed, digest(value))
	})
}

func digest(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// loadFor is loadBeside for a command that needs the log and maybe more. If the log is
// missing because the local run is stopped, the error says so.
func loadFor(needs ...config.Need) (config.Config, error) {
	cfg, run, err := loadBeside()
	if err != nil {
		return cfg, err
	}
	if cfg.NATSURL == "" && run == nil {
		return cfg, notRunning(cfg.DataDir)
	}
	return cfg, cfg.Check(needs...)
}

// loadBeside reads the environment, and fills in the server addresses from the local run
// of the data folder. It also returns the note of that run, or nil if none runs.
func loadBeside() (config.Config, *datadir.Run, error) {
	cfg, err := config.Load(environ())
	if err != nil {
		return cfg, nil, err
	}
	local, err := datadir.LoadRun(cfg.DataDir)
	if errors.Is(err, datadir.ErrNotRunning) {
		return cfg, nil, nil
	}
	if err != nil {
		return cfg, nil, err
	}
	if cfg.NATSURL == "" {
		cfg.NATSURL = local.NATSURL
	}
	if !local.Serves(cfg.NATSURL) { // the run's read models and chain are of another log
		return cfg, &local, nil
	}
	fill(&cfg.DatabaseURL, local.DatabaseURL)
	if cfg.SolanaRPCURL == "" {
		cfg.SolanaRPCURL = local.SolanaRPCURL
		fill(&cfg.CommitmentProgramID, local.CommitmentProgramID)
		fill(&cfg.AuthorityKeypair, local.AuthorityKeypair)
	}
	return cfg, &local, nil
}

func fill(setting *string, value string) {
	if *setting == "" {
		*setting = value
	}
}

// notRunning says how to continue when neither the environment nor the data folder leads
// to a log.
func notRunning(folder string) error {
	if full, err := filepath.Abs(folder); err == nil {
		folder = full
	}
	if _, err := os.Stat(folder); err != nil {
		return fmt.Errorf("%w: there is no %s; run `make run`, or name another data folder in LEDGER_DATA_DIR, or a log elsewhere in NATS_URL", datadir.ErrNotRunning, folder)
	}
	return fmt.Errorf("not running: `make run` (%w, %s); or name a log elsewhere in NATS_URL", datadir.ErrNotRunning, folder)
}

func newEnv() *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Prints the addresses of the local run's servers, as shell variables",
		Long: `Prints the addresses of the local run's servers, as shell variables:

  eval "$(ledger env)"

Then psql "$DATABASE_URL", nats and solana find the servers. The user in NATS_URL can
only read the log. Ledger's own commands ignore these values, which they recognize by
LEDGER_ENV: beside a local run they use the settings in its data folder. A variable
that you set to another value yourself still counts.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, run, err := loadBeside()
			if err != nil {
				return err
			}
			if cfg.NATSURL == "" && cfg.DatabaseURL == "" && cfg.SolanaRPCURL == "" {
				return notRunning(cfg.DataDir)
			}
			if run != nil && run.NATSReadURL != "" && cfg.NATSURL == run.NATSURL {
				cfg.NATSURL = run.NATSReadURL
			}
			return printEnv(cmd.OutOrStdout(), cfg)
		},
	}
}

func printEnv(out io.Writer, cfg config.Config) error {
	var digests []string
	export := func(name, value string) error {
		_, err := fmt.Fprintf(out, "export %s=%s\n", name, shellQuote(value))
		return err
	}
	for _, v := range [][2]string{
		{"NATS_URL", cfg.NATSURL}, {"DATABASE_URL", cfg.DatabaseURL}, {"SOLANA_RPC_URL", cfg.SolanaRPCURL},
	} {
		if v[1] == "" {
			continue
		}
		if err := export(v[0], v[1]); err != nil {
			return err
		}
		digests = append(digests, digest(v[1]))
	}
	return export(printedVariable, strings.Join(digests, ","))
}

// shellQuote puts a value in single quotes.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
