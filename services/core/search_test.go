package core

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/services/httpapi"
)

// TestAFilterAsksForFewMembers: the database looks for each member in each memory.
func TestAFilterAsksForFewMembers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, maxMembers, maxMembers + 1, 1 << 16} {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf(`"%d":1`, i)
		}
		f, err := filterBody{Metadata: jsontext.Value("{" + strings.Join(members, ",") + "}")}.filter()
		var refusal *httpapi.Refusal
		switch {
		case n <= maxMembers && (err != nil || len(f.Metadata) != n):
			t.Errorf("%d members: %d, %v", n, len(f.Metadata), err)
		case n > maxMembers && (!errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest):
			t.Errorf("%d members: %v", n, err)
		}
	}
}

// TestDatesInFilters: a date is its whole day, and what is no time is refused.
func TestDatesInFilters(t *testing.T) {
	t.Parallel()
	day, bad := "2026-03-01", "2026-03-01T12:00:00+24:00"
	f, err := filterBody{From: &day, To: &day}.filter()
	if from, to := f.From.Format(time.RFC3339), f.To.Format(time.RFC3339); err != nil || from != "2026-03-01T00:00:00Z" || to != "2026-03-02T00:00:00Z" {
		t.Errorf("from %s, to %s, %v", from, to, err)
	}
	if _, err := (filterBody{To: &bad}).filter(); err == nil {
		t.Errorf("%s is taken", bad)
	}
}
