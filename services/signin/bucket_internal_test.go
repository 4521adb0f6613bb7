package signin

import (
	"testing"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// TestUsesAreRememberedLongEnough: the bucket drops no use of a nonce that a replica may still
// accept.
func TestUsesAreRememberedLongEnough(t *testing.T) {
	t.Parallel()
	if cfg, err := natsconf.StreamConfig(NonceStream, 1); err != nil || cfg.MaxAge != spentFor {
		t.Errorf("%v, %v; want %v", cfg.MaxAge, err, spentFor)
	}
}
