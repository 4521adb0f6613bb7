// Package signin proves that a caller holds a wallet's key. It issues challenges in the
// Sign-In With Solana form, checks signatures strictly, and makes sure that a nonce yields
// at most one session.
package signin

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math"
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

// Hardware wallets do not sign a bare text: its bytes could be a transaction. They sign the
// text in an envelope, of which there are three in use. The service builds each from the
// message and the key, and compares; it never parses what a client sent.

// signingDomain begins all off-chain messages. Its first byte begins no transaction.
const signingDomain = "\xffsolana offchain"

// applicationDomain is the 32 bytes by which an envelope of version 0 names the application:
// the SHA-256 of the domain that the message is for.
func applicationDomain(message string) [sha256.Size]byte {
	domain, _, _ := strings.Cut(message, " ")
	return sha256.Sum256([]byte(domain))
}

// signable yields the byte strings whose signature is an answer to a message: the message
// itself, and its off-chain envelopes for one signer.
//
//	version 1: domain, 01, signers (1), the signer, the text to the end
//	version 0: domain, 00, application (32 bytes), format, signers (1), the signer, length (2), text
//	before:    domain, 00, format, length (2), text
//
// Sources: https://docs.anza.xyz/proposals/off-chain-message-signing, for version 0; npm
// @solana/offchain-messages, for version 1; the command line of Solana, for the form before.
func signable(owner events.Owner, message string) iter.Seq[[]byte] {
	signer := owner.Bytes()
	return func(yield func([]byte) bool) {
		join := func(parts ...string) bool { return yield([]byte(strings.Join(parts, ""))) }
		if !yield([]byte(message)) || !join(signingDomain, "\x01\x01", string(signer[:]), message) || len(message) > math.MaxUint16 {
			return
		}
		length := string(binary.LittleEndian.AppendUint16(nil, uint16(len(message))))
		own := applicationDomain(message)
		for _, format := range []string{"\x00", "\x01", "\x02"} { // ASCII, UTF-8, long UTF-8: wallets differ in what they call ASCII
			for _, application := range []string{strings.Repeat("\x00", len(own)), string(own[:])} {
				if !join(signingDomain, "\x00", application, format, "\x01", string(signer[:]), length, message) {
					return
				}
			}
			if !join(signingDomain, "\x00", format, length, message) {
				return
			}
		}
	}
}
