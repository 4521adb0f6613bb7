package recall

import (
	"strings"
	"testing"
	"time"
)

// TestNoQueryTakesLong: a time slot is not interrupted while a query is parsed and matched.
func TestNoQueryTakesLong(t *testing.T) {
	t.Parallel()
	x := newBuilder(0, &Dictionary{})
	x.add([]byte(strings.Repeat("x ", maxPlaces)), 1)
	b := x.finish()
	phrase := strings.Repeat("x ", 4)
	for name, text := range map[string]string{
		"phrases":         strings.Repeat(`"`+phrase+`" -"`+phrase+`" `, maxPhrases),
		"unclosed quotes": strings.Repeat("„ ", 1<<18),
	} {
		begun := time.Now()
		q := ParseQuery(text)
		q.Rank().Add(b)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
}
