package config

//go:generate go run ./write ../../..

import (
	"reflect"
	"slices"
	"strings"
)

// Variable is the documentation of one environment variable.
type Variable struct {
	Name       string
	Default    string
	RunDefault string   // in `ledger run`, if it differs
	Commands   []string // the commands of ledger that read it
	Meaning    string   // values and variables in single quotes
	File       bool     // Name_FILE may name a file with the value
}

// groups are names of several commands in the tags of Config.
var groups = map[string][]string{
	"apis":     {"core-api", "extension-api", "run"},
	"services": {"core-api", "extension-api", "projector", "anchorer", "run"},
	"tools":    {"tail", "verify", "rebuild", "backup", "rewrap", "check-key", "forget", "env"},
	"log": {
		"core-api", "extension-api", "projector", "anchorer", "run",
		"tail", "verify", "rebuild", "backup", "restore", "rewrap", "check-key", "forget", "provision", "env",
	},
}

// Variables lists all variables, in the order of Config.
func Variables() []Variable {
	var all []Variable
	for field := range reflect.TypeFor[Config]().Fields() {
		name, read := field.Tag.Lookup("env")
		if !read {
			continue // a command sets it
		}
		v := Variable{
			Name: name, Default: field.Tag.Get("envDefault"), RunDefault: field.Tag.Get("run"),
			Meaning: field.Tag.Get("doc"), File: slices.Contains(fromFiles, name),
		}
		for word := range strings.FieldsSeq(field.Tag.Get("for")) {
			if several, isGroup := groups[word]; isGroup {
				v.Commands = append(v.Commands, several...)
			} else {
				v.Commands = append(v.Commands, word)
			}
		}
		slices.Sort(v.Commands)
		v.Commands = slices.Compact(v.Commands)
		all = append(all, v)
	}
	return all
}

// VariablesOf lists the variables that a command reads.
func VariablesOf(command string) []Variable {
	return slices.DeleteFunc(Variables(), func(v Variable) bool { return !slices.Contains(v.Commands, command) })
}
