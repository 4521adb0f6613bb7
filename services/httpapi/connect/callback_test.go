package connect

import (
	"errors"
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
	"empty":             "",
	"scheme alone":      "chrome-extension://",
	"web page":          "https://example.com/callback.html",
	"script":            "javascript:alert(1)",
	"wrapped":           "https://example.com/?u=" + good,
	"look-alike scheme": "chrome-extensions://" + chromeID + "/callback.html",
	"upper-case scheme": "CHROME-EXTENSION://" + chromeID + "/callback.html",
	"three slashes":     "chrome-extension:///" + chromeID + "/callback.html",
	"backslashes":       `chrome-extension:\\` + chromeID + `\callback.html`,

	"user info":       "chrome-extension://" + chromeID + "@example.com/callback.html",
	"port":            "chrome-extension://" + chromeID + ":443/callback.html",
	"domain after id": "chrome-extension://" + chromeID + ".example.com/callback.html",
	"id upper case":   "chrome-extension://" + strings.ToUpper(chromeID) + "/callback.html",
	"id of Firefox":   "chrome-extension://" + firefoxID + "/callback.html",

	"fragment":               good + "#token=x",
	"dot-dot segment":        "chrome-extension://" + chromeID + "/../callback.html",
	"encoded dots":           "chrome-extension://" + chromeID + "/%2e%2e/callback.html",
	"backslash in query":     good + `?\`,
	"broken escape":          good + "%zz",
	"quote":                  good + `"`,
	"trailing newline":       good + "\n",
	"good second line":       "https://example.com\n" + good,
	"NUL":                    good + "\x00",
	"right-to-left override": good + "\u202e",
	"Cyrillic scheme":        "сhrome-extension://" + chromeID + "/callback.html",
	"Cyrillic letter in id":  "chrome-extension://" + chromeID[:31] + "а/callback.html",
	"invalid UTF-8":          good + "\xff",
	"too long":               good + strings.Repeat("x", maxCallback),
}

func TestParseCallbackRefusesDisguises(t *testing.T) {
	for name, text := range disguises {
		if got, err := ParseCallback(text); !errors.Is(err, ErrCallback) || got != (Callback{}) {
			t.Errorf("%s: ParseCallback(%.80q) = %+v, %v; want ErrCallback", name, text, got, err)
		}
	}
}
