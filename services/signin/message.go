// Package signin proves that a caller holds a wallet's key. It issues challenges in the
// Sign-In With Solana form, checks signatures strictly, and makes sure that a nonce yields
// at most one session.
package signin

import (
	"strings"

	"github.com/memory-ledger/ledger/events"
)

// Site is the service that a challenge names.
type Site struct {
	Domain  string // host and port of URI
	URI     string // public base URL
	ChainID string // "mainnet", "devnet", "testnet" or "localnet"
}

// statements tell the person at the wallet what signing means.
var statements = map[Purpose]string{
	PurposeSignIn: "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.",
	PurposeErase: "ERASE all my memories at Memory Ledger, for good. The key to their texts is destroyed and nobody can read them again. " +
		"All sessions, API keys and links end. The proofs stay. There is no way back.",
}

const (
	addressLine = " wants you to sign in with your Solana account:"
	nonceField  = "Nonce: "
)

// message writes the challenge in the field order of Sign-In With Solana. With an empty
// nonce, it returns parsed.rest of the challenge.
func message(site Site, purpose Purpose, owner events.Owner, nonce string, issued, expires events.Timestamp) string {
	return strings.Join([]string{
		site.Domain + addressLine,
		string(owner),
		"",
		statements[purpose],
		"",
		"URI: " + site.URI,
		"Version: 1",
		"Chain ID: " + site.ChainID,
		nonceField + nonce,
		"Issued At: " + issued.String(),
		"Expiration Time: " + expires.String(),
	}, "\n")
}

// parsed holds the parts of a message that verification needs to rebuild the expected
// message.
type parsed struct {
	address string // second line
	nonce   string // empty if there is no such line
	rest    string // the message without its nonce
}

func parseMessage(text string) (parsed, bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 || !strings.HasSuffix(lines[0], " account:") {
		return parsed{}, false
	}
	p := parsed{address: lines[1]}
	for i, line := range lines[2:] {
		if nonce, ok := strings.CutPrefix(line, nonceField); ok {
			lines[2+i] = nonceField
			p.nonce, p.rest = nonce, strings.Join(lines, "\n")
			break
		}
	}
	return p, true
}
