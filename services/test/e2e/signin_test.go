package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func TestVerifyRefusals(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	for _, c := range []*stacktest.Client{s.Core[0], s.Extension[0]} {
		wallet, other := stacktest.NewWallet(), stacktest.NewWallet()
		message := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}).Text("message")
		good := wallet.Answer(message)
		with := func(name string, value any) map[string]any {
			changed := map[string]any{}
			for k, v := range good {
				changed[k] = v
			}
			changed[name] = value
			return changed
		}
		altered := message + " "
		resigned := wallet.Answer(altered)
		nonce := message[strings.Index(message, "Nonce: ")+7:][:64]
		forged := strings.Replace(message, nonce, strings.Repeat("a", 64), 1)
		foreign := s.Core[0]
		if c == s.Core[0] {
			foreign = s.Extension[0]
		}
		others := foreign.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}).Text("message")
		borrowed := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": other.PublicKey}).Text("message")
		_, later, _ := strings.Cut(message, "Expiration Time: ")
		for name, try := range map[string]struct {
			status int
			body   any
		}{
			"no body members":                {400, map[string]any{}},
			"no signature":                   {400, map[string]any{"publicKey": wallet.PublicKey, "message": message}},
			"message is a number":            {400, with("message", 5)},
			"signature is not base58":        {400, with("signature", strings.Repeat("0", 88))},
			"signature is short":             {400, with("signature", base58.Encode(make([]byte, 63)))},
			"public key is no key":           {400, with("publicKey", "nope")},
			"public key of another":          {400, with("publicKey", other.PublicKey)},
			"message is no challenge":        {400, with("message", "hello")},
			"signed by another":              {401, with("signature", other.Answer(message)["signature"])},
			"signature of something else":    {401, with("signature", wallet.Answer("x")["signature"])},
			"altered message, signed anew":   {401, resigned},
			"unknown nonce, signed":          {401, wallet.Answer(forged)},
			"other API's challenge, signed":  {401, wallet.Answer(others)},
			"another owner's nonce, signed":  {401, wallet.Answer(strings.Replace(borrowed, other.PublicKey, wallet.PublicKey, 1))},
			"later end, signed":              {401, wallet.Answer(strings.Replace(message, later, "2099"+later[4:], 1))},
			"message without a nonce signed": {401, wallet.Answer(strings.Join(strings.Split(message, "\n")[:4], "\n"))},
		} {
			a := c.Do("POST", "/auth/verify", try.body)
			if a.Status != try.status {
				t.Errorf("%s: status %d, want %d: %s", name, a.Status, try.status, a.Body)
			}
		}
		// None of these refusals used up the nonce; one success does.
		c.Expect(200, "POST", "/auth/verify", good)
		c.Expect(401, "POST", "/auth/verify", good)
	}
}

func TestSignatureAsBytes(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
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

// TestOneNonceOneSession verifies one nonce many times concurrently, through both APIs.
func TestOneNonceOneSession(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 1})
	wallet := stacktest.NewWallet()
	message := s.Core[0].Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}).Text("message")
	var won atomic.Int64
	var group sync.WaitGroup
	for i := range 40 {
		c := []*stacktest.Client{s.Core[0], s.Core[1], s.Extension[0]}[i%3]
		group.Go(func() {
			switch a := c.Do("POST", "/auth/verify", wallet.Answer(message)); a.Status {
			case 200:
				won.Add(1)
			case 401:
			default:
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d sessions from one nonce", won.Load())
	}
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
