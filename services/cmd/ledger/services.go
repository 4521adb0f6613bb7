package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

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
func service(name, short string, needs []config.Need, serve func(ctx context.Context, b *assembly.Base) error) *cobra.Command {
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

func newCoreAPI() *cobra.Command {
	needs := []config.Need{config.NeedLog, config.NeedDatabase, config.NeedMasterKey, config.NeedJWTSecret, config.NeedStaking}
	return service("core-api", "The core API: SDKs, dashboards, API keys", needs, assembly.RunCore)
}

func newExtensionAPI() *cobra.Command {
	needs := []config.Need{config.NeedLog, config.NeedDatabase, config.NeedMasterKey}
	return service("extension-api", "The extension API: browser extension, sign-in page, grants", needs, assembly.RunExtension)
}

func newProjector() *cobra.Command {
	needs := []config.Need{config.NeedLog, config.NeedDatabase}
	return service("projector", "Builds the read models from the log", needs, assembly.RunProjector)
}

func newAnchorer() *cobra.Command {
	needs := []config.Need{config.NeedLog, config.NeedDatabase, config.NeedChain}
	return service("anchorer", "Commits the roots of owners' logs to the chain", needs, assembly.RunAnchorer)
}
