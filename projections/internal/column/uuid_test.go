package column_test

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/projections/internal/column"
)

func TestIDsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`\A[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\z`)
	const good = "01890a5d-ac96-774b-bcce-b302099a8057"
	texts := []string{good, "", "0123456789abcdef", good[1:], good + "0", strings.ToUpper(good)}
	for i := range good {
		for c := range 256 {
			texts = append(texts, good[:i]+string([]byte{byte(c)})+good[i+1:])
		}
	}
	for _, text := range texts {
		id, ok := column.ParseUUID(text)
		if ok != form.MatchString(text) {
			t.Errorf("%q: %v", text, ok)
		}
		if ok && (hex.EncodeToString(id[:]) != strings.ReplaceAll(text, "-", "") || column.UUIDText(id) != text) {
			t.Errorf("%q is read as %x", text, id)
		}
	}
}
