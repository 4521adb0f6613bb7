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
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	// Mozilla's certificate authorities, for images that have none: a chain's node is reached over https.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/memory-ledger/ledger/events/verify"
)

// Exit codes.
const (
	exitFinding     = 1
	exitUsage       = 2
	exitNotAnchored = 3
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
		return 0
	}
	var f finding
	if errors.As(err, &f) {
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

// complain prints an error. It may quote a file or a service, so what a terminal would act on
// is escaped, except line ends.
func complain(err error) {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = verify.Printable(line)
	}
	fmt.Fprintln(os.Stderr, "ledger:", strings.Join(lines, "\n"))
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
		// A script that lost its subcommand must not continue as if it had run.
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.ErrOrStderr(), cmd.UsageString())
			return errors.New("no subcommand given")
		},
	}
	root.SetVersionTemplate("ledger {{.Version}}\n")
	root.AddCommand(
		newRun(), newCoreAPI(), newExtensionAPI(), newProjector(), newAnchorer(),
		newTail(), newVerify(), newVerifyReceipt(), newVerifyExport(), newRebuild(), newRewrap(), newCheckKey(), newForget(), newForgetMemory(), newBackup(), newRestore(), newEnv(),
		newProvision(), newSignIn(), newMCP(), newImport(), newProbe(),
	)
	showVariables(root)
	return root
}
