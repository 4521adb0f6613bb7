package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
)

// moveLog imports an owner's export. It checks the file first: a bad one is not sent.
func moveLog(cmd *cobra.Command, from string, wallet walletFlags, dry bool) error {
	if from == "" {
		return errors.New("--from is missing: the export to read")
	}
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	h, opened, err := checkLeaves(cmd.ErrOrStderr(), file)
	if err != nil {
		return found(err)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "good: the %d leaves of %s have the root %s; %d have an entry\n", h.TreeSize, h.Owner, h.Root, opened)
	if dry {
		return nil
	}
	client, owner, err := wallet.client(cmd.Context())
	if err != nil {
		return err
	}
	if owner != h.Owner {
		return fmt.Errorf("the export is of %s, and --keypair is the wallet of %s", h.Owner, owner)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sending := &sent{from: file, bar: newProgress(cmd.ErrOrStderr(), "sending the export", inBytes)}
	if is, err := file.Stat(); err == nil {
		sending.size = uint64(is.Size())
	}
	done, err := client.Import(cmd.Context(), sending)
	sending.bar.done()
	switch {
	case errors.Is(err, memoryledger.ErrConflict), errors.Is(err, memoryledger.ErrInvalid):
		return err
	case err != nil:
		return fmt.Errorf("%w\nif it broke off, run it again: it goes on where it was", err)
	}
	fmt.Fprintf(out, "the log has %d leaves and the root %s: %d were added\n", done.TreeSize, done.Root, done.Added)
	return nil
}

// sent shows how much of a file was sent.
type sent struct {
	from     io.Reader
	bar      *progress
	at, size uint64
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.at += uint64(n)
	s.bar.at(s.at, s.size)
	return n, err
}
