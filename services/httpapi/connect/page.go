package connect

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Each part of a page is a separate file, so that it is easy to read. A page is one
// answer: the browser fetches nothing else.
var (
	//go:embed *.html
	files embed.FS
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
	//go:embed extension.js
	extensionJS string
	//go:embed consent.js
	consentJS string

	templates = template.Must(template.ParseFS(files, "*.html"))
)

// WalletsJS is the ES module that finds wallets and sends requests to them.
//
//go:embed wallets.js
var WalletsJS string

var Style = pageCSS

// Parts returns the templates that all pages share: "head", which takes the members Nonce
// and Style, and "brand".
func Parts() *template.Template { return template.Must(template.New("").ParseFS(files, "parts.html")) }

type Config struct {
	APIURL     string            // public base URL of the extension API, without a slash at its end
	SessionTTL time.Duration     // how long a session lasts; 0: the page does not say
	Names      map[string]string // extension names by id, for people
}

// ourExtension is the id of the product's own extension in browsers based on Chromium. It
// follows from the key in the extension's manifest.
const ourExtension = "khdnmbojpknicfadnkbeegfmcpdfaedl"

// nameOf returns an extension's name, empty if it is not known. The operator may
// give the product's own extension another name.
func (cfg Config) nameOf(id string) string {
	name := cfg.Names[strings.ToLower(id)]
	if name == "" && id == ourExtension {
		return "Memory Ledger"
	}
	return name
}

// frame is what the sign-in page and the refusal page share.
type frame struct {
	Nonce string
	Style template.CSS
}

type page struct {
	frame
	Script   template.JS
	Callback Callback
	Name     string // the extension's; empty if the operator did not name it
	Unlisted bool   // the operator named extensions, but not this one
	APIURL   string
	Host     string // of APIURL
	Home     string // the address of this page, at APIURL
	Lasts    string // how long the session lasts, for people
}

// refused is the page for a refused callback. It shows nothing that the request sent.
type refused struct {
	frame
	Example string
}

// Page serves the sign-in page. It checks the callback first. If the callback is not a
// page of a browser extension, a browser that navigates gets a page that says so, with
// status 400. Other clients get ErrCallback.
func Page(cfg Config) fiber.Handler {
	host := HostOf(cfg.APIURL)
	return func(c *fiber.Ctx) error {
		c.Vary(fiber.HeaderAccept)
		frame := newFrame()
		callback, err := onlyCallback(c)
		switch {
		case err == nil:
			name := cfg.nameOf(callback.ID)
			return send(c, http.StatusOK, "page.html", signInPolicy(frame.Nonce), page{
				frame: frame, Script: template.JS(WalletsJS + extensionJS + pageJS), Callback: callback,
				Name: name, Unlisted: name == "" && len(cfg.Names) > 0 && callback.sameEverywhere(),
				APIURL: cfg.APIURL, Host: host, Home: homeOf(cfg.APIURL, callback.URL), Lasts: inWords(cfg.SessionTTL),
			})
		case c.Accepts(fiber.MIMEApplicationJSON, fiber.MIMETextHTML) == fiber.MIMETextHTML:
			return send(c, http.StatusBadRequest, "refused.html", refusedPolicy(frame.Nonce), refused{
				frame: frame, Example: homeOf(cfg.APIURL, exampleCallback),
			})
		}
		return err
	}
}

const exampleCallback = "chrome-extension://abcdefghijklmnopabcdefghijklmnop/callback.html"

// homeOf is the address of the sign-in page for a callback.
func homeOf(apiURL, callback string) string {
	return apiURL + "/connect?" + url.Values{"callback": {callback}}.Encode()
}

func send(c *fiber.Ctx, status int, name, policy string, data any) error {
	var html bytes.Buffer
	if err := templates.ExecuteTemplate(&html, name, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY") // for browsers that ignore frame-ancestors
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	return c.Status(status).Send(html.Bytes())
}

// onlyCallback refuses a request with several callbacks: a proxy in front of this
// service may have checked a different one than this service would use.
func onlyCallback(c *fiber.Ctx) (Callback, error) {
	given := c.Context().QueryArgs().PeekMulti("callback")
	if len(given) != 1 {
		return Callback{}, ErrCallback
	}
	return ParseCallback(string(given[0]))
}

// signInPolicy allows only this answer's own style and script, calls to the API that
// served it, and the data-URL icons of wallets.
func signInPolicy(nonce string) string {
	return policy("script-src 'nonce-"+nonce+"'", "style-src 'nonce-"+nonce+"'", "connect-src 'self'", "img-src data:")
}

// refusedPolicy allows only this answer's own style and icon.
func refusedPolicy(nonce string) string {
	return policy("style-src 'nonce-"+nonce+"'", "img-src data:")
}

func policy(allowed ...string) string {
	return "default-src 'none'; " + strings.Join(allowed, "; ") + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// inWords returns a duration for people, in the largest unit that divides it: days,
// hours, or minutes. It rounds minutes up.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	count := func(n time.Duration, unit string) string {
		if n != 1 {
			unit += "s"
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	switch {
	case d <= 0:
		return ""
	case d%day == 0:
		return count(d/day, "day")
	case d%time.Hour == 0:
		return count(d/time.Hour, "hour")
	}
	return count((d+time.Minute-1)/time.Minute, "minute")
}

// HostOf returns the host and port of a URL that the configuration has checked.
func HostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	return u.Host
}
