package core

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
