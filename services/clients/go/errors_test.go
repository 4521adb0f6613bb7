package memoryledger

import (
	"errors"
	"net/http"
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
	_, member := ParseReceipt([]byte(strings.Replace(string(read(t, receipts+"good.json")), `"version"`, `"`+bad+`": 1, "version"`, 1)))
	_, value := ParseReceipt([]byte(strings.Replace(string(read(t, receipts+"good.json")), `"version": 1`, `"version": "`+bad+`"`, 1)))
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
