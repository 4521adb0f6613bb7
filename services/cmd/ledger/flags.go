package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// stringFlag defines an optional flag with a value that must not be empty or repeated. An
// unset variable in a script must not pass for a missing flag: a missing flag means
// everything, or no check.
func stringFlag(flags *pflag.FlagSet, to *string, name, usage string) {
	flags.Var(&onceString{to: to}, name, usage)
}

type onceString struct {
	to    *string
	given bool
}

// Set implements pflag.Value.
func (s *onceString) Set(value string) error {
	switch {
	case value == "":
		return errors.New("it must not be empty")
	case s.given:
		return errors.New("it must not be given more than once")
	}
	*s.to, s.given = value, true
	return nil
}

// String implements pflag.Value.
func (s *onceString) String() string {
	if s.to == nil { // pflag makes a zero value to learn how it prints
		return ""
	}
	return *s.to
}

// Type implements pflag.Value.
func (s *onceString) Type() string { return "string" }

// listFlag defines a flag that takes several values, separated by commas or by repeating
// the flag. None of them may be empty; see stringFlag.
func listFlag(flags *pflag.FlagSet, to *[]string, name, usage string) {
	flags.Var((*stringList)(to), name, usage)
}

type stringList []string

// Set implements pflag.Value.
func (l *stringList) Set(value string) error {
	for one := range strings.SplitSeq(value, ",") {
		if one = strings.TrimSpace(one); one == "" {
			return errors.New("it must not be empty")
		}
		*l = append(*l, one)
	}
	return nil
}

// String implements pflag.Value.
func (l *stringList) String() string { return strings.Join(*l, ",") }

// Type implements pflag.Value.
func (l *stringList) Type() string { return "names" }
