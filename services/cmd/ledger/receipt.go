package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/datadir"
)

func newVerifyReceipt() *cobra.Command {
	var rpc string
	var by verify.Issuer
	var to completion
	command := &cobra.Command{
		Use:   "verify-receipt FILE",
		Short: "Checks a memory's receipt, offline or against the chain",
		Long: `Checks a memory's receipt: the entry hashes to the leaf, the leaf is in the tree of
its batch, and this tree is a prefix of the committed one. The command reads only the
file (- for standard input). With --rpc it also asks a Solana node whether the chain
holds that commitment.

A receipt itself names its program and its account. With --program and --authority,
a receipt that someone else anchored is refused; get both values from the service's
operator, not from the receipt. --authority needs --program: another program could
name that authority without its consent.

A receipt that was saved before its anchor has none, and one from before its owner moved
has another operator's. Fetch it again, or write it with its anchor to another file: with
--complete and --later, from a later receipt of the same memory; with --complete, --rpc,
--program and --authority, from the chain, if the chain has a commitment to exactly the
receipt's tree, or to the one that the other operator has anchored it with.

Exit codes: 0 good, 1 the receipt is wrong, 2 not a receipt, or no answer, 3 with --rpc,
--program or --complete: it is not anchored yet.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := readReceipt(cmd, args[0])
			if err != nil {
				return err
			}
			if to == (completion{}) {
				return verifyReceipt(cmd, raw, by, rpc)
			}
			done, err := to.complete(cmd, raw, by, rpc)
			if err == nil {
				err = verifyReceipt(cmd, done, by, rpc)
			}
			if err == nil {
				err = datadir.WriteFile(to.file, done, 0o600)
			}
			return err
		},
	}
	addChain(command.Flags(), &by, &rpc)
	command.Flags().StringVar(&to.file, "complete", "", "file for the receipt with its anchor")
	command.Flags().StringVar(&to.later, "later", "", "a later receipt of the same memory; with --complete")
	return command
}

// completion is where a receipt's missing anchor comes from, and where the receipt with it
// goes.
type completion struct{ file, later string }

// complete returns the JSON of the receipt with its anchor.
func (to completion) complete(cmd *cobra.Command, raw []byte, by verify.Issuer, rpc string) ([]byte, error) {
	if to.file == "" {
		return nil, errors.New("--later needs --complete: the file for the receipt with its anchor")
	}
	if to.later == "" && (rpc == "" || by.ProgramID == "" || by.Authority == "") {
		return nil, errors.New("--complete needs --later, or --rpc, --program and --authority")
	}
	r, err := verify.ParseReceipt(raw)
	if err != nil {
		return nil, found(err)
	}
	if to.later == "" {
		r, err = r.CompleteOnchain(cmd.Context(), rpc, by)
	} else {
		var text []byte
		if text, err = readReceipt(cmd, to.later); err != nil {
			return nil, err
		}
		var later *verify.Receipt
		if later, err = verify.ParseReceipt(text); err == nil {
			r, err = r.CompleteFrom(later)
		}
	}
	if err != nil {
		return nil, found(err)
	}
	return json.Marshal(r, json.Deterministic(true))
}

func readReceipt(cmd *cobra.Command, name string) ([]byte, error) {
	in, err := open(cmd, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, verify.MaxReceipt+1))
}

// open opens a file, or standard input if the name is -. Either may wait forever, for a
// terminal or a pipe, and no context ends that. So signals end the process from here on.
func open(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(name)
}

func verifyReceipt(cmd *cobra.Command, raw []byte, by verify.Issuer, rpc string) error {
	r, err := verify.ParseReceipt(raw)
	if err == nil {
		err = r.Verify()
	}
	if err == nil {
		err = r.VerifyIssuer(by)
	}
	if err != nil {
		return found(err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "good: leaf %d of %s is in the tree of %d leaves with root %s\n", r.LeafIndex, r.Entry.Owner, r.TreeSize, r.BatchRoot)
	if a := r.Anchor; a != nil {
		fmt.Fprintf(out, "good: that tree is a prefix of the %d leaves committed with root %s\n", a.CommittedSize, a.CommittedRoot)
	} else {
		fmt.Fprintln(out, "not anchored when the receipt was made")
	}
	printIssuer(out, by)
	if rpc == "" {
		return nil
	}
	held, err := r.VerifyOnchain(cmd.Context(), rpc)
	if err != nil {
		return found(err)
	}
	printHeld(out, r.Anchor, held, by)
	return nil
}

// printIssuer says that the commitment is the authority's, if one was named.
func printIssuer(out io.Writer, by verify.Issuer) {
	if by.Authority != "" {
		fmt.Fprintf(out, "good: the account is where the authority %s commits to this owner's log\n", by.Authority)
	}
}

// printHeld says what the chain holds, and who committed it if no issuer was named.
func printHeld(out io.Writer, a *verify.Anchor, held *verify.Onchain, by verify.Issuer) {
	fmt.Fprintf(out, "good: the chain holds it: account %s, %d leaves now, root %s\n", a.Account, held.Size, held.Root)
	if by.ProgramID == "" || by.Authority == "" {
		fmt.Fprintf(out, "committed by %s, to the program %s: whether these are the service's, --authority and --program say\n", held.Authority, a.ProgramID)
	}
}

func newVerifyExport() *cobra.Command {
	var rpc string
	var by verify.Issuer
	command := &cobra.Command{
		Use:   "verify-export FILE",
		Short: "Checks an owner's export, offline or against the chain",
		Long: `Checks an export of GET /export: each entry hashes to its leaf, the leaves have the
root that the export names, and the export is complete. The command reads only the
file (- for standard input). With --rpc it also asks a Solana node whether the chain
holds the commitment that the export names. With --program and --authority, as for
verify-receipt, an export that someone else anchored is refused.

Exit codes: 0 good, 1 the export is wrong, 2 no file, or no answer from the node, 3 with
--rpc or --program: it was made before its anchor; fetch it again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return verifyExport(cmd, args[0], by, rpc) },
	}
	addChain(command.Flags(), &by, &rpc)
	return command
}

// addChain adds the flags that say which chain holds a commitment, and who made it.
func addChain(flags *pflag.FlagSet, by *verify.Issuer, rpc *string) {
	flags.StringVar(rpc, "rpc", "", "URL of a Solana JSON-RPC node to check the commitment against")
	flags.StringVar(&by.ProgramID, "program", "", "address of the program that must hold the commitment")
	flags.StringVar(&by.Authority, "authority", "", "public key of who must have committed; with --program")
}

func verifyExport(cmd *cobra.Command, name string, by verify.Issuer, rpc string) error {
	in, err := open(cmd, name)
	if err != nil {
		return err
	}
	defer in.Close()
	h, opened, err := checkLeaves(cmd.ErrOrStderr(), in)
	if err == nil {
		err = h.Anchor.VerifyIssuer(by, h.Owner)
	}
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
	printIssuer(out, by)
	if rpc == "" {
		return nil
	}
	held, err := h.VerifyOnchain(cmd.Context(), rpc)
	if err != nil {
		return found(err)
	}
	printHeld(out, h.Anchor, held, by)
	return nil
}

// checkLeaves verifies an export, shows its progress, and counts the leaves with an entry.
func checkLeaves(out io.Writer, in io.Reader) (h *verify.ExportHeader, opened uint64, err error) {
	p := newProgress(out, "checking the export", "leaves")
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
	if wrong, ok := errors.AsType[*verify.Error](err); ok && wrong.Field != verify.NoReceipt {
		return finding{err}
	}
	return err
}
