package keystore

import (
	"testing"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// TestTheBucketTakesTheLargestEntry: an owner's entry that is not too large for us is stored.
func TestTheBucketTakesTheLargestEntry(t *testing.T) {
	t.Parallel()
	if cfg := natsconf.StreamConfig(Stream, 1); cfg.MaxMsgSize != maxEntry {
		t.Errorf("%d, want %d", cfg.MaxMsgSize, maxEntry)
	}
}
