package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/config"
)

// loadConfig reads the environment and fills in, from the local run of the
// data folder if there is one, where its servers are.
func loadConfig() (config.Config, error) {
	cfg, err := config.Load(os.Environ())
	if err != nil {
		return cfg, err
	}
	local, err := datadir.LoadRun(cfg.DataDir)
	if errors.Is(err, datadir.ErrNotRunning) {
		return cfg, nil
	}
	if err != nil {
		return cfg, err
	}
	if cfg.NATSURL == "" {
		cfg.NATSURL = local.NATSURL
		fill(&cfg.LogRead, local.LogRead)
	}
	fill(&cfg.DatabaseURL, local.DatabaseURL)
	if cfg.SolanaRPCURL == "" {
		cfg.SolanaRPCURL = local.SolanaRPCURL
		fill(&cfg.CommitmentProgramID, local.CommitmentProgramID)
		fill(&cfg.AuthorityKeypair, local.AuthorityKeypair)
	}
	return cfg, nil
}

func fill(setting *string, value string) {
	if *setting == "" {
		*setting = value
	}
}

func newEnv() *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Prints where the local run's servers are, ready for a shell",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig()
			if err != nil {
				return err
			}
			if cfg.NATSURL == "" && cfg.DatabaseURL == "" && cfg.SolanaRPCURL == "" {
				return fmt.Errorf("%w: start one with `make run`, or name its folder in LEDGER_DATA_DIR", datadir.ErrNotRunning)
			}
			for _, v := range [][2]string{
				{"NATS_URL", cfg.NATSURL}, {"DATABASE_URL", withoutDefaultPort(cfg.DatabaseURL)}, {"SOLANA_RPC_URL", cfg.SolanaRPCURL},
			} {
				if v[1] != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "%s=%s\n", v[0], shellQuote(v[1]))
				}
			}
			return nil
		},
	}
}

// withoutDefaultPort leaves out what a client takes anyway: then the URL of a local
// run's socket needs no quotes, and not all who read these lines are shells.
func withoutDefaultPort(databaseURL string) string {
	if os.Getenv("PGPORT") != "" {
		return databaseURL
	}
	return strings.TrimSuffix(databaseURL, "&port=5432")
}

// shellQuote leaves harmless values as they are and puts others in single
// quotes.
func shellQuote(s string) string {
	const harmless = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@%+=,?"
	if strings.Trim(s, harmless) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
