package untrusted_test

import (
	"testing"

	"github.com/memory-ledger/ledger/services/untrusted"
)

// TestControlCharactersAreVisible: nothing in a text moves the cursor or turns the text
// around, and what people write stays as it is.
func TestControlCharactersAreVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "a\nb\tc": "a\nb\tc", "a\r\nb": "a\r\nb", "é 記憶 😀": "é 記憶 😀", "می\u200cخواهم": "می\u200cخواهم",
		"\x1b[2Jx": `\u001b[2Jx`, "shown\rhidden": `shown\u000dhidden`, "\x00\x07\x7f": `\u0000\u0007\u007f`, "\u009b31m": `\u009b31m`,
		"a\u202eb\u2066c": `a\u202eb\u2066c`, "a\u2028## b": `a\u2028## b`, "a\r\r\nb": "a\\u000d\r\nb",
		"a\U000e0069": `a\udb40\udc69`, "\U000e0080": "\U000e0080",
	} {
		if got := untrusted.Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if first, second := untrusted.NewMark(), untrusted.NewMark(); first == second {
		t.Error("two marks are the same")
	}
}
