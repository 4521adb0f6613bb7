// Package connect is the sign-in page, a self-contained HTML page. On it, a wallet's
// holder gives a session to a browser extension, and to no other client.
package connect

import (
	"crypto/rand"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
)

type App struct {
	APIURL   string         // public base URL of the core API, without a slash at its end
	Name     string         // what the app calls itself; may be empty
	Document string         // the host that vouches for the name; empty if none does
	Host     string         // where the answer goes
	Scopes   []events.Scope // what it asks for
	Denied   string         // where the browser goes if the user refuses
}

type right struct {
	Scope events.Scope
	Words string
}

var rights = []right{
	{events.ScopeRead, "read and search your memories"},
	{events.ScopeWrite, "add memories, and correct them"},
	{events.ScopeRetract, "take memories back"},
	{events.ScopeShare, "hand out links that let others read or add memories"},
}

type consent struct {
	frame
	App
	Script   template.JS
	SignInTo string // host of APIURL
	Local    bool   // the answer goes to a program on the user's computer
	Rights   []right
}

// Consent shows the page on which a user connects an app, with a wallet.
func Consent(c *fiber.Ctx, app App) error {
	page := consent{
		frame: newFrame(), App: app, Script: template.JS(WalletsJS + consentJS + pageJS), SignInTo: HostOf(app.APIURL),
		Local: slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, (&url.URL{Host: app.Host}).Hostname()),
	}
	for _, r := range rights {
		if slices.Contains(app.Scopes, r.Scope) {
			page.Rights = append(page.Rights, r)
		}
	}
	// Apps open this page in a window of theirs, and hear from it once it shows their own page.
	c.Set("Cross-Origin-Opener-Policy", "unsafe-none")
	return send(c, http.StatusOK, "consent.html", signInPolicy(page.Nonce), page)
}

// refusedApp is the page for a refused request of an app. It shows nothing that the request
// sent.
type refusedApp struct {
	frame
	Reason string
	Later  bool // the service is the cause
}

// RefusedApp shows why an app's request was refused.
func RefusedApp(c *fiber.Ctx, status int, reason string) error {
	page := refusedApp{newFrame(), reason, status >= http.StatusInternalServerError}
	return send(c, status, "refusedapp.html", refusedPolicy(page.Nonce), page)
}

// newFrame returns a frame with a nonce: 128 random bits can't be guessed.
func newFrame() frame { return frame{Nonce: rand.Text(), Style: template.CSS(pageCSS)} }

// ErrCallback: the callback is not the page of a browser extension.
var ErrCallback = errors.New("callback must be a page of a browser extension")

// origins are the forms of browser extensions' origins. Chrome's ids are 32 letters from
// a to p. Firefox and Safari use UUIDs. Other browsers based on Chromium use Chrome's
// scheme.
var origins = []struct {
	kind string
	form *regexp.Regexp
}{
	{"Chrome extension", regexp.MustCompile(`^chrome-extension://[a-p]{32}$`)},
	{"Firefox extension", regexp.MustCompile(`^moz-extension://[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)},
	{"Safari extension", regexp.MustCompile(`^safari-web-extension://[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)},
}

// Characters of a path and a query in RFC 3986, except the apostrophe, which could end a
// quotation.
const (
	character = `([A-Za-z0-9._~!$&()*+,;=:@-]|%[0-9A-Fa-f]{2})`
	noDot     = `([A-Za-z0-9_~!$&()*+,;=:@-]|%([013-9A-Fa-f][0-9A-Fa-f]|2[0-9A-DFa-df]))`
	dot       = `(\.|%2[Ee])`
)

// tail is what may follow the origin of a callback: a path and a query. The path must
// have no dot segments, because programs resolve them differently. A fragment is refused:
// the sign-in page adds its own.
var tail = regexp.MustCompile(`^(/(` + noDot + character + `*|` + dot + noDot + character + `*|` + dot + dot + character + `+)?)*` +
	`(\?(` + character + `|[/?])*)?$`)

const maxCallback = 512

// anyOrigin is the form of an extension's origin in any browser. Ids differ from browser
// to browser, and no web page has such a scheme.
var anyOrigin = regexp.MustCompile(`^(chrome|moz|safari-web)-extension://[A-Za-z0-9-]{1,64}$`)

// IsExtensionOrigin reports whether an Origin header names a browser extension, whatever
// the form of its id. The rules for a callback are stricter: the author of a link chooses
// the callback, but the browser sets the Origin.
func IsExtensionOrigin(origin string) bool { return anyOrigin.MatchString(origin) }

// IsExtensionID reports whether a text has the form of an extension's id in a browser
// whose callbacks are accepted.
func IsExtensionID(id string) bool {
	_, chrome := kindOf("chrome-extension://" + id)
	_, firefox := kindOf("moz-extension://" + id) // Safari's ids have the same form
	return chrome || firefox
}

func kindOf(origin string) (kind string, ok bool) {
	for _, o := range origins {
		if o.form.MatchString(origin) {
			return o.kind, true
		}
	}
	return "", false
}

type Callback struct {
	URL    string
	Origin string // scheme and id
	ID     string // the extension's id
	Kind   string // the browser's kind of extension, for people: "Firefox extension"
}

// sameEverywhere reports whether every installation of the extension has this id. Firefox
// and Safari make a new id for each installation.
func (c Callback) sameEverywhere() bool { return strings.HasPrefix(c.Origin, "chrome-extension:") }

// ParseCallback accepts "<extension scheme>://<id>", with or without a path and a
// query, and nothing else.
func ParseCallback(text string) (Callback, error) {
	if len(text) > maxCallback {
		return Callback{}, ErrCallback
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Callback{}, ErrCallback
	}
	id := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		id = rest[:end]
	}
	origin := scheme + "://" + id
	kind, ok := kindOf(origin)
	if !ok || !tail.MatchString(rest[len(id):]) {
		return Callback{}, ErrCallback
	}
	return Callback{URL: text, Origin: origin, ID: id, Kind: kind}, nil
}
