// Command write generates docs/configuration.md and .env.example in the given folder,
// from the tags of config.Config.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/memory-ledger/ledger/services/run/config"
)

const markdownHead = `# Configuration

<!-- Made from services/run/config/config.go by go generate ./services/run/config. -->

Every variable that a command of ` + "`ledger`" + ` reads, and which ones read it; ` + "`ledger COMMAND --help`" + ` lists its own. A missing or malformed variable stops a command at its start; it lists every problem at once. [Operations](operations.md#configuration) says what to set for what.

A variable marked * may be handed over in a file, which ` + "`NAME_FILE`" + ` then names. ` + "`ledger run`" + ` has other defaults where the table says so: it brings the servers that are not named. ` + "`GOMAXPROCS`" + `, ` + "`GOGC`" + `, ` + "`GOMEMLIMIT`" + ` and ` + "`NO_COLOR`" + ` work as usual. ` + "`LEDGER_ENV`" + ` is printed by ` + "`ledger env`" + ` and marks the values beside it.

| variable | default | in ` + "`run`" + ` | read by | meaning |
|---|---|---|---|---|
`

const exampleHead = `# Every variable of ledger, with its default. Made by go generate ./services/run/config.
#
# Copy it to .env and take the # from what you change. A local run:
#
#   set -a; . ./.env; set +a; make run
#
# docker compose reads .env by itself. What else a deployment sets is in
# docs/operations.md, what each variable means to whom in docs/configuration.md.
`

func main() {
	root := os.Args[1]
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// files returns the generated texts by their file names in the repository.
func files() map[string]string {
	return map[string]string{"docs/configuration.md": markdown(), ".env.example": example()}
}

var quoted = regexp.MustCompile(`(^|[ (])'([^']+)'`)

func markdown() string {
	var b strings.Builder
	b.WriteString(markdownHead)
	for _, v := range config.Variables() {
		name := "`" + v.Name + "`"
		if v.File {
			name += " *"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, code(v.Default), v.RunDefault, strings.Join(v.Commands, ", "), quoted.ReplaceAllString(v.Meaning, "$1`$2`"))
	}
	return b.String()
}

func code(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

func example() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, v := range config.Variables() {
		commands := v.Commands
		if slices.Contains(commands, "run") && len(commands) > 5 {
			commands = []string{"all services"}
		}
		fmt.Fprintf(&b, "\n# %s: %s\n", strings.Join(commands, ", "), v.Meaning)
		if v.RunDefault != "" {
			fmt.Fprintf(&b, "# In a local run: %s.\n", v.RunDefault)
		}
		fmt.Fprintf(&b, "#%s=%s\n", v.Name, v.Default)
	}
	return b.String()
}
