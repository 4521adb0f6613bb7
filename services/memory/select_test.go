package memory

import (
	"testing"
)

// TestACursorBeyondTheLog: a client may have made up its cursor. Nothing follows it.
func TestACursorBeyondTheLog(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "a", "b", "c")
	for _, leaf := range []string{"2", "3", "4", "1000", "9223372036854775807"} {
		for _, query := range []string{"", "b"} {
			picked, err := h.service(0).Select(t.Context(), Reader{Owner: w.owner}, Selection{Query: query, Order: Oldest, Limit: 5, Cursor: "o" + leaf}, nil)
			if err != nil || picked.More() {
				t.Errorf("%q after leaf %s: %d hits, %v", query, leaf, len(picked.hits), err)
			}
		}
	}
}
