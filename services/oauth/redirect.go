package oauth

import (
	"net/url"
	"regexp"
	"strings"
)

// Characters of a path and a query in RFC 3986, but for the apostrophe, which could end a
// quotation. A fragment is refused (RFC 6749, section 3.1.2).
const tail = `(/([A-Za-z0-9._~!$&()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?(\?([A-Za-z0-9._~!$&()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?$`

// The forms of redirect URIs. None has a user, so what stands before the path is the host.
var (
	webRedirect = regexp.MustCompile(`^https://(([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?)` + tail)
	// loopbackRedirect is of a program on the user's own computer, which listens on a port
	// that it does not know beforehand (RFC 8252, section 7.3).
	loopbackRedirect = regexp.MustCompile(`^http://((127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{1,5})?)` + tail)
	// appRedirect has a scheme that an installed app registered. A scheme that is a reversed
	// domain name has an owner (RFC 8252, section 7.1). The other schemes are those of known
	// editors. All else, such as javascript and data, is refused.
	appRedirect = regexp.MustCompile(`^((cursor|vscode|vscode-insiders|windsurf|[a-z][a-z0-9-]*(\.[a-z0-9-]+)+):(//[A-Za-z0-9.-]*)?)` + tail)
)

// maxRedirect bounds a redirect URI, in bytes.
const maxRedirect = 512

// redirect is a checked redirect URI.
type redirect struct {
	url  string
	host string // host and port, or an app's scheme and host: for people
	// loopback is the origin without its port of an address on the user's own computer.
	loopback string
}

// parseRedirect checks the form of a redirect URI.
func parseRedirect(text string) (redirect, bool) {
	if len(text) > maxRedirect {
		return redirect{}, false
	}
	r := redirect{url: text}
	if found := webRedirect.FindStringSubmatch(text); found != nil {
		r.host = found[1]
	} else if found := loopbackRedirect.FindStringSubmatch(text); found != nil {
		r.host, r.loopback = found[1], "http://"+found[2]
	} else if found := appRedirect.FindStringSubmatch(text); found != nil {
		r.host = found[1]
	} else {
		return redirect{}, false
	}
	u, err := url.Parse(text)
	if err != nil {
		return redirect{}, false
	}
	query, err := url.ParseQuery(u.RawQuery)
	for _, name := range []string{"code", "state", "iss", "error"} { // the answer's own
		if query.Has(name) {
			return redirect{}, false
		}
	}
	return r, err == nil
}

// is reports whether an app that registered a redirect URI may ask for this one. They must
// be equal, but for the port of a loopback address.
func (r redirect) is(registered string) bool {
	if r.url == registered {
		return true
	}
	other, ok := parseRedirect(registered)
	return ok && r.loopback != "" && r.withoutPort() == other.withoutPort()
}

func (r redirect) withoutPort() string {
	if r.loopback == "" {
		return r.url
	}
	return r.loopback + strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(r.url, r.loopback), ":"), "0123456789")
}

// with returns the redirect URI with the parameters of an answer.
func (r redirect) with(answer url.Values) string {
	separator := "?"
	if strings.Contains(r.url, "?") {
		separator = "&"
	}
	return r.url + separator + answer.Encode()
}
