package connect

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// The page's three parts are files of their own, so that each can be read,
// and one answer, so that nothing has to be fetched from anywhere.
var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page.html").Parse(pageHTML))
)

// page is what the template shows.
type page struct {
	Nonce    string
	Style    template.CSS
	Script   template.JS
	Callback Callback
	APIURL   string // public base URL of the extension API
	Host     string // of APIURL
	Home     string // this very page, at APIURL
}

// Page serves the sign-in page of the extension API that has this public base
// URL, without a slash at its end. The callback is looked at before anything
// else; what is not the page of a browser extension gets ErrCallback.
func Page(apiURL string) fiber.Handler {
	host := hostOf(apiURL)
	return func(c *fiber.Ctx) error {
		callback, err := onlyCallback(c)
		if err != nil {
			return err
		}
		p := page{
			// 128 random bits: enough that no injected markup can guess it.
			Nonce: rand.Text(),
			Style: template.CSS(pageCSS), Script: template.JS(pageJS),
			Callback: callback, APIURL: apiURL, Host: host,
			Home: apiURL + "/connect?" + url.Values{"callback": {callback.URL}}.Encode(),
		}
		var html bytes.Buffer
		if err := pageTemplate.Execute(&html, p); err != nil {
			return fmt.Errorf("write the sign-in page: %w", err)
		}
		c.Set(fiber.HeaderContentSecurityPolicy, policy(p.Nonce))
		c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
		c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
		return c.Send(html.Bytes())
	}
}

// onlyCallback refuses a request with several callbacks: whoever looked at it
// before us may have checked another one than we would take.
func onlyCallback(c *fiber.Ctx) (Callback, error) {
	given := c.Context().QueryArgs().PeekMulti("callback")
	if len(given) != 1 {
		return Callback{}, ErrCallback
	}
	return ParseCallback(string(given[0]))
}

// policy allows this answer's own style and script, calls to the API that
// served it, and the icons that wallets bring along as data; nothing else.
func policy(nonce string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'nonce-" + nonce + "'",
		"style-src 'nonce-" + nonce + "'",
		"connect-src 'self'",
		"img-src data:",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
}

// hostOf returns host and port of a URL that the configuration has checked.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	return u.Host
}
