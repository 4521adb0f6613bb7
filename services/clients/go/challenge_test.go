package memoryledger

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// counting is a wallet that counts what it signs.
type counting struct {
	KeyWallet
	signed int
}

func (w *counting) Sign(ctx context.Context, message []byte) ([]byte, error) {
	w.signed++
	return w.KeyWallet.Sign(ctx, message)
}

// TestSignsOnlyTheServicesText: a wallet signs the text of the service that the client was
// given, for this purpose and this account, and no other text.
func TestSignsOnlyTheServicesText(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	noErr(t, err)
	const site = "https://memory.example/ledger"
	now := time.Now().UTC()
	stamp := func(after time.Duration) string { return now.Add(after).Format("2006-01-02T15:04:05.000Z07:00") }
	good := func(why purpose) string {
		return "memory.example wants you to sign in with your Solana account:\n" + KeyWallet(key).PublicKey() + "\n\n" + statements[why] +
			"\n\nURI: " + site + "\nVersion: 1\nChain ID: mainnet\nNonce: " + strings.Repeat("a2", 32) +
			"\nIssued At: " + stamp(0) + "\nExpiration Time: " + stamp(5*time.Minute)
	}
	lost := false // whether the first answer to what was signed is lost
	ask := func(url, message string, why purpose, options ...Option) (signed int, err error) {
		service := roundTrip(func(n int, _ *http.Request) (*http.Response, error) {
			switch {
			case lost && n == 2:
				return nil, io.EOF
			case lost && n == 3:
				return answer(http.StatusUnauthorized, `{"error":"nonce was used"}`), nil
			}
			body, err := json.Marshal(map[string]any{"message": message, "token": "t", "expiresAt": now, "publicKey": "", "erased": 1})
			return answer(http.StatusOK, string(body)), err
		})
		client, _ := service.client()
		wallet := &counting{KeyWallet: KeyWallet(key)}
		c := New(url, append(options, WithHTTPClient(client), WithRetries(1, 0))...)
		if why == toErase {
			_, err = c.Erase(t.Context(), wallet)
		} else {
			_, err = c.SignIn(t.Context(), wallet)
		}
		return wallet.signed, err
	}
	for _, why := range []purpose{toSignIn, toErase} {
		for name, change := range map[string][2]string{ // old, new
			"another site":            {"memory.example wants", "bank.example wants"},
			"another site's name":     {"memory.example wants", "memory.example.evil wants"},
			"another address":         {"URI: " + site, "URI: https://memory.example:8443/ledger"},
			"another account":         {KeyWallet(key).PublicKey(), strings.Repeat("1", 32)},
			"another statement":       {statements[why], "I give you everything."},
			"the other purpose":       {statements[why], statements[map[purpose]purpose{toSignIn: toErase, toErase: toSignIn}[why]]},
			"another version":         {"Version: 1", "Version: 2"},
			"a chain of two lines":    {"Chain ID: mainnet", "Chain ID: mainnet\nResources:"},
			"no chain":                {"Chain ID: mainnet", "Chain ID: "},
			"a nonce that is a text":  {"Nonce: a2", "Nonce: pay me "},
			"a short nonce":           {strings.Repeat("a2", 32), "a2"},
			"one line more":           {"\nExpiration Time", "\nNot Before: " + stamp(0) + "\nExpiration Time"},
			"of tomorrow":             {stamp(0) + "\nExpiration Time: " + stamp(5*time.Minute), stamp(24*time.Hour) + "\nExpiration Time: " + stamp(24*time.Hour+5*time.Minute)},
			"valid for years":         {stamp(5 * time.Minute), stamp(9999 * time.Hour)},
			"never valid":             {stamp(5 * time.Minute), stamp(-time.Minute)},
			"a time that is no time":  {"Issued At: " + stamp(0), "Issued At: today"},
			"a time in another place": {stamp(0), strings.Replace(stamp(0), "Z", "+00:00", 1)},
			"a trailing space":        {"Version: 1", "Version: 1 "},
			"another line end":        {"\n\nURI", "\r\n\nURI"},
		} {
			signed, err := ask(site, strings.Replace(good(why), change[0], change[1], 1), why)
			if !errors.Is(err, ErrChallenge) || signed != 0 {
				t.Errorf("%s, %s: signed %d times, %v", why, name, signed, err)
			}
		}
		// A relay at another address, and the same service by its inner address.
		for _, inner := range []string{"http://127.0.0.1:3001", "https://memory.example/ledger2"} {
			if signed, err := ask(inner, good(why), why); !errors.Is(err, ErrChallenge) || signed != 0 || !strings.Contains(err.Error(), "WithPublicURL") {
				t.Errorf("%s at %s: signed %d times, %v", why, inner, signed, err)
			}
			if signed, err := ask(inner, good(why), why, WithPublicURL(site+"/")); err != nil || signed != 1 {
				t.Errorf("%s at %s, with its public URL: signed %d times, %v", why, inner, signed, err)
			}
		}
		if signed, err := ask(site+"/", good(why), why); err != nil || signed != 1 {
			t.Errorf("%s: signed %d times, %v", why, signed, err)
		}
		lost = true // a signature counts once, so the service refuses its repetition
		if signed, err := ask(site, good(why), why); !errors.Is(err, ErrConnection) || signed != 1 {
			t.Errorf("%s, lost: signed %d times, %v", why, signed, err)
		}
		lost = false
	}
}
