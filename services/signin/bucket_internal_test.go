package signin

import (
	"testing"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// TestUsesAreRememberedLongEnough: the bucket drops no use of a nonce that a replica may still
// accept.
func TestUsesAreRememberedLongEnough(t *testing.T) {
	t.Parallel()
	if cfg := natsconf.StreamConfig(NonceStream, 1); cfg.MaxAge != spentFor {
		t.Errorf("%v, want %v", cfg.MaxAge, spentFor)
	}
}
