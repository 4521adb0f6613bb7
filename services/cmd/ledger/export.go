package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/events/verify"
)

func newVerifyExport() *cobra.Command {
	var rpc string
	command := &cobra.Command{
		Use:   "verify-export FILE",
		Short: "Checks an owner's export, offline or against the chain",
		Long: `Checks an export of GET /export: each entry hashes to its leaf, the leaves have the
root that the export names, and the export is complete. The command reads only the
file (- for standard input). With --rpc it also asks a Solana node whether the chain
holds the commitment that the export names.

Exit codes: 0 good, 1 the export is wrong, 2 no file, or no answer from the node, 3 with
--rpc: it was made before its anchor; fetch it again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return verifyExport(cmd, args[0], rpc) },
	}
	stringFlag(command.Flags(), &rpc, "rpc", "URL of a Solana JSON-RPC node to check the commitment against")
	return command
}

func verifyExport(cmd *cobra.Command, name, rpc string) error {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	h, opened, err := checkLeaves(cmd.ErrOrStderr(), in)
	if err != nil {
		return found(err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "good: the %d leaves of %s have the root %s\n", h.TreeSize, h.Owner, h.Root)
	fmt.Fprintf(out, "good: %d entries hash to their leaves; %d leaves have none\n", opened, h.TreeSize-opened)
	if h.Anchor == nil {
		fmt.Fprintln(out, "not anchored when the export was made")
	} else {
		fmt.Fprintf(out, "good: the first %d leaves have the root that was committed, %s\n", h.Anchor.CommittedSize, h.Anchor.CommittedRoot)
	}
	if rpc == "" {
		return nil
	}
	held, err := h.VerifyOnchain(cmd.Context(), rpc)
	if err != nil {
		return found(err)
	}
	fmt.Fprintf(out, "good: the chain holds it: account %s, %d leaves now, root %s\n", h.Anchor.Account, held.Size, held.Root)
	fmt.Fprintf(out, "committed by %s, to the program %s: whether these are the service's, its operator says\n", held.Authority, h.Anchor.ProgramID)
	return nil
}

// checkLeaves verifies an export, shows its progress, and counts the leaves with an entry.
func checkLeaves(out io.Writer, in io.Reader) (h *verify.ExportHeader, opened uint64, err error) {
	p := newProgressOf(out, "checking the export", "leaves")
	defer p.done()
	export, err := verify.ReadExport(in)
	if err != nil {
		return nil, 0, err
	}
	h = &export.Header
	for m, err := range export.Memories() {
		if err != nil {
			return nil, 0, err
		}
		if m.Entry != nil {
			opened++
		}
		if n := m.Index + 1; n%1000 == 0 || n == h.TreeSize {
			p.at(n, h.TreeSize)
		}
	}
	return h, opened, nil
}

// found turns an error that describes wrong input into a finding. Input that is no receipt
// at all is wrong usage.
func found(err error) error {
	var wrong *verify.Error
	if errors.As(err, &wrong) && wrong.Field != verify.NoReceipt {
		return finding{err}
	}
	return err
}
