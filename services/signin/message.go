// Package signin proves that a caller holds a wallet's key: it hands out
// challenges in the Sign-In With Solana form, checks signatures strictly, and
// sees to it that a nonce gives at most one session.
package signin

import (
	"strings"

	"github.com/memory-ledger/ledger/events"
)

// Site is what a challenge names as the place that asks.
type Site struct {
	Domain  string // host and port of URI
	URI     string // public base URL
	ChainID string // "mainnet", "devnet", "testnet" or "localnet"
}

// statement tells the person at the wallet what signing means.
const statement = "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing."

const addressLine = " wants you to sign in with your Solana account:"

// message writes the challenge in the field order of Sign-In With Solana.
func message(site Site, owner events.Owner, nonce string, issued, expires events.Timestamp) string {
	return strings.Join([]string{
		site.Domain + addressLine,
		string(owner),
		"",
		statement,
		"",
		"URI: " + site.URI,
		"Version: 1",
		"Chain ID: " + site.ChainID,
		"Nonce: " + nonce,
		"Issued At: " + issued.String(),
		"Expiration Time: " + expires.String(),
	}, "\n")
}

// parsed is what verification needs to read from a message before it can look
// up what the message should have been.
type parsed struct {
	address string // second line
	nonce   string // empty if there is no such line, or it is not one of ours
}

func parseMessage(text string) (parsed, bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 || !strings.HasSuffix(lines[0], " account:") {
		return parsed{}, false
	}
	p := parsed{address: lines[1]}
	for _, line := range lines[2:] {
		if nonce, ok := strings.CutPrefix(line, "Nonce: "); ok && isNonce(nonce) {
			p.nonce = nonce
			break
		}
	}
	return p, true
}

// isNonce keeps anything but our own alphabet away from the nonce bucket.
func isNonce(s string) bool {
	if len(s) != nonceLength {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}
