package memoryledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events/verify"
)

// roundTrip answers requests without a network, so that a test can use fake time.
type roundTrip func(attempt int, r *http.Request) (*http.Response, error)

func (f roundTrip) client() (*http.Client, *atomic.Int32) {
	attempts := new(atomic.Int32)
	return &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
		return f(int(attempts.Add(1)), r)
	})}, attempts
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	a := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		a.Header.Set(header[i], header[i+1])
	}
	return a
}

const stored = `{"id":"1","leafHash":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","leafIndex":0}`

// TestRepeats: all attempts of a write have one Idempotency-Key, at growing intervals.
func TestRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, start := map[string]bool{}, time.Now()
		client, attempts := roundTrip(func(n int, r *http.Request) (*http.Response, error) {
			keys[r.Header.Get("Idempotency-Key")] = true
			switch n {
			case 1:
				return nil, io.ErrUnexpectedEOF
			case 2:
				return answer(503, `{"error":"stopping"}`, "Retry-After", "7"), nil
			case 3:
				return answer(201, stored[:30]), nil
			}
			return answer(201, stored), nil
		}).client()
		w, err := New("http://ledger", WithHTTPClient(client)).Write(t.Context(), "x", nil)
		if err != nil || w.ID != "1" || attempts.Load() != 4 || len(keys) != 1 || keys[""] {
			t.Errorf("%+v, %v, %d attempts, keys %v", w, err, attempts.Load(), keys)
		}
		// 0.5 to 1 s, 7 s, 2 to 4 s.
		if took := time.Since(start); took < 9500*time.Millisecond || took > 12*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	write := func(ctx context.Context, c *Client) error { _, err := c.Write(ctx, "x", nil); return err }
	createKey := func(ctx context.Context, c *Client) error { _, err := c.CreateKey(ctx, NewKey{Label: "x"}); return err }
	retract := func(ctx context.Context, c *Client) error { return c.Retract(ctx, "1") }
	for name, c := range map[string]struct {
		answer   func() (*http.Response, error)
		call     func(context.Context, *Client) error
		want     error
		attempts int32
	}{
		"a refusal":                {func() (*http.Response, error) { return answer(400, `{"error":"no"}`), nil }, write, ErrInvalid, 1},
		"unavailable":              {func() (*http.Response, error) { return answer(503, ""), nil }, write, ErrUnavailable, 4},
		"a redirect":               {func() (*http.Response, error) { return answer(302, "", "Location", "http://elsewhere/"), nil }, write, ErrInvalid, 1},
		"a slow request":           {func() (*http.Response, error) { return answer(408, ""), nil }, write, ErrUnavailable, 4},
		"too many":                 {func() (*http.Response, error) { return answer(429, ""), nil }, createKey, ErrRateLimited, 4},
		"a key, unavailable":       {func() (*http.Response, error) { return answer(503, ""), nil }, createKey, ErrUnavailable, 1},
		"a key, lost":              {func() (*http.Response, error) { return nil, io.EOF }, createKey, ErrConnection, 1},
		"lost":                     {func() (*http.Response, error) { return nil, io.EOF }, write, ErrConnection, 4},
		"another form":             {func() (*http.Response, error) { return answer(200, `{"id":7}`), nil }, write, ErrMalformed, 1},
		"nothing stored":           {func() (*http.Response, error) { return answer(200, `{}`), nil }, write, ErrMalformed, 1},
		"no leaf":                  {func() (*http.Response, error) { return answer(200, `{"id":"1","leafHash":null,"leafIndex":0}`), nil }, write, ErrMalformed, 1},
		"no key":                   {func() (*http.Response, error) { return answer(200, `null`), nil }, createKey, ErrMalformed, 1},
		"not done":                 {func() (*http.Response, error) { return answer(200, `{"ok":false}`), nil }, retract, ErrMalformed, 1},
		"silent":                   {func() (*http.Response, error) { return answer(200, `{}`), nil }, retract, ErrMalformed, 1},
		"a hash that is not one":   {func() (*http.Response, error) { return answer(200, `{"leafHash":"E3"}`), nil }, write, ErrMalformed, 1},
		"the same key, other body": {func() (*http.Response, error) { return answer(422, ""), nil }, write, ErrKeyReused, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, attempts := roundTrip(func(int, *http.Request) (*http.Response, error) { return c.answer() }).client()
				err := c.call(t.Context(), New("http://ledger", WithHTTPClient(client), WithRetries(3, 2*time.Minute)))
				if !errors.Is(err, c.want) || attempts.Load() != c.attempts {
					t.Errorf("%v after %d attempts, want %v after %d", err, attempts.Load(), c.want, c.attempts)
				}
			})
		})
	}
}

// TestCaseIsReadOnce: net/http sends no second request for a case when a used connection
// breaks.
func TestCaseIsReadOnce(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/case" {
			reads.Add(1)
			panic(http.ErrAbortHandler) // breaks the connection
		}
		_, _ = io.WriteString(w, "[]")
	}))
	t.Cleanup(service.Close)
	c := New(service.URL, WithHTTPClient(service.Client()))
	_, err := c.Keys(t.Context()) // leaves a used connection
	noErr(t, err)
	if _, err := c.OpenCase(t.Context(), service.URL+"/case"); !errors.Is(err, ErrConnection) || reads.Load() != 1 {
		t.Errorf("%v after %d reads", err, reads.Load())
	}
}

// TestFollowPauses: a client without retries waits before it opens a stream again.
func TestFollowPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := roundTrip(func(n int, _ *http.Request) (*http.Response, error) {
			if n > 3 {
				return answer(401, ""), nil
			}
			return answer(200, ": hello\n\n", "Content-Type", "text/event-stream"), nil
		}).client()
		start := time.Now()
		err := last(New("http://ledger", WithHTTPClient(client), WithRetries(0, 0)).Follow(t.Context(), ""))
		if took := time.Since(start); !errors.Is(err, ErrUnauthorized) || took != 3*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestTokensStaySecret: an error about a grant's URL does not quote the token.
func TestTokensStaySecret(t *testing.T) {
	t.Parallel()
	client, _ := roundTrip(func(int, *http.Request) (*http.Response, error) { return nil, io.EOF }).client()
	_, err := New("http://ledger", WithHTTPClient(client)).OpenCase(t.Context(), "http://ledger/agent-cases/svc_agent_secret-token")
	if !errors.Is(err, ErrConnection) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// TestShownLeafStays: a service shows a new leaf, and proves that it follows the head. Then
// the log goes on with another leaf.
func TestShownLeafStays(t *testing.T) {
	t.Parallel()
	entry := Entry{Content: "x", Metadata: jsontext.Value("{}"), Owner: KeyWallet(make([]byte, 64)).PublicKey(), Salt: Hash{}.String(), V: 1}
	shown, err := entry.LeafHash()
	noErr(t, err)
	first, other := Hash{1}, Hash{2}
	rootWith := func(second Hash) Hash { return verify.Fold(second, []Hash{first}, []bool{false}) }
	text := func(value any) string {
		text, err := json.Marshal(value)
		noErr(t, err)
		return string(text)
	}
	leaf := func(index int, hash Hash) string {
		return fmt.Sprintf(`{"index":%d,"id":"x","createdAt":"2026-01-02T03:04:05Z","via":null,"leafHash":"%v","entry":null}`, index, hash)
	}
	answers := map[string]string{
		"/memories/x/receipt": text(Receipt{
			Version: 1, Entry: entry, LeafHash: shown, LeafIndex: 1, TreeSize: 2, Siblings: []Hash{first}, Directions: []bool{false}, BatchRoot: rootWith(shown),
		}),
		"/memories": text([]Memory{{LeafHash: first}, {LeafHash: shown, LeafIndex: 1}}),
		"/export": fmt.Sprintf(`{"format":"%s","owner":"%s","treeSize":2,"root":"%v","anchor":null}`, verify.ExportFormat, entry.Owner, rootWith(shown)) + "\n" +
			leaf(0, first) + "\n" + leaf(1, shown) + "\n" + `{"complete":true,"leaves":2}` + "\n",
	}
	for name, ask := range map[string]func(*Client) error{
		"receipt": func(c *Client) error { _, err := c.Receipt(t.Context(), "x"); return err },
		"list":    func(c *Client) error { return last(c.List(t.Context(), ListOptions{})) },
		"export":  func(c *Client) error { return last(c.Export(t.Context(), ExportOptions{})) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heads, proven := 0, shown
			client, _ := roundTrip(func(_ int, r *http.Request) (*http.Response, error) {
				switch r.URL.Path {
				case "/log":
					if heads++; heads == 1 {
						return answer(200, text(LogHead{Owner: entry.Owner, TreeSize: 1, Root: first})), nil
					}
					proven = other
					return answer(200, text(LogHead{Owner: entry.Owner, TreeSize: 2, Root: rootWith(other)})), nil
				case "/log/consistency":
					return answer(200, text(ConsistencyProof{From: 1, To: 2, Proof: []Hash{proven}})), nil
				}
				return answer(200, answers[r.URL.Path]), nil
			}).client()
			expect(t, ask(New("http://ledger", WithHTTPClient(client))), ErrWrongRoot, "")
		})
	}
}

// last returns the error that ends a sequence.
func last[T any](all iter.Seq2[T, error]) (err error) {
	for _, err = range all {
	}
	return err
}

// TestErrorsArePrintable: neither a service's message nor a file's text can act on the
// terminal.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	const bad = `\u001b[2J\u009b31m\u202e\r\ngood`
	client, _ := roundTrip(func(int, *http.Request) (*http.Response, error) {
		return answer(http.StatusBadRequest, `{"error": "`+bad+`"}`), nil
	}).client()
	_, refused := New("http://ledger", WithHTTPClient(client), WithoutVerification()).Head(t.Context())
	text, err := os.ReadFile("../../../events/verify/testdata/receipt/good.json")
	noErr(t, err)
	good := string(text)
	_, member := ParseReceipt([]byte(strings.Replace(good, `"version"`, `"`+bad+`": 1, "version"`, 1)))
	_, value := ParseReceipt([]byte(strings.Replace(good, `"version": 1`, `"version": "`+bad+`"`, 1)))
	_, header := ReadExport(strings.NewReader(`{"` + bad + `": 1}` + "\n"))
	for name, err := range map[string]error{"a refusal": refused, "a member": member, "a value": value, "an export": header} {
		if err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, err)
		}
	}
}

// expect checks the kind of an error, and its field if one is given.
func expect(t *testing.T, err error, kind error, field string) {
	t.Helper()
	var v *VerificationError
	if !errors.As(err, &v) || !errors.Is(err, kind) || field != "" && v.Field != field {
		t.Errorf("got %v, want %v of %q", err, kind, field)
	}
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChecksStakingTransactions: the vectors of the service's own transactions are good,
// and each altered one is refused for what is wrong with it.
func TestChecksStakingTransactions(t *testing.T) {
	text, err := os.ReadFile("../../../anchoring/staking/testdata/transactions.json")
	noErr(t, err)
	var file struct {
		Program, Mint, Owner string
		Transactions         []struct {
			Name, Transaction, Wrong string
			Kind                     StakeMove
			Amount                   uint64 `json:",string"`
		}
	}
	noErr(t, json.Unmarshal(text, &file))
	if len(file.Transactions) < 20 {
		t.Fatalf("%d vectors", len(file.Transactions))
	}
	program := StakingProgram{file.Program, file.Mint}
	for _, v := range file.Transactions {
		if err := program.CheckTransaction(v.Transaction, file.Owner, v.Kind, v.Amount); v.Wrong != "" {
			expect(t, err, ErrTransaction, v.Wrong)
		} else if err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	for _, p := range []StakingProgram{{}, {"x", file.Mint}, {file.Program, file.Owner}, {file.Owner, file.Mint}} {
		if err := p.CheckTransaction(file.Transactions[0].Transaction, file.Owner, MoveStake, file.Transactions[0].Amount); !errors.Is(err, ErrTransaction) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
