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

// showVariables has the help of each command end with the variables that it reads.
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

// arguments is for commands that take these, by the names that their usage line
// has for them.
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

// noCommand is for the program without one that there is.
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

// wrongFlag says what is wrong with a flag in a sentence.
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

// kindOf is what a flag takes, in words.
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

// didYouMean is the end of a sentence about a name that there is not; empty where
// none is like it.
func didYouMean(typed string, names []string) string {
	closest := closestTo(typed, names)
	if closest == "" {
		return ""
	}
	return ": did you mean " + closest + "?"
}

// closestTo is the name that is most likely meant: cobra's idea of it, of commands.
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
