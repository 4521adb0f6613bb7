package signin

import (
	"strings"
	"testing"
)

func TestTokenForm(t *testing.T) {
	token, hash := NewToken("svc_drop_")
	if hash != HashToken(token) || !HasTokenForm(token, "svc_drop_") {
		t.Fatal(token)
	}
	for _, other := range []string{
		"", "svc_drop_", token[:len(token)-1], token + "A", strings.Replace(token, "drop", "case", 1), " " + token,
		token[:len(token)-1] + "=", token[:len(token)-1] + "B", // no 32 bytes end in B
		token[:12] + "\n" + token[13:len(token)-1] + "A", token[:12] + "\r\n" + token[14:len(token)-2] + "AA", token[:12] + "+" + token[13:],
	} {
		if HasTokenForm(other, "svc_drop_") {
			t.Errorf("%q passes for a token", other)
		}
	}
}
