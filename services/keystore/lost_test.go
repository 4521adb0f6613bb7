package keystore_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/services/keystore"
)

// losing is a bucket that loses the next question.
type losing struct {
	jetstream.KeyValue
	loses bool
}

func (b *losing) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if b.loses {
		b.loses = false
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.KeyValue.Get(ctx, key)
}

// TestALostQuestionIsAskedAgain: a question that the bucket's leader loses because it dies
// does not take all the time that a request has.
func TestALostQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	bucket := newBucket(t)
	owner := logtest.Owner()
	if _, err := openStore(t, bucket, keystore.MasterKey{1}).FindOrCreate(t.Context(), owner, 0); err != nil {
		t.Fatal(err)
	}
	lost := &losing{bucket, true}
	if _, err := openStore(t, lost, keystore.MasterKey{1}).Find(t.Context(), owner); err != nil || lost.loses {
		t.Errorf("it was asked once: %v", err)
	}
}
