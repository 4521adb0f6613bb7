package deployed_test

import (
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

type composeService struct {
	Command     []string
	Environment map[string]string
	Build       struct{ Target string }
}

func composeServices(t *testing.T) map[string]composeService {
	t.Helper()
	var compose struct{ Services map[string]composeService }
	decode(t, "../../../compose.yaml", yaml.Unmarshal, &compose)
	return compose.Services
}

// TestComposeRunsCommandsThatExist: compose.yaml runs existing commands, with variables
// that the program reads. A misspelled variable would silently leave the default.
func TestComposeRunsCommandsThatExist(t *testing.T) {
	t.Parallel()
	ledger := stacktest.Program(t, stacktest.Ledger)
	help, err := exec.Command(ledger, "--help").Output()
	must(t, err)
	known := map[string]bool{"GOMEMLIMIT": true} // Go itself reads it
	fields := reflect.TypeFor[config.Config]()
	for i := range fields.NumField() {
		known[fields.Field(i).Tag.Get("env")] = true
	}
	ours := 0
	for name, s := range composeServices(t) {
		if s.Build.Target != "ledger" {
			continue
		}
		ours++
		for variable, value := range s.Environment {
			if !known[variable] && !(known[strings.TrimSuffix(variable, "_FILE")] && strings.HasPrefix(value, "/run/secrets/")) {
				t.Errorf("%s: nobody reads %s", name, variable)
			}
		}
		if name == "tools" {
			continue // gets its command when it is run
		}
		if len(s.Command) == 0 || !regexp.MustCompile(`(?m)^  `+s.Command[0]+` `).Match(help) {
			t.Errorf("%s: there is no command %v", name, s.Command)
		}
	}
	if ours < 7 {
		t.Errorf("only %d services are ours", ours)
	}
}

// TestComposePassesEverySetting: a variable that a service of compose.yaml reads gets to it,
// or there would be no way to set it.
func TestComposePassesEverySetting(t *testing.T) {
	t.Parallel()
	// The log's credentials are in NATS_URL, provision sets the replicas, and the extension API
	// can't reach a chain.
	elsewhere := []string{"NATS_CREDS", "NATS_INBOX_PREFIX", "NATS_REPLICAS", "SOLANA_RPC_URL"}
	for name, s := range composeServices(t) {
		if s.Build.Target != "ledger" || name == "tools" || name == "provision" {
			continue
		}
		for _, v := range config.VariablesOf(s.Command[0]) {
			_, given := s.Environment[v.Name]
			_, inFile := s.Environment[v.Name+"_FILE"]
			if !given && !inFile && !slices.Contains(elsewhere, v.Name) {
				t.Errorf("%s does not get %s", name, v.Name)
			}
		}
	}
}

// TestComposeFillsTheGatewaysTemplate: compose.yaml sets exactly the variables that the
// gateway's template uses.
func TestComposeFillsTheGatewaysTemplate(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../infra/gateway/nginx.conf.template")
	must(t, err)
	asked := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{(GATEWAY_[A-Z_]+)\}`).FindAllStringSubmatch(string(text), -1) {
		asked[m[1]] = true
	}
	given := composeServices(t)["gateway"].Environment
	for variable := range asked {
		if given[variable] == "" {
			t.Errorf("nobody sets %s", variable)
		}
	}
	for variable := range given {
		if strings.HasPrefix(variable, "GATEWAY_") && !asked[variable] {
			t.Errorf("nobody asks for %s", variable)
		}
	}
}
