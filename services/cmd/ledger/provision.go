package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newProvision() *cobra.Command {
	return &cobra.Command{
		Use:   "provision",
		Short: "Creates the log, the buckets and the followers' consumers on a cluster; needs the admin's credentials",
		Long: `Creates the log, the buckets and the followers' consumers on a cluster, or updates
them to the settings of this build, and prints the result. It needs the admin's
credentials, and can run again at any time.

NATS_REPLICAS (1, 3 or 5) is the number of servers that keep each stream. Without it,
existing streams keep their number, and a new log gets three on a cluster and one
elsewhere. The number of a stream can't be reduced.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(environ())
			if err != nil {
				return err
			}
			if err := cfg.Check(config.NeedLog); err != nil {
				return err
			}
			made, err := assembly.Provision(cmd.Context(), cfg, newLogger(cfg.LogLevel).With("service", "provision"), assembly.Dial(cfg))
			for _, one := range made {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", one.What, one.Now)
			}
			return err
		},
	}
}

// newProbe is the health check of containers that contain only this program.
func newProbe() *cobra.Command {
	return &cobra.Command{
		Use: "probe URL", Short: "Exits with 0 if the URL answers 200, otherwise with 1", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
			defer cancel()
			if err := answers(ctx, args[0]); err != nil {
				return finding{err}
			}
			return nil
		},
	}
}
