package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memory-ledger/ledger/services/run/config"
)

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

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}
