package deployed_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

const observe = "../../../infra/observe"

// expressions returns every PromQL expression of alerts and dashboard, by its place.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr, For string }
		}
	}
	decode(t, filepath.Join(observe, "alerts.yaml"), yaml.Unmarshal, &alerts)
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			over := regexp.MustCompile(`\[(\dm)\]\)+ > 0$`).FindStringSubmatch(r.Expr)
			if r.For != "" && over != nil && r.For <= over[1] {
				t.Errorf("%s waits %s, and once within %s is enough for it", r.Alert, r.For, over[1])
			}
			// A log's server refuses writes when three quarters of its disk are full.
			for _, full := range regexp.MustCompile(`_bytes > (0\.\d+)`).FindAllStringSubmatch(r.Expr, -1) {
				if full[1] >= "0.75" {
					t.Errorf("%s: no log fills more than 0.75 of a disk, and this waits for %s", r.Alert, full[1])
				}
			}
			all["alert "+r.Alert] = r.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	decode(t, filepath.Join(observe, "grafana/dashboards/memory-ledger.json"), json.Unmarshal, &dashboard)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title+" "+target.RefID] = strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d expressions were found", len(all))
	}
	return all
}

func decode(t *testing.T, path string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	if err := unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestQueriesNameMetricsThatExist: every query names only metrics that running services
// export. The services are both APIs, the projector, and an anchorer that has anchored a
// memory.
func TestQueriesNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	projector, anchorer := freeAddr(t), freeAddr(t)
	chain, authority := stacktest.Chain(t, 20*time.Millisecond)
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.OpsAddr = projector }})
	s.Config.OpsAddr, s.Config.AnchorMaxWait = anchorer, 50*time.Millisecond
	s.Config.SolanaRPCURL, s.Config.AuthorityKeypair, s.Config.CommitmentProgramID = chain.URL(), authority, program.LocalID.String()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop) // before the stack waits for the anchorer
	s.Anchor(ctx)
	core := s.Core[0]
	session := core.SignIn(stacktest.NewWallet())
	wrote := core.Expect(201, "POST", "/memories", map[string]any{"content": "x", "metadata": map[string]any{}}, session)
	core.Expect(200, "GET", "/memories", nil, session)
	core.AwaitAnchored(session, wrote.Text("id"))
	services := map[string]map[string]bool{}
	known := map[string]bool{ // of Prometheus, node-exporter and the kubelet
		"up": true, "node_filesystem_avail_bytes": true, "node_filesystem_size_bytes": true,
		"kubelet_volume_stats_available_bytes": true, "kubelet_volume_stats_capacity_bytes": true,
		"node_textfile_scrape_error": true, "ledger_backup_timestamp_seconds": true, // of ledger backup
	}
	for name, url := range map[string]string{
		"core": core.URL, "extension": s.Extension[0].URL, "projector": "http://" + projector, "anchorer": "http://" + anchorer,
	} {
		services[name] = metrics(t, url+"/metrics")
		maps.Copy(known, services[name])
	}
	for where, text := range expressions(t) {
		if !balanced(text) {
			t.Errorf("%s: brackets do not match: %s", where, text)
		}
		if strings.Contains(text, "route!~") && !strings.Contains(text, `"/readyz|/livez|/metrics"`) {
			t.Errorf("%s: counts probes with the requests", where)
		}
		names := metricName.FindAllString(text, -1)
		if len(names) == 0 {
			t.Errorf("%s: asks for no metric", where)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s: nobody has a metric %s", where, name)
			}
			if strings.HasPrefix(name, "ledger_anchor_") && !services["anchorer"][name] {
				t.Errorf("%s: the anchorer has no metric %s", where, name)
			}
		}
	}
}

// metricName finds names of metrics: ours, the client library's, and those of disks.
var metricName = regexp.MustCompile(`\b(?:ledger|process|go|node|kubelet)_[a-z0-9_]+\b|\bup\b`)

// balanced checks the brackets outside of strings, where most typing mistakes are.
func balanced(text string) bool {
	var open []rune
	pairs := map[rune]rune{')': '(', ']': '[', '}': '{'}
	for _, r := range regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, "") {
		switch r {
		case '(', '[', '{':
			open = append(open, r)
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != pairs[r] {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

// metrics returns the names of the series that a service exports.
func metrics(t *testing.T, url string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-zA-Z_][a-zA-Z0-9_]*)[{ ]`).FindAllStringSubmatch(exported(t, url), -1) {
		names[m[1]] = true
	}
	return names
}

// exported returns what a service says at the URL of its metrics.
func exported(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}

// TestScrapeTargetsAreServices: Prometheus scrapes only services of compose.yaml, and its
// rule files exist.
func TestScrapeTargetsAreServices(t *testing.T) {
	t.Parallel()
	var prometheus struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
			DNS    []struct{ Names []string }   `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, filepath.Join(observe, "prometheus.yaml"), yaml.Unmarshal, &prometheus)
	services := composeServices(t)
	asked := 0
	for _, c := range prometheus.ScrapeConfigs {
		var names []string
		for _, s := range c.Static {
			names = append(names, s.Targets...)
		}
		for _, d := range c.DNS {
			names = append(names, d.Names...)
		}
		for _, name := range names {
			asked++
			host, _, _ := strings.Cut(name, ":")
			if _, known := services[host]; !known {
				t.Errorf("%s is no service of compose.yaml", host)
			}
		}
	}
	if asked == 0 {
		t.Error("nobody is asked")
	}
	for _, file := range prometheus.RuleFiles {
		if _, err := os.Stat(filepath.Join(observe, file)); err != nil {
			t.Error(err)
		}
	}
}
