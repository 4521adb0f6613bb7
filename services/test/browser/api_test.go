package browser

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/cluster"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// startAPI runs the extension API and the projector that it needs, assembled like the
// services of a deployment. It returns the base URL of a proxy that passes all requests
// on to the API and checks every answer against the API's OpenAPI document.
func startAPI(t *testing.T, allowedOrigin, extensionNames string) string {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	addr, err := cluster.FreeAddr() // the proxy has to know it before the API listens
	must(t, err)
	front := httptest.NewServer(checking(t, contracttest.Extension, "http://"+addr))
	t.Cleanup(front.Close)
	cfg, err := config.Load([]string{
		"NATS_URL=" + natstest.Start(t).URL(), "DATABASE_URL=" + pgtest.Database(t),
		"MASTER_KEY=" + base64.StdEncoding.EncodeToString(key),
		"EXTENSION_ADDR=" + addr, "EXTENSION_URL=" + front.URL, "EXTENSION_ALLOWED_ORIGINS=" + allowedOrigin,
		"EXTENSION_NAMES=" + extensionNames,
	})
	must(t, err)
	base, err := assembly.NewBase(t.Context(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)), assembly.Dial(cfg))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var services errgroup.Group
	services.Go(func() error { return assembly.RunProjector(ctx, base) })
	services.Go(func() error { return assembly.RunExtension(ctx, base) })
	t.Cleanup(func() {
		cancel()
		if err := services.Wait(); err != nil {
			t.Error(err)
		}
		base.Close()
	})
	must(t, cluster.Await("http://"+addr+"/readyz", ctx.Done()))
	return cfg.ExtensionURL
}

// chromiumGets lists answers that the scenarios must cause. The proxy checks each of them
// against the document.
var chromiumGets = []contracttest.Answer{
	{Operation: "getConnectPage", Status: 200}, {Operation: "getConnectPage", Status: 400},
	{Operation: "createChallenge", Status: 200}, {Operation: "createChallenge", Status: 400},
	{Operation: "createSession", Status: 200}, {Operation: "createSession", Status: 401},
	{Operation: "getCaller", Status: 200}, {Operation: "revokeSession", Status: 200},
	{Operation: "createMemory", Status: 201}, {Operation: "createMemory", Status: 401},
	{Operation: "listMemories", Status: 200}, {Operation: "listMemories", Status: 401},
	{Operation: "getHealth", Status: 200}, {Operation: "(no route)", Status: 404},
	{Operation: "(preflight)", Status: 204}, {Operation: "(preflight)", Status: 403},
}

// checkSeen checks that each of these answers was checked against the document.
func checkSeen(t *testing.T) {
	t.Helper()
	missing, err := contracttest.Unseen(contracttest.Extension)
	must(t, err)
	for _, answer := range chromiumGets {
		if slices.Contains(missing, answer) {
			t.Errorf("no answer of %s with %d was held to the OpenAPI document", answer.Operation, answer.Status)
		}
	}
}

// checking returns a handler that passes requests on to the API at target and checks every
// exchange. It runs in front of the API, at the API's public address, and sees preflights
// too.
func checking(t testing.TB, api contracttest.API, target string) http.Handler {
	t.Helper()
	to, err := url.Parse(target)
	must(t, err)
	// With compression on, the transport would request gzip even if the client did not. For
	// the timeout see stacktest.NewClient.
	base := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second}
	t.Cleanup(base.CloseIdleConnections)
	return stacktest.ReadFirst(&httputil.ReverseProxy{
		Transport: contracttest.Transport(t, api, base),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		// No API of ours answers 502: the client sees that the API did not answer.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
}
