package e2e_test

import (
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestDocumentedAnswers gets documented answers in particular ways, whereas
// TestEveryDocumentedAnswer gets each one in some way. The client itself checks their
// form against the OpenAPI documents.
func TestDocumentedAnswers(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	wallet := stacktest.NewWallet()
	documentedCore(s.Core[0], wallet)
	documentedExtension(s.Extension[0], wallet)
}

const elsewhere = "/019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e02"

func documentedCore(c *stacktest.Client, wallet stacktest.Wallet) {
	session := c.SignIn(wallet)
	text := stacktest.With("Content-Type", "text/plain")
	for _, path := range []string{"/health", "/livez", "/readyz", "/metrics", "/openapi.json"} {
		c.Expect(200, "GET", path, nil)
		c.Expect(200, "HEAD", path, nil)
	}
	c.Expect(200, "GET", "/staking/status", nil, session)
	c.Expect(503, "POST", "/staking/stake", map[string]any{"amount": "1"}, session)
	c.Expect(503, "POST", "/staking/unstake", map[string]any{"amount": "1"}, session)
	for _, r := range [][2]string{{"GET", "/memories" + elsewhere}, {"GET", "/memories" + elsewhere + "/proof"}, {"POST", "/memories/search"},
		{"GET", "/log"}, {"GET", "/log/consistency?from=0&to=0"}, {"POST", "/keys"}, {"DELETE", "/keys" + elsewhere}, {"POST", "/staking/stake"}, {"POST", "/staking/unstake"}} {
		c.Expect(401, r[0], r[1], map[string]any{})
	}
	for _, path := range []string{"/auth/challenge", "/auth/verify", "/memories/search", "/keys"} {
		c.Expect(415, "POST", path, `{}`, session, text)
		c.Expect(413, "POST", path, strings.Repeat(" ", 1<<20+1), session)
	}
	c.Expect(400, "POST", "/memories/search", `{"query":null}`, session)
	c.Expect(200, "GET", "/log/consistency?from=0&to=0", nil, session)
}

func documentedExtension(c *stacktest.Client, wallet stacktest.Wallet) {
	session := c.SignIn(wallet)
	text, key := stacktest.With("Content-Type", "text/plain"), stacktest.With("Idempotency-Key", "k")
	for _, path := range []string{"/health", "/livez", "/readyz", "/metrics", "/openapi.json"} {
		c.Expect(200, "GET", path, nil)
	}
	note := map[string]any{"content": "x", "source": "s"}
	c.Expect(201, "POST", "/memories", note, session, key)
	c.Expect(201, "POST", "/memories", note, session, key)
	c.Expect(422, "POST", "/memories", map[string]any{"content": "y", "source": "s"}, session, key)
	c.Expect(413, "POST", "/memories", map[string]any{"content": "x", "source": "s", "metadata": map[string]any{"m": strings.Repeat("x", 65536)}}, session)
	c.Expect(200, "POST", "/auth/verify", bytesAnswer(c, wallet))

	drop := c.Expect(201, "POST", "/memory-drops", map[string]any{"expiresInMinutes": 1440, "maxWrites": 5}, session)
	path := strings.TrimPrefix(drop.Text("url"), c.URL)
	c.Expect(415, "POST", path, `{}`, text)
	c.Expect(400, "POST", path, `{"content":"x","source":null}`)
	c.Expect(413, "POST", path, map[string]any{"content": "x", "metadata": map[string]any{"m": strings.Repeat("x", 65536)}})
	c.Expect(201, "POST", path, map[string]any{"content": strings.Repeat("é", 10000), "source": "s", "metadata": map[string]any{"a": nil}})
	read := c.Expect(201, "POST", "/agent-cases", map[string]any{"expiresInMinutes": 1, "maxReads": 10}, session)
	c.Expect(405, "HEAD", strings.TrimPrefix(read.Text("url"), c.URL), nil)
	c.Expect(200, "GET", strings.TrimPrefix(read.Text("url"), c.URL), nil)
	c.Expect(200, "POST", "/agent-cases/"+read.Text("id")+"/revoke", nil, session)
	for _, grants := range []string{"/agent-cases", "/memory-drops"} {
		c.Expect(415, "POST", grants, `{}`, session, text)
		c.Expect(413, "POST", grants, strings.Repeat(" ", 1<<20+1), session)
		c.Expect(404, "GET", grants+elsewhere+"/status", nil, session)
		c.Expect(404, "POST", grants+elsewhere+"/revoke", nil, session)
		c.Expect(401, "GET", grants+elsewhere+"/status", nil)
		c.Expect(401, "POST", grants+elsewhere+"/revoke", nil)
	}
	c.Expect(200, "GET", "/connect?callback=chrome-extension%3A%2F%2Fabcdefghijklmnopabcdefghijklmnop%2Fcallback.html", nil)
	c.Expect(400, "GET", "/connect", nil)
	c.Expect(400, "GET", "/connect?callback=https%3A%2F%2Fexample.com%2Fcallback.html", nil)
	c.Expect(401, "POST", "/auth/logout", nil)
}

// bytesAnswer is a wallet's answer to a challenge with the signature as bytes.
func bytesAnswer(c *stacktest.Client, wallet stacktest.Wallet) map[string]any {
	challenge := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey})
	answer := wallet.Answer(challenge.Text("message"))
	var signature []int
	for _, b := range wallet.Sign(challenge.Text("message")) {
		signature = append(signature, int(b))
	}
	answer["signature"] = signature
	return answer
}
