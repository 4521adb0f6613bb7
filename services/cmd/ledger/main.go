// Command ledger is Memory Ledger: all of it in one process (run), each
// service alone, and the tools of operators and auditors.
//
// Exit codes: 0 good, 1 a finding, 2 wrong usage or no server to talk to, 3 not anchored yet.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

const (
	exitGood = iota
	exitFinding
	exitUsage
	exitNotAnchored
)

// finding is an error that means: the work was done, and found something wrong with the
// input.
type finding struct{ error }

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, stdout io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := &watched{Writer: stdout}
	root := newRoot()
	root.SetOut(out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return exitGood
	}
	if f, ok := errors.AsType[finding](err); ok {
		if f.error != nil {
			complain(f.error)
		}
		return exitFinding
	}
	complain(err)
	if errors.Is(err, verify.ErrNotAnchored) {
		return exitNotAnchored
	}
	return exitUsage
}

func complain(err error) { fmt.Fprintln(os.Stderr, "ledger:", printable(err)) }

// printable returns an error's text. It may quote a file or a service, so what a terminal
// would act on is escaped, except line ends and tabs.
func printable(err error) string {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		err = fmt.Errorf("the log's streams are not there: run `ledger provision`, or mend NATS_URL: %w", err)
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), "\t", "  "), "\n")
	for i, line := range lines {
		lines[i] = verify.Printable(line)
	}
	return strings.Join(lines, "\n")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "ledger",
		Short:         "Stores text memories, and proves that it kept them",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{
			HiddenDefaultCmd: true,
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return refuseEmpty(cmd.Flags()) },
		// A script that lost its subcommand must not continue as if it had run.
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.ErrOrStderr(), cmd.UsageString())
			return errors.New("no subcommand given")
		},
	}
	root.SetVersionTemplate("ledger {{.Version}}\n")
	root.AddCommand(
		newRun(),
		service("core-api", "The core API: SDKs, dashboards, API keys", assembly.RunCore,
			config.NeedLog, config.NeedDatabase, config.NeedMasterKey, config.NeedJWTSecret, config.NeedStaking),
		service("extension-api", "The extension API: browser extension, sign-in page, grants", assembly.RunExtension,
			config.NeedLog, config.NeedDatabase, config.NeedMasterKey),
		service("projector", "Builds the read models from the log", assembly.RunProjector, config.NeedLog, config.NeedDatabase),
		service("anchorer", "Commits the roots of owners' logs to the chain", assembly.RunAnchorer,
			config.NeedLog, config.NeedDatabase, config.NeedChain),
		newTail(), newVerify(), newVerifyReceipt(), newVerifyExport(), newRebuild(), newRewrap(), newCheckKey(), newForget(), newForgetMemory(), newBackup(), newRestore(), newEnv(),
		newProvision(), newSignIn(), newMCP(), newImport(), newProbe(),
	)
	for _, command := range root.Commands() {
		if check := command.Args; check != nil {
			command.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
				}
				return nil
			}
		}
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error { // by itself it prints an unknown topic's usage and succeeds
		_, _, err := root.Find(args)
		return err
	}
	showVariables(root)
	return root
}

// refuseEmpty returns an error if a flag was given an empty value. An unset variable in a
// script must not pass for a missing flag: a missing flag means everything, or no check.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		if len(values) == 0 || slices.Contains(values, "") {
			err = fmt.Errorf("--%s must not be empty", f.Name)
		}
	})
	return err
}

// showVariables ends the help of each command with the environment variables that it
// reads.
func showVariables(root *cobra.Command) {
	cobra.AddTemplateFunc("variables", func(command string) string {
		var b strings.Builder
		for _, v := range config.VariablesOf(command) {
			meaning, _, _ := strings.Cut(v.Meaning, ";")
			if v.Default != "" {
				meaning += " (default " + v.Default + ")"
			}
			fmt.Fprintf(&b, "  %-27s %s\n", v.Name, meaning)
		}
		if b.Len() == 0 {
			return ""
		}
		return "\nEnvironment, more of it in docs/configuration.md:\n" + b.String()
	})
	root.SetUsageTemplate(root.UsageTemplate() + "{{variables .Name}}")
}

// watched remembers a failed write. A command that failed to print any of its lines has
// failed.
type watched struct {
	io.Writer
	err error
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}
