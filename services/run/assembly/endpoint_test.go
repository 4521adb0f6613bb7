package assembly_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

// TestNoKeyOfTheEndpointInErrors: providers put their API key into the URL, and the
// errors of failed checks are printed.
func TestNoKeyOfTheEndpointInErrors(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close() // nothing answers at its address now
	for _, url := range []string{away.URL + "/s3cr3t?api-key=s3cr3t", "http://h/%s3cr3t"} {
		anybody := solana.SystemProgramID.String()
		chain, err := assembly.NewOnchain(config.Config{SolanaRPCURL: url, CommitmentProgramID: anybody}, anybody)
		if err == nil {
			_, _, err = chain.Commitments(t.Context(), []events.Owner{events.Owner(anybody)})
		}
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
}
