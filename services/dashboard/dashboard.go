// Package dashboard serves the owner's dashboard: a page that lets people do everything
// that the two APIs do, by calling them. A browser gets the files in app/ unchanged,
// except that index.html is a template. vendor/bundle.mjs makes the files named vendor-*.
package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
)

var (
	//go:embed app
	files embed.FS

	index = template.Must(template.ParseFS(files, "app/index.html"))
)

// Config holds the addresses that the page calls.
type Config struct {
	CoreURL, ExtensionURL string // public base URLs, without a slash at the end
	ChainID               string // as in challenges, such as mainnet
	// The page checks transactions against them before a wallet signs. Empty without staking.
	StakingProgramID, StakeMint string
	// RPCURL is of the Solana node that the page calls. Without it the page checks no
	// account.
	RPCURL string
}

// Mount adds the page to the core API's app. It redirects a browser from / and /app to the page.
func Mount(app *httpapi.App, cfg Config) {
	app.Get("/", toPage)
	app.Get("/app", toPage)
	app.Get("/app/", cfg.serveIndex)
	app.Get("/app/:file", app.Compressed(serveFile))
}

func toPage(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderAccept)
	if c.Accepts(fiber.MIMEApplicationJSON, fiber.MIMETextHTML) != fiber.MIMETextHTML {
		return fiber.ErrNotFound
	}
	return c.Redirect("/app/", http.StatusFound)
}

func (cfg Config) serveIndex(c *fiber.Ctx) error {
	var page bytes.Buffer
	if err := index.Execute(&page, cfg); err != nil {
		return fmt.Errorf("write index.html: %w", err)
	}
	c.Set(fiber.HeaderContentSecurityPolicy, policy(cfg.ExtensionURL, cfg.RPCURL))
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	return c.Send(page.Bytes())
}

// policy allows only the dashboard's own files, calls to both APIs and the Solana node,
// and the data-URL icons of wallets.
func policy(urls ...string) string {
	origins := []string{"'self'"}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			origins = append(origins, u.Scheme+"://"+u.Host)
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src " + strings.Join(origins, " ") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

var mediaTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// serveFile answers with a script or a style sheet. Other files of the folder are not
// served.
func serveFile(c *fiber.Ctx) error {
	name := httpapi.Param(c, "file")
	media, known := mediaTypes[path.Ext(name)]
	if !known || !fs.ValidPath(name) {
		return fiber.ErrNotFound
	}
	content, err := read(name)
	if err != nil {
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentType, media)
	return c.Send(content)
}

// read returns a file of the page. wallets.js is shared with the sign-in page.
func read(name string) ([]byte, error) {
	if name == "wallets.js" {
		return []byte(connect.WalletsJS), nil
	}
	return files.ReadFile("app/" + name)
}
