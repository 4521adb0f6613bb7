package access

import (
	"os"
	"regexp"
	"testing"
)

// TestTheGatewayCountsWhatIsAccepted: the gateway finds the same credential in a header as
// this service, or this service finds none. Otherwise a spelling would pass the gateway's
// limits.
func TestTheGatewayCountsWhatIsAccepted(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile("../../infra/gateway/nginx.conf.template")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`"~\*(\^bearer.*)" \$token;`).FindSubmatch(conf)
	if line == nil {
		t.Fatal("the gateway's pattern is not found")
	}
	// PCRE's \s has the vertical tab, which Go's lacks.
	gateway := regexp.MustCompile("(?i)" + regexp.MustCompile(`\\s`).ReplaceAllString(string(line[1]), `[\s\v]`))
	spaces := []string{
		"", " ", "  ", "\t", " \t ", "\v", "\f", "\r", "\n", "\x00", "\x1c", "\x85", "\xa0",
		"\u0085", "\u00a0", "\u1680", "\u2000", "\u2009", "\u2028", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff",
	}
	accepted := 0
	for _, scheme := range []string{"Bearer", "bearer", "BEARER", "Beare\u0280", "\u00a0Bearer", " Bearer"} {
		for _, before := range spaces {
			for _, after := range spaces {
				for _, token := range []string{"svc_abc", "a.b-c", "svc_ä", "svc_a\u00a0b", "svc_a b"} {
					header := scheme + " " + before + token + after
					found, err := bearer(header)
					if err != nil {
						continue
					}
					accepted++
					if match := gateway.FindStringSubmatch(header); match == nil || match[1] != found {
						t.Errorf("%q: the service finds %q, the gateway %q", header, found, match)
					}
				}
			}
		}
	}
	if accepted < 3*5*5*2 {
		t.Errorf("only %d headers are accepted", accepted)
	}
}
