package contracttest_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestRoutesAreTheDocumented compares what the apps have registered with what
// their documents describe.
func TestRoutesAreTheDocumented(t *testing.T) {
	coreApp := app("core")
	(&core.API{}).Mount(coreApp)
	extensionApp := app("extension")
	(&extension.API{}).Mount(extensionApp)
	for name, api := range map[string]struct {
		app      *httpapi.App
		document []byte
	}{
		"core":      {coreApp, core.OpenAPI},
		"extension": {extensionApp, extension.OpenAPI},
	} {
		registered, documented := registeredRoutes(api.app), documentedRoutes(t, api.document)
		for _, route := range slices.Sorted(maps.Keys(registered)) {
			if !documented[route] {
				t.Errorf("%s: %s is registered, but not documented", name, route)
			}
		}
		for _, route := range slices.Sorted(maps.Keys(documented)) {
			if !registered[route] {
				t.Errorf("%s: %s is documented, but not registered", name, route)
			}
		}
	}
}

func app(service string) *httpapi.App { return httpapi.New(configOf(service)) }

func configOf(service string) httpapi.Config {
	documents := map[string][]byte{"core": core.OpenAPI, "extension": extension.OpenAPI}
	return httpapi.Config{
		Service: service, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		OpenAPI: documents[service], ShowCauses: service == "extension",
		NewID: func() string { return "id" },
	}
}

var parameter = regexp.MustCompile(`:([A-Za-z]+)`)

// registeredRoutes leaves out middleware and the HEAD that comes with GET.
func registeredRoutes(app *httpapi.App) map[string]bool {
	routes := make(map[string]bool)
	for _, route := range app.GetRoutes(true) {
		if route.Method != fiber.MethodHead {
			routes[route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}")] = true
		}
	}
	return routes
}

var methods = map[string]string{
	"get": "GET", "post": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE", "options": "OPTIONS", "trace": "TRACE",
}

func documentedRoutes(t *testing.T, document []byte) map[string]bool {
	t.Helper()
	var parsed struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		t.Fatal(err)
	}
	routes := make(map[string]bool)
	for path, item := range parsed.Paths {
		for name := range item {
			if method, ok := methods[name]; ok {
				routes[method+" "+path] = true
			}
		}
	}
	return routes
}

// TestDocumentsNameNoHost: wherever a service is reached, its document leads
// back to it.
func TestDocumentsNameNoHost(t *testing.T) {
	for name, document := range map[string][]byte{"core": core.OpenAPI, "extension": extension.OpenAPI} {
		var parsed struct {
			Servers []struct {
				URL string `json:"url"`
			} `json:"servers"`
		}
		if err := json.Unmarshal(document, &parsed); err != nil {
			t.Fatal(err)
		}
		if len(parsed.Servers) != 1 || parsed.Servers[0].URL != "/" {
			t.Errorf("%s: %v", name, parsed.Servers)
		}
	}
}
