package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Runs everything in one process: both APIs, projector, anchorer, and the servers they need",
		Long: `Runs everything in one process until Ctrl-C: both APIs, projector, anchorer, and the
servers they need. What is missing of them is fetched into the user's cache first. It
prints their addresses, and logs to run.log in the data folder.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(localDefaults(environ()))
			if err := errors.Join(err, cfg.Check(config.WhatIsSet)); err != nil {
				return err
			}
			tune()
			return assembly.RunLocal(cmd.Context(), cfg, &console{
				out: cmd.OutOrStdout(), level: levelOf(cfg.LogLevel), getenv: os.Getenv, program: os.Args[0],
			})
		},
	}
}

// localDefaults adds the defaults that differ in a local run.
func localDefaults(environ []string) []string {
	set := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	if set["ANCHOR_MAX_WAIT"] == "" {
		environ = append(environ, "ANCHOR_MAX_WAIT="+assembly.LocalAnchorMaxWait.String())
	}
	ownChain := set["SOLANA_RPC_URL"] == "" && set["SOLANA_RPC_URL_FILE"] == "" && set["LOCAL_CHAIN"] != "off"
	if ownChain && set["SIGN_IN_CHAIN_ID"] == "" {
		environ = append(environ, "SIGN_IN_CHAIN_ID=localnet")
	}
	return environ
}

// tune sets runtime parameters that the environment leaves unset.
//
// Each fsync of the embedded log holds a scheduler processor while the disk works, until
// the runtime notices and hands it on. With two processors, that is half of them, some
// hundred times a second; two more fill in. The live heap is small compared with what a
// write allocates and drops, so the garbage collector can run less often.
func tune() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// newLogger writes structured lines to standard error.
func newLogger(level string) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: levelOf(level)}))
}

func levelOf(name string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// service is a command that runs one service, configured by the environment
// alone.
func service(name, short string, serve func(ctx context.Context, b *assembly.Base) error, needs ...config.Need) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(os.Environ())
			// Report both, so that an operator can fix the environment in one go.
			if err := errors.Join(err, cfg.Check(needs...)); err != nil {
				return err
			}
			cfg.ServiceName = "memory-ledger-" + name
			base, err := assembly.NewBase(cmd.Context(), cfg, newLogger(cfg.LogLevel).With("service", name), assembly.Dial(cfg))
			if err != nil {
				return assembly.UnlessAsked(cmd.Context(), err)
			}
			defer base.Close()
			return serve(cmd.Context(), base)
		},
	}
}
