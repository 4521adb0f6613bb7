package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

// TestEveryVariableIsDocumented: each variable has a meaning and the commands that read
// it. A new variable needs the tags for and doc.
func TestEveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, v := range config.Variables() {
		names = append(names, v.Name)
		if v.Name == "" || len(v.Commands) == 0 || len(v.Meaning) < 10 || strings.Contains(v.Meaning, "|") {
			t.Errorf("%+v", v)
		}
	}
	for _, want := range []string{"CORE_ADDR", "EXTENSION_ADDR", "MASTER_KEY"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for command, want := range map[string]string{"core-api": "CORE_ADDR", "extension-api": "EXTENSION_ADDR", "run": "LOCAL_CHAIN", "anchorer": "ANCHOR_MAX_WAIT", "restore": "NATS_REPLICAS"} {
		if !slices.ContainsFunc(config.VariablesOf(command), func(v config.Variable) bool { return v.Name == want }) {
			t.Errorf("%s does not read %s", command, want)
		}
	}
	if slices.ContainsFunc(config.VariablesOf("core-api"), func(v config.Variable) bool { return v.Name == "EXTENSION_ADDR" }) {
		t.Error("the core API reads EXTENSION_ADDR")
	}
}
