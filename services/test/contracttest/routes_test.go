package contracttest_test

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/test/contracttest"
)

// TestRoutesAreTheDocumented compares the registered routes of the apps with the routes
// in their documents.
func TestRoutesAreTheDocumented(t *testing.T) {
	coreApp := app("core")
	(&core.API{}).Mount(coreApp)
	extensionApp := app("extension")
	(&extension.API{}).Mount(extensionApp)
	for api, app := range map[contracttest.API]*httpapi.App{contracttest.Core: coreApp, contracttest.Extension: extensionApp} {
		operations, err := contracttest.Operations(api)
		testkit.Must(t, err)
		var documented []string
		for _, op := range operations {
			if op.Method != "*" {
				documented = append(documented, op.Method+" "+op.Path)
			}
		}
		slices.Sort(documented)
		if registered := registeredRoutes(app); !slices.Equal(registered, documented) {
			t.Errorf("%s: registered:\n%s\ndocumented:\n%s", api, strings.Join(registered, "\n"), strings.Join(documented, "\n"))
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
func registeredRoutes(app *httpapi.App) (routes []string) {
	for _, route := range app.GetRoutes(true) {
		if route.Method != fiber.MethodHead {
			routes = append(routes, route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}"))
		}
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}

// TestDocumentsNameNoHost: the documents name no host, so requests go to the address that
// served the document.
func TestDocumentsNameNoHost(t *testing.T) {
	for name, document := range map[string][]byte{"core": core.OpenAPI, "extension": extension.OpenAPI} {
		var parsed struct {
			Servers []struct {
				URL string `json:"url"`
			} `json:"servers"`
		}
		testkit.Must(t, json.Unmarshal(document, &parsed))
		if len(parsed.Servers) != 1 || parsed.Servers[0].URL != "/" {
			t.Errorf("%s: %v", name, parsed.Servers)
		}
	}
}
