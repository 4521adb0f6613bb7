package assembly_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/assembly"
)

// TestNoKeyOfTheEndpointInErrors: providers put their key into the URL, and
// what could not be checked is printed.
func TestNoKeyOfTheEndpointInErrors(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close() // its address answers nobody now
	for _, url := range []string{away.URL + "/s3cr3t?api-key=s3cr3t", "http://h/%s3cr3t"} {
		chain := assembly.Onchain{URL: url, Program: solana.SystemProgramID, Authority: solana.SystemProgramID}
		_, err := chain.Commitments(t.Context(), []events.Owner{events.Owner(solana.SystemProgramID.String())})
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
}
