package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func TestSignatureAsBytes(t *testing.T) {
	s := shared(t)
	c, wallet := s.Extension[0], stacktest.NewWallet()
	message := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}).Text("message")
	numbers := []int{}
	for _, b := range wallet.Sign(message) {
		numbers = append(numbers, int(b))
	}
	body := func(signature any) map[string]any {
		return map[string]any{"publicKey": wallet.PublicKey, "message": message, "signature": signature}
	}
	c.Expect(400, "POST", "/auth/verify", body(numbers[:63]))
	c.Expect(400, "POST", "/auth/verify", body(append(numbers[:63:63], 256)))
	c.Expect(400, "POST", "/auth/verify", body(append(numbers[:63:63], -1)))
	c.Expect(400, "POST", "/auth/verify", body(map[string]any{"0": 1}))
	// null must not stand for a byte 0 of a good signature.
	nulled := make([]any, len(numbers))
	for i, n := range numbers {
		if nulled[i] = n; n == 0 {
			nulled[i] = nil
		}
	}
	nulled[63] = nil
	c.Expect(400, "POST", "/auth/verify", body(nulled))
	s.Core[0].Expect(400, "POST", "/auth/verify", body(numbers))
	c.Expect(200, "POST", "/auth/verify", body(numbers))

	// Some clients have no integers, only floating-point numbers that are whole.
	message = c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}).Text("message")
	whole := []json.RawMessage{}
	for _, b := range wallet.Sign(message) {
		whole = append(whole, json.RawMessage(fmt.Sprintf("%d.0", b)))
	}
	c.Expect(400, "POST", "/auth/verify", body(append(whole[:63:63], json.RawMessage("1.5"))))
	c.Expect(400, "POST", "/auth/verify", body(append(whole[:63:63], json.RawMessage("256.0"))))
	c.Expect(200, "POST", "/auth/verify", body(whole))
}

// TestHardwareWallets sign an envelope of the message, on either API and for an erasure.
func TestHardwareWallets(t *testing.T) {
	s, wallet := shared(t), stacktest.NewWallet()
	signer, err := base58.Decode(wallet.PublicKey)
	noErr(t, err)
	answer := func(c *stacktest.Client, purpose string, signers ...byte) map[string]any {
		message := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": purpose}).Text("message")
		envelope := "\xffsolana offchain\x01" + string(signers) + message
		return map[string]any{"publicKey": wallet.PublicKey, "message": message, "signature": base58.Encode(wallet.Sign(envelope))}
	}
	alone := append([]byte{1}, signer...)
	s.Core[0].Expect(200, "POST", "/auth/verify", answer(s.Core[0], "sign-in", alone...))
	s.Extension[0].Expect(200, "POST", "/auth/verify", answer(s.Extension[0], "sign-in", alone...))
	s.Core[0].Expect(401, "POST", "/auth/verify", answer(s.Core[0], "sign-in", append(append([]byte{2}, signer...), signer...)...))
	s.Core[0].Expect(200, "POST", "/erasure", answer(s.Core[0], "erase", alone...))
}

// TestChallengesKeepNothing: an unanswered challenge stores nothing in the log's server,
// so challenges can't fill it.
func TestChallengesKeepNothing(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 1})
	_, js := natstest.Connect(t, s.NATSURL)
	kept := func() (messages uint64) {
		for info := range js.ListStreams(t.Context()).Info() {
			messages += info.State.LastSeq
		}
		return messages
	}
	wallet := stacktest.NewWallet()
	key := map[string]any{"publicKey": wallet.PublicKey}
	before := kept()
	for range 200 {
		s.Core[0].Expect(200, "POST", "/auth/challenge", key)
		s.Extension[0].Expect(200, "POST", "/auth/challenge", key)
	}
	if after := kept(); after != before {
		t.Errorf("%d messages were stored", after-before)
	}
	// An answer is valid at another replica than the one that issued the challenge, and
	// is then used up at all replicas.
	answer := wallet.Answer(s.Core[0].Expect(200, "POST", "/auth/challenge", key).Text("message"))
	s.Core[1].Expect(200, "POST", "/auth/verify", answer)
	s.Core[0].Expect(401, "POST", "/auth/verify", answer)
	s.Extension[0].SignIn(wallet)
}
