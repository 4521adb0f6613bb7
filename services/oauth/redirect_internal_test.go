package oauth

import "testing"

// TestRedirects: an answer goes where the app registered, and nowhere else. Only the port of
// a loopback address may differ.
func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		registered, asked string
		want              bool
	}{
		{"https://app.example/cb", "https://app.example/cb", true},
		{"https://app.example/cb?tenant=1", "https://app.example/cb?tenant=1", true},
		{"http://127.0.0.1/cb", "http://127.0.0.1:49152/cb", true},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true},
		{"http://[::1]:1/cb", "http://[::1]/cb", true},
		{"http://localhost:1/cb?x=1", "http://localhost:2/cb?x=1", true},
		{"cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/callback", true},
		{"com.example.app:/oauth", "com.example.app:/oauth", true},

		{"https://app.example/cb", "https://app.example:444/cb", false},
		{"https://app.example:443/cb", "https://app.example/cb", false},
		{"https://app.example/cb", "https://app.example/cb/", false},
		{"https://app.example/cb", "https://app.example/cb?next=evil", false},
		{"https://app.example/cb", "https://app.example/cb/../evil", false},
		{"https://app.example/cb", "https://APP.example/cb", false},
		{"https://app.example/cb", "https://app.example.evil.example/cb", false},
		{"https://app.example/cb", "http://app.example/cb", false},
		{"http://127.0.0.1/cb", "http://localhost/cb", false},
		{"http://127.0.0.1:1/cb", "http://127.0.0.1:1/other", false},
		{"http://127.0.0.1/cb", "https://127.0.0.1/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:80@evil.example/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1.evil.example/cb", false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:99999999/cb", false},
		{"http://127.0.0.1/1", "http://127.0.0.1:1/1", true},
		{"http://127.0.0.1/11", "http://127.0.0.1:1/1", false},
	} {
		got, ok := parseRedirect(c.asked)
		if is := ok && got.is(c.registered); is != c.want {
			t.Errorf("registered %s, asked %s: %v", c.registered, c.asked, is)
		}
	}
	for _, bad := range []string{
		"", "/cb", "//evil.example/cb", "https:", "https://", "https:///cb", "javascript:alert(1)", "data:text/html,x", "http://app.example/cb",
		"file:///etc/passwd", "blob:https://app.example/x", "custom://cb", "https://user@app.example/cb", "https://app.example@evil.example/",
		"https://app.example/cb#x", "https://app.example/cb?code=1", "https://app.example/cb?a=1&state=2", "https://app.example\\@evil.example/",
		"https://app.example/c b", "https://app.example/cb\r\nX: y", "https://app.example/%zz", "https://äpp.example/cb", "HTTPS://app.example/cb", " https://app.example/cb",
	} {
		if _, ok := parseRedirect(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}
