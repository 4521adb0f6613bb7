package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/assembly"
	"github.com/memory-ledger/ledger/services/config"
)

func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Everything in one process: both APIs, projector, anchorer, and the servers they need",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environ := os.Environ()
			if os.Getenv("ANCHOR_MAX_WAIT") == "" {
				environ = append(environ, "ANCHOR_MAX_WAIT="+assembly.LocalAnchorMaxWait.String())
			}
			cfg, err := config.Load(environ)
			if err != nil {
				return err
			}
			spareProcessors()
			return assembly.RunLocal(cmd.Context(), cfg, newLogger(cfg.LogLevel), func(line string) {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			})
		},
	}
}

// spareProcessors gives the scheduler two processors more than there are. The
// embedded log's fsyncs each hold one for as long as the disk takes, until the
// runtime notices and hands it on: on two cores that is half of the machine,
// some hundred times a second.
func spareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
}
