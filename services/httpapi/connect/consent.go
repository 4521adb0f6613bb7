package connect

import (
	"crypto/rand"
	"html/template"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
)

type App struct {
	APIURL   string   // public base URL of the core API, without a slash at its end
	Name     string   // what the app calls itself; may be empty
	Document string   // the host that vouches for the name; empty if none does
	Host     string   // where the answer goes
	Scopes   []string // what it asks for
	Denied   string   // where the browser goes if the user refuses
}

type right struct{ Scope, Words string }

var rights = []right{
	{"read", "read and search your memories"},
	{"write", "add memories, and correct them"},
	{"retract", "take memories back"},
	{"share", "hand out links that let others read or add memories"},
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
		frame: newFrame(), App: app, Script: template.JS(WalletsJS + consentJS + pageJS), SignInTo: hostOf(app.APIURL),
		Local: strings.HasPrefix(app.Host, "127.0.0.1") || strings.HasPrefix(app.Host, "[::1]") || strings.HasPrefix(app.Host, "localhost"),
	}
	for _, r := range rights {
		for _, scope := range app.Scopes {
			if r.Scope == scope {
				page.Rights = append(page.Rights, r)
			}
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
}

// RefusedApp shows why an app's request was refused.
func RefusedApp(c *fiber.Ctx, reason string) error {
	page := refusedApp{newFrame(), reason}
	return send(c, http.StatusBadRequest, "refusedapp.html", refusedPolicy(page.Nonce), page)
}

// newFrame returns a frame with a nonce: 128 random bits can't be guessed.
func newFrame() frame { return frame{Nonce: rand.Text(), Style: template.CSS(pageCSS)} }
