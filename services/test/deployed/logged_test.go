package deployed_test

import (
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestGatewayLogsNoTokens: the gateway's log holds no grant's token, whatever the answer
// to the request was. That includes tokens in paths that match no route.
func TestGatewayLogsNoTokens(t *testing.T) {
	t.Parallel()
	nginxPath(t)
	g := startGateway(t, []string{freeAddr(t)}, []string{freeAddr(t)}) // no service behind it
	core, extension := g.client(t, coreHost), g.client(t, extensionHost)
	for _, prefix := range []string{"/agent-cases/svc_case_", "/memory-drops/svc_drop_"} {
		method, secret := "GET", "s3cr3tS3cr3ts3cr3tS3cr3ts3cr3tS3cr3t0000000"
		if strings.Contains(prefix, "drop") {
			method = "POST"
		}
		for _, path := range []string{prefix + secret, prefix + secret + "/", prefix + secret + "%2F", prefix + secret + "/status", "/" + prefix + secret, "/elsewhere" + prefix + secret} {
			extension.Do(method, path, nil, stacktest.With("X-Request-Id", "asked"))
			core.Do(method, path, nil, stacktest.With("X-Request-Id", "asked"))
		}
		for range 40 { // more than the limit's zone allows
			extension.Do(method, prefix+secret, nil, stacktest.With("X-Request-Id", "limited"))
		}
	}
	const all = 2 * (12 + 40)
	testkit.Await(t, "all requests are logged", func() bool { return strings.Count(g.log.String(), `"requestId"`) >= all })
	if !strings.Contains(g.log.String(), `"status":429`) || !strings.Contains(g.log.String(), `"path":"/agent-cases/-"`) {
		t.Errorf("the log has not what it is about")
	}
	told := map[string]bool{}
	for line := range strings.Lines(g.log.String()) {
		if at := strings.Index(line, "s3cr3t"); at >= 0 && !told[line[:20]] {
			told[line[:20]] = true
			t.Errorf("a token is logged: %.400s", line)
		}
	}
}

var must, errorOf = testkit.Must, testkit.ErrorOf

func TestMain(m *testing.M) { stacktest.Main(m) }
