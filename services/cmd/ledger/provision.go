package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/assembly"
	"github.com/memory-ledger/ledger/services/config"
)

func newProvision() *cobra.Command {
	return &cobra.Command{
		Use:   "provision",
		Short: "Creates the log, the buckets and the followers' consumers on a cluster; needs its admin's credentials",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(os.Environ())
			if err != nil {
				return err
			}
			if err := cfg.Check(config.NeedLog); err != nil {
				return err
			}
			return assembly.Provision(cmd.Context(), cfg, newLogger(cfg.LogLevel).With("service", "provision"), assembly.Dial(cfg))
		},
	}
}

const probeTimeout = 3 * time.Second

// newProbe is the health check of containers that hold nothing but this
// program.
func newProbe() *cobra.Command {
	return &cobra.Command{
		Use: "probe URL", Short: "Exit 0 where the URL answers 200, else 1", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return finding{err}
			}
			_ = answer.Body.Close() // only the status matters
			if answer.StatusCode != http.StatusOK {
				return finding{fmt.Errorf("%s answers %s", args[0], answer.Status)}
			}
			return nil
		},
	}
}
