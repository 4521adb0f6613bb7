package connect

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

const (
	chromeID  = "mckckkbinjalkaobmgaohdjieigmfink"
	firefoxID = "0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
	safariID  = "0A1B2C3D-0A1B-4C3D-8E9F-0A1B2C3D4E5F"
	good      = "chrome-extension://" + chromeID + "/callback.html"
)

func TestParseCallbackAccepts(t *testing.T) {
	for text, want := range map[string]Callback{
		good: {Origin: "chrome-extension://" + chromeID, ID: chromeID, Kind: "Chrome extension"},
		"chrome-extension://" + chromeID + "/pages/sign-in_1/done.v2.html": {
			Origin: "chrome-extension://" + chromeID, ID: chromeID, Kind: "Chrome extension"},
		"moz-extension://" + firefoxID + "/callback.html": {
			Origin: "moz-extension://" + firefoxID, ID: firefoxID, Kind: "Firefox extension"},
		"safari-web-extension://" + safariID + "/callback.html": {
			Origin: "safari-web-extension://" + safariID, ID: safariID, Kind: "Safari extension"},
		"moz-extension://" + safariID + "/callback.html": {
			Origin: "moz-extension://" + safariID, ID: safariID, Kind: "Firefox extension"},
	} {
		want.URL = text
		got, err := ParseCallback(text)
		if err != nil || got != want {
			t.Errorf("ParseCallback(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestParseCallbackAcceptsPathsAndQueries: paths and queries of any kind are accepted,
// because they stay with the extension.
func TestParseCallbackAcceptsPathsAndQueries(t *testing.T) {
	for _, tail := range []string{
		"", "/", "?", "/?", "?tab=1", "/callback.html?", "/callback.html?tab=1", "/callback.html?a=1&b=%20c+d&e=/f?g", "/callback.html?next=https://example.com",
		"/my%20page.html", "/callback%2ehtml", "/callback.html/", "/a//b", "//example.com/callback.html", "/a;b=1", "/~a", "/@example.com", "/a:b", "/a,https://example.com/",
		"/.callback.html", "/...", "/.a", "/..a", "/a..b", "/%2Ea", "/a.", "/callback.html&x=y", "/!$&()*+,;=:@-._~", "/c%C3%A4llback.html", "/callback.html?a=%00%0a",
		"?/../a", "/a?../..",
	} {
		text := "chrome-extension://" + chromeID + tail
		if got, err := ParseCallback(text); err != nil || got.URL != text || got.ID != chromeID {
			t.Errorf("%s: %+v, %v", tail, got, err)
		}
	}
}

// disguises are callbacks that would send the session elsewhere, or that two programs
// could read differently.
var disguises = map[string]string{
	"empty":                       "",
	"scheme alone":                "chrome-extension://",
	"web page":                    "https://example.com/callback.html",
	"web page without TLS":        "http://example.com/callback.html",
	"scheme-relative":             "//example.com/callback.html",
	"relative":                    "/callback.html",
	"script":                      "javascript:alert(1)",
	"script with slashes":         "javascript://" + chromeID + "/%0aalert(1)",
	"data":                        "data:text/html,<script>alert(1)</script>",
	"blob":                        "blob:" + good,
	"file":                        "file:///etc/passwd",
	"view-source":                 "view-source:" + good,
	"filesystem":                  "filesystem:" + good,
	"prefixed":                    "x" + good,
	"wrapped":                     "https://example.com/?u=" + good,
	"look-alike scheme":           "chrome-extensions://" + chromeID + "/callback.html",
	"look-alike scheme, dotted":   "chrome-extension.example://" + chromeID + "/callback.html",
	"scheme of Chrome's own":      "chrome://settings/callback.html",
	"scheme of Safari's old kind": "safari-extension://" + safariID + "/callback.html",
	"upper-case scheme":           "CHROME-EXTENSION://" + chromeID + "/callback.html",
	"mixed-case scheme":           "Chrome-Extension://" + chromeID + "/callback.html",
	"one slash":                   "chrome-extension:/" + chromeID + "/callback.html",
	"no slash":                    "chrome-extension:" + chromeID + "/callback.html",
	"three slashes":               "chrome-extension:///" + chromeID + "/callback.html",
	"backslashes":                 `chrome-extension:\\` + chromeID + `\callback.html`,
	"backslash in path":           "chrome-extension://" + chromeID + `/a\callback.html`,
	"backslash after id":          "chrome-extension://" + chromeID + `\@example.com/callback.html`,
	"colon in scheme encoded":     "chrome-extension%3A//" + chromeID + "/callback.html",

	"user info":          "chrome-extension://" + chromeID + "@example.com/callback.html",
	"user info, id last": "chrome-extension://user:password@" + chromeID + "/callback.html",
	"empty user info":    "chrome-extension://@" + chromeID + "/callback.html",
	"port":               "chrome-extension://" + chromeID + ":443/callback.html",
	"empty port":         "chrome-extension://" + chromeID + ":/callback.html",
	"dot after id":       "chrome-extension://" + chromeID + "./callback.html",
	"domain after id":    "chrome-extension://" + chromeID + ".example.com/callback.html",
	"id too short":       "chrome-extension://" + chromeID[1:] + "/callback.html",
	"id too long":        "chrome-extension://" + chromeID + "a/callback.html",
	"id upper case":      "chrome-extension://" + strings.ToUpper(chromeID) + "/callback.html",
	"id out of alphabet": "chrome-extension://" + chromeID[1:] + "q/callback.html",
	"id with digit":      "chrome-extension://" + chromeID[1:] + "1/callback.html",
	"id of Firefox":      "chrome-extension://" + firefoxID + "/callback.html",
	"id of Chrome":       "moz-extension://" + chromeID + "/callback.html",
	"id encoded":         "chrome-extension://%6d" + chromeID[1:] + "/callback.html",
	"id missing":         "chrome-extension:///callback.html",
	"UUID too short":     "moz-extension://" + firefoxID[1:] + "/callback.html",
	"UUID too long":      "moz-extension://" + firefoxID + "0/callback.html",
	"UUID in braces":     "moz-extension://{" + firefoxID + "}/callback.html",
	"UUID unhyphenated":  "moz-extension://" + strings.ReplaceAll(firefoxID, "-", "") + "/callback.html",
	"Safari bundle id":   "safari-web-extension://com.example.App/callback.html",

	"fragment":                good + "#token=x",
	"empty fragment":          good + "#",
	"dot segment":             "chrome-extension://" + chromeID + "/./callback.html",
	"dot-dot segment":         "chrome-extension://" + chromeID + "/../callback.html",
	"dot-dot at the end":      good + "/..",
	"encoded dots":            "chrome-extension://" + chromeID + "/%2e%2e/callback.html",
	"half encoded dots":       "chrome-extension://" + chromeID + "/.%2E/callback.html",
	"encoded dot at the end":  "chrome-extension://" + chromeID + "/%2e",
	"dots before a query":     "chrome-extension://" + chromeID + "/..?a",
	"fragment after a query":  good + "?a#b",
	"user info, no path":      "chrome-extension://" + chromeID + "@example.com",
	"port, no path":           "chrome-extension://" + chromeID + ":443",
	"user info before query":  "chrome-extension://" + chromeID + "@example.com?a",
	"half an escape":          good + "?a%2",
	"lone percent":            good + "?%",
	"quote in query":          good + `?"`,
	"apostrophe in query":     good + "?'",
	"backslash in query":      good + `?\`,
	"angle in query":          good + "?<script>",
	"space in query":          good + "?a b",
	"brackets":                good + "?a[]=1",
	"braces":                  good + "?{}",
	"bar":                     good + "?a|b",
	"caret":                   good + "?^",
	"backtick":                good + "?`",
	"newline in query":        good + "?a\n",
	"Unicode query":           good + "?ä",
	"double encoding":         "chrome-extension%3A%2F%2F" + chromeID + "%2Fcallback.html",
	"broken escape":           good + "%zz",
	"script in path":          good + "<script>",
	"quote":                   good + `"`,
	"apostrophe":              good + "'",
	"leading space":           " " + good,
	"trailing space":          good + " ",
	"space within":            "chrome-extension:// " + chromeID + "/callback.html",
	"leading tab":             "\t" + good,
	"tab within scheme":       "chrome-\textension://" + chromeID + "/callback.html",
	"leading newline":         "\n" + good,
	"trailing newline":        good + "\n",
	"second line":             good + "\nhttps://example.com",
	"good second line":        "https://example.com\n" + good,
	"carriage return":         good + "\r",
	"NUL":                     good + "\x00",
	"NUL before":              "\x00" + good,
	"control character":       "\x01" + good,
	"byte order mark":         "\ufeff" + good,
	"zero-width space":        "chrome-extension://\u200b" + chromeID + "/callback.html",
	"right-to-left override":  good + "\u202e",
	"no-break space":          "\u00a0" + good,
	"Cyrillic scheme":         "сhrome-extension://" + chromeID + "/callback.html",
	"full-width colon":        "chrome-extension\uff1a//" + chromeID + "/callback.html",
	"full-width slashes":      "chrome-extension:\uff0f\uff0f" + chromeID + "/callback.html",
	"full-width slash":        "chrome-extension://" + chromeID + "\uff0fcallback.html",
	"division slash":          "chrome-extension://" + chromeID + "\u2215callback.html",
	"Cyrillic letter in id":   "chrome-extension://" + chromeID[:31] + "а/callback.html",
	"non-breaking hyphen":     "chrome\u2011extension://" + chromeID + "/callback.html",
	"long s in a UUID's kind": "\u017fafari-web-extension://" + safariID + "/callback.html",
	"Kelvin sign in id":       "chrome-extension://" + strings.Replace(chromeID, "k", "\u212a", 1) + "/callback.html",
	"Unicode path":            "chrome-extension://" + chromeID + "/cällback.html",
	"invalid UTF-8":           good + "\xff",
	"over-long UTF-8 slash":   "chrome-extension://" + chromeID + "\xc0\xafcallback.html",
	"too long":                good + strings.Repeat("x", maxCallback),
	"very long":               good + strings.Repeat("/a", 1<<20),
}

func TestParseCallbackRefusesDisguises(t *testing.T) {
	for name, text := range disguises {
		if got, err := ParseCallback(text); !errors.Is(err, ErrCallback) || got != (Callback{}) {
			t.Errorf("%s: ParseCallback(%.80q) = %+v, %v; want ErrCallback", name, text, got, err)
		}
	}
}

func TestLongestCallback(t *testing.T) {
	longest := good + strings.Repeat("x", maxCallback-len(good))
	if _, err := ParseCallback(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	if _, err := ParseCallback(longest + "x"); err == nil {
		t.Errorf("%d bytes were accepted", len(longest)+1)
	}
}

// FuzzParseCallback checks accepted callbacks independently: each consists only of the
// returned parts and of harmless characters.
func FuzzParseCallback(f *testing.F) {
	f.Add(good)
	for _, text := range disguises {
		if len(text) <= maxCallback {
			f.Add(text)
		}
	}
	const harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:?%~!$&()*+,;=@"
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCallback(text)
		if err != nil {
			return
		}
		if rest, ok := strings.CutPrefix(text, c.Origin); c.URL != text || !ok || rest != "" && rest[0] != '/' && rest[0] != '?' || !strings.HasSuffix(c.Origin, "://"+c.ID) {
			t.Errorf("%q was taken apart as %+v", text, c)
		}
		if strings.Trim(text, harmless) != "" {
			t.Errorf("%q was accepted", text)
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme+"://"+u.Host != c.Origin || u.User != nil || u.Fragment != "" || u.Port() != "" {
			t.Fatalf("%q is %+v, %v", text, u, err)
		}
		// A browser goes to exactly this page, with the session in the fragment.
		for segment := range strings.SplitSeq(u.Path, "/") {
			if encoded := strings.Contains(u.EscapedPath(), "%2f") || strings.Contains(u.EscapedPath(), "%2F"); !encoded && (segment == "." || segment == "..") {
				t.Errorf("%q was accepted", text)
			}
		}
	})
}
