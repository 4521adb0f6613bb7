package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memory-ledger/ledger/services/run/config"
)

// strictHelp makes it wrong usage to ask for help on an unknown command.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, command := range root.Commands() {
		if command.Name() != "help" {
			continue
		}
		show := command.Run
		command.Run = nil
		command.RunE = func(cmd *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			switch {
			case err != nil || found == root && len(rest) > 0:
				return fmt.Errorf("there is no help on %q%s", args[0], didYouMean(args[0], commandNames(root)))
			case len(rest) > 0:
				return fmt.Errorf("there is no help on %q", strings.Join(args, " "))
			}
			show(cmd, args)
			return nil
		}
	}
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

// noArguments is for commands that take flags only.
func noArguments(cmd *cobra.Command, args []string) error { return arguments()(cmd, args) }

// arguments is for commands that take exactly the named arguments. The names are those in
// the command's usage line.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		see := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing: %s; %s", names[len(args)], cmd.UseLine(), see)
		case len(args) > len(names) && len(names) == 0:
			return fmt.Errorf("%q is too much: %s takes no arguments; %s", args[0], cmd.CommandPath(), see)
		case len(args) > len(names):
			return fmt.Errorf("%q is too much: %s takes %s; %s", args[len(names)], cmd.CommandPath(), strings.Join(names, " and "), see)
		}
		return nil
	}
}

// noCommand refuses arguments that name no command.
func noCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("there is no command %q%s; see `%s --help`", args[0], didYouMean(args[0], commandNames(root)), root.CommandPath())
}

func commandNames(root *cobra.Command) (names []string) {
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
	}
	return names
}

// wrongFlag turns a flag error into a sentence.
func wrongFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var lacking *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%s has no flag %s%s; see `%s --help`",
			cmd.CommandPath(), dashed(unknown.GetSpecifiedName()), didYouMeanFlag(cmd, unknown.GetSpecifiedName()), cmd.CommandPath())
	case errors.As(err, &lacking):
		return fmt.Errorf("--%s needs a value: %s", lacking.GetFlag().Name, lacking.GetFlag().Usage)
	case errors.As(err, &invalid):
		flag, why := invalid.GetFlag(), errors.Unwrap(invalid)
		var number *strconv.NumError
		if errors.As(why, &number) || why == nil {
			return fmt.Errorf("--%s: %q is not %s", flag.Name, invalid.GetValue(), kindOf(flag))
		}
		return fmt.Errorf("--%s: %w", flag.Name, why)
	}
	return err
}

// kindOf describes in words what a flag takes.
func kindOf(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "uint", "uint64":
		return "a number from 0 up"
	case "bool":
		return "true or false"
	}
	return "a " + flag.Value.Type()
}

func didYouMeanFlag(cmd *cobra.Command, typed string) string {
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	closest := closestTo(typed, names)
	if closest == "" {
		return ""
	}
	return ": did you mean --" + closest + "?"
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// didYouMean ends a sentence about an unknown name with the closest known name. It is
// empty if no name is close.
func didYouMean(typed string, names []string) string {
	closest := closestTo(typed, names)
	if closest == "" {
		return ""
	}
	return ": did you mean " + closest + "?"
}

// closestTo returns the name that the user most likely meant. It uses cobra's suggestions
// for commands.
func closestTo(typed string, names []string) string {
	if len(typed) < 2 {
		return ""
	}
	among := cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		among.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	found := among.SuggestionsFor(typed)
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return found[0]
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
