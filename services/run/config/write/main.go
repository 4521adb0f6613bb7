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

` + "`ledger COMMAND --help`" + ` lists the variables that a command reads. A missing or malformed variable stops a command at its start; it lists every problem at once. [Operations](operations.md#configuration) says what to set for what.

For a variable marked *, ` + "`NAME_FILE`" + ` may name a file with the value. ` + "`GOMAXPROCS`" + `, ` + "`GOGC`" + `, ` + "`GOMEMLIMIT`" + ` and ` + "`NO_COLOR`" + ` work as usual.

| variable | default | meaning |
|---|---|---|
`

const markdownTail = `
## A master key in a device

` + "`ledger-pkcs11`" + ` (` + "`make pkcs11`" + `, or the image target of that name) uses an AES key that never leaves a PKCS #11 token, and answers on a Unix socket:

<!-- not run: needs a token; TestOwnersOfSoftHSM does this with SoftHSM -->
` + "```sh" + `
ledger-pkcs11 --generate /run/ledger-key/key.sock 'pkcs11:token=ledger;object=master?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/secrets/pin'
` + "```" + `

With ` + "`MASTER_KEY=unix:/run/ledger-key/key.sock`" + `, [a rotation](operations.md#deployment) moves data keys to it. Without the device, owners whose keys are in memory go on; others get 503.
`

const exampleHead = `# Every variable of ledger, with its default. Made by go generate ./services/run/config.
#
# Copy it to .env and take the # from what you change. A local run:
#
#   set -a; . ./.env; set +a; make run
#
# docker compose reads .env by itself; what only it reads is at the end. It passes on
# what compose.yaml names. docs/configuration.md says what each variable means to whom.
`

// composeOnly are the settings that compose.yaml alone reads.
var composeOnly = []config.Variable{
	{Name: "GATEWAY_CORE_HOST", Default: "core.localhost", Meaning: "the host in CORE_URL"},
	{Name: "GATEWAY_EXTENSION_HOST", Default: "extension.localhost", Meaning: "the host in EXTENSION_URL"},
	{Name: "GATEWAY_PORT", Default: "8443", Meaning: "the port that is open to all"},
	{Name: "DEVICE_KEY", Meaning: "the key in a device, as in docs/configuration.md, without pin-source; only with infra/deploy/compose.device.yaml"},
	{Name: "PROMETHEUS_PORT", Default: "9090", Meaning: "Prometheus' port on loopback"},
	{Name: "GRAFANA_PORT", Default: "3000", Meaning: "Grafana's port on loopback; its user admin has the password in secrets/grafana_password"},
}

// ofCompose finds the settings of compose.yaml, with their defaults.
var ofCompose = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

func main() {
	root := os.Args[1]
	compose, err := os.ReadFile(filepath.Join(root, "compose.yaml"))
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files(string(compose)) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// files returns the generated texts by their file names in the repository.
func files(compose string) map[string]string {
	return map[string]string{"docs/configuration.md": markdown(), ".env.example": example(compose)}
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
		byDefault := code(v.Default)
		if v.RunDefault != "" {
			byDefault = strings.TrimPrefix(byDefault+"; in `run`: "+v.RunDefault, "; ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, byDefault, quoted.ReplaceAllString(v.Meaning, "$1`$2`"))
	}
	b.WriteString(markdownTail)
	return b.String()
}

// readers names the commands in few words. A local run reads what its services read.
func readers(commands []string) string {
	others := slices.DeleteFunc(slices.Clone(commands), func(command string) bool { return command == "run" })
	switch {
	case len(others) == 0:
		return "run"
	case len(others) > 8 && slices.Contains(others, "core-api"):
		return "all"
	case len(others) > 8:
		return "tools"
	case slices.Equal(others, []string{"core-api", "extension-api"}):
		return "APIs"
	case slices.Equal(others, []string{"anchorer", "core-api", "extension-api", "projector"}):
		return "services"
	}
	return strings.Join(others, ", ")
}

func code(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

func example(compose string) string {
	var b strings.Builder
	b.WriteString(exampleHead)
	inCompose := map[string]string{}
	for _, m := range ofCompose.FindAllStringSubmatch(compose, -1) {
		inCompose[m[1]] = m[2]
	}
	for _, v := range config.Variables() {
		fmt.Fprintf(&b, "\n# %s: %s\n", readers(v.Commands), v.Meaning)
		if v.RunDefault != "" {
			fmt.Fprintf(&b, "# In a local run: %s.\n", v.RunDefault)
		}
		if value := inCompose[v.Name]; value != "" && value != v.Default {
			fmt.Fprintf(&b, "# In compose.yaml: %s.\n", value)
		}
		fmt.Fprintf(&b, "#%s=%s\n", v.Name, v.Default)
	}
	for _, v := range composeOnly {
		fmt.Fprintf(&b, "\n# compose.yaml: %s\n#%s=%s\n", v.Meaning, v.Name, v.Default)
	}
	return b.String()
}
