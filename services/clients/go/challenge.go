package memoryledger

import (
	"regexp"
	"strings"
	"time"
)

// purpose is what a signature is for.
type purpose string

const (
	toSignIn purpose = "sign-in"
	toErase  purpose = "erase"
)

// statements are the sentences that a wallet shows. The service has the same ones.
var statements = map[purpose]string{
	toSignIn: "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.",
	toErase: "ERASE all my memories at Memory Ledger, for good. The key to their texts is destroyed and nobody can read them again. " +
		"All sessions, API keys and links end. The proofs stay. There is no way back.",
}

// challengeSpan bounds how long a challenge is valid, and how far its time is from this
// machine's clock. The service's challenges are valid for minutes.
const challengeSpan = time.Hour

// The forms of what only the service knows.
var (
	chainForm = regexp.MustCompile(`^[\w:.-]{1,64}$`)
	nonceForm = regexp.MustCompile(`^[A-Za-z0-9]{8,128}$`)
	timeForm  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
)

const elsewhere = "; if that is the same service, name its public URL with WithPublicURL"

// hints say what to do about a field that an honest service may have otherwise.
var hints = map[string]string{"domain": elsewhere, "URI": elsewhere}

// checkChallenge compares a challenge with the text that the service at a URL has for a
// purpose and an account. A signature over another text could sign in elsewhere, as
// another account, or do something else. The error is ErrChallenge.
func checkChallenge(text, site string, why purpose, account string, now time.Time) error {
	_, domain, _ := strings.Cut(site, "://")
	domain, _, _ = strings.Cut(domain, "/")
	lines := strings.Split(text, "\n")
	fields := []string{"domain", "account", "statement", "statement", "statement", "URI", "version", "chain", "nonce", "issued at", "expiration time"}
	if len(lines) != len(fields) {
		return serviceLies(ErrChallenge, "message", "it has %d lines, a challenge has %d", len(lines), len(fields))
	}
	value := func(i int, prefix string) string { return strings.TrimPrefix(lines[i], prefix) }
	chain, nonce, issued, expires := value(7, "Chain ID: "), value(8, "Nonce: "), value(9, "Issued At: "), value(10, "Expiration Time: ")
	expected := []string{
		domain + " wants you to sign in with your Solana account:", account, "", statements[why], "", "URI: " + site, "Version: 1",
		"Chain ID: " + chain, "Nonce: " + nonce, "Issued At: " + issued, "Expiration Time: " + expires,
	}
	for i, want := range expected {
		if lines[i] == want {
			continue
		}
		return serviceLies(ErrChallenge, fields[i], "it is %q, this client expects %q%s", lines[i], want, hints[fields[i]])
	}
	switch {
	case !chainForm.MatchString(chain):
		return serviceLies(ErrChallenge, "chain", "%q is no name of a chain", chain)
	case !nonceForm.MatchString(nonce):
		return serviceLies(ErrChallenge, "nonce", "%q is not 8 to 128 letters and digits", nonce)
	}
	return checkTimes(issued, expires, now)
}

func checkTimes(issued, expires string, now time.Time) error {
	begin, err := time.Parse(time.RFC3339, issued)
	if err != nil || !timeForm.MatchString(issued) {
		return serviceLies(ErrChallenge, "issued at", "%q is not a time", issued)
	}
	end, err := time.Parse(time.RFC3339, expires)
	if err != nil || !timeForm.MatchString(expires) {
		return serviceLies(ErrChallenge, "expiration time", "%q is not a time", expires)
	}
	if valid := end.Sub(begin); valid <= 0 || valid > challengeSpan {
		return serviceLies(ErrChallenge, "expiration time", "the challenge would be valid for %v", valid)
	}
	if off := begin.Sub(now).Abs(); off > challengeSpan {
		return serviceLies(ErrChallenge, "issued at", "it is %s, this machine's clock says %s", issued, now.UTC().Format(time.RFC3339))
	}
	return nil
}
