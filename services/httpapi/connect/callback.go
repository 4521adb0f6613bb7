// Package connect is the sign-in page, a self-contained HTML page. On it, a wallet's
// holder gives a session to a browser extension, and to no other client.
package connect

import (
	"errors"
	"regexp"
	"strings"
)

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
