package memoryledger

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"unicode"
)

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
	if err != nil {
		t.Fatal(err)
	}
	good := string(text)
	_, member := ParseReceipt([]byte(strings.Replace(good, `"version"`, `"`+bad+`": 1, "version"`, 1)))
	_, value := ParseReceipt([]byte(strings.Replace(good, `"version": 1`, `"version": "`+bad+`"`, 1)))
	_, header := ReadExport(strings.NewReader(`{"` + bad + `": 1}` + "\n"))
	for name, err := range map[string]error{"a refusal": refused, "a member": member, "a value": value, "an export": header} {
		if err == nil || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: %q", name, err)
		}
	}
	if !errors.Is(refused, ErrInvalid) {
		t.Error(refused)
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
