package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// strictHelp makes help for something that there is not wrong usage.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, command := range root.Commands() {
		if command.Name() != "help" {
			continue
		}
		show := command.Run
		command.Run = nil
		command.RunE = func(cmd *cobra.Command, args []string) error {
			if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
				return fmt.Errorf("there is no help on %q", args)
			}
			show(cmd, args)
			return nil
		}
	}
}

// watched remembers that something could not be written: what was not printed was
// not done, whichever line of a command's it was.
type watched struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}
