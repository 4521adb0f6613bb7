package e2e_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
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

func TestChallengeForm(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	for _, c := range []*stacktest.Client{s.Core[0], s.Extension[0]} {
		wallet := stacktest.NewWallet()
		a := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey})
		lines := strings.Split(a.Text("message"), "\n")
		host := strings.TrimPrefix(c.URL, "http://")
		if len(lines) != 11 || lines[0] != host+" wants you to sign in with your Solana account:" || lines[1] != wallet.PublicKey || lines[2] != "" {
			t.Errorf("message %q", lines)
		}
		for i, prefix := range []string{"URI: " + c.URL, "Version: 1", "Chain ID: ", "Nonce: " + a.Text("nonce"), "Issued At: " + a.Text("issuedAt"), "Expiration Time: " + a.Text("expiresAt")} {
			if !strings.HasPrefix(lines[5+i], prefix) {
				t.Errorf("line %q, want %q", lines[5+i], prefix)
			}
		}
	}
}

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

// TestKeysThatNobodyHolds: small-order points verify signatures that were made
// without a secret key, and points off the curve have no secret key. Such keys get
// a challenge, but every answer to it is refused.
func TestKeysThatNobodyHolds(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	verified := false
	for name, key := range map[string]string{
		"identity":               "0100000000000000000000000000000000000000000000000000000000000000",
		"order 2":                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"order 4":                "0000000000000000000000000000000000000000000000000000000000000000",
		"order 4, sign bit":      "0000000000000000000000000000000000000000000000000000000000000080",
		"order 8":                "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"order 8, other":         "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"not canonical":          "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"not canonical identity": "0100000000000000000000000000000000000000000000000000000000000080",
		"off the curve":          "0200000000000000000000000000000000000000000000000000000000000000",
	} {
		raw, err := hex.DecodeString(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*stacktest.Client{s.Core[0], s.Extension[0]} {
			publicKey := base58.Encode(raw)
			message := c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": publicKey}).Text("message")
			for _, r := range [][]byte{{}, {1}, raw} { // {1} is good for the identity
				signature := make([]byte, ed25519.SignatureSize)
				copy(signature, r)
				verified = verified || ed25519.Verify(raw, []byte(message), signature)
				a := c.Do("POST", "/auth/verify", map[string]any{"publicKey": publicKey, "message": message, "signature": base58.Encode(signature)})
				if a.Status != 401 || !strings.Contains(a.Text("error"), "bad signature") {
					t.Errorf("%s: status %d: %s", name, a.Status, a.Body)
				}
			}
		}
	}
	if !verified {
		t.Error("no signature would have been good")
	}
	for name, text := range map[string]string{
		"31 bytes": base58.Encode(make([]byte, 31)), "33 bytes": base58.Encode(bytes.Repeat([]byte{1}, 33)), "not base58": strings.Repeat("0", 44), "empty": "",
	} {
		if a := s.Core[0].Do("POST", "/auth/challenge", map[string]any{"publicKey": text}); a.Status != 400 {
			t.Errorf("%s: status %d", name, a.Status)
		}
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
