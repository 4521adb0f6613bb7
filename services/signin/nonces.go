package signin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

// NonceBucket is the name of the key-value bucket of unspent nonces.
const NonceBucket = "ledger_nonces"

// NonceLifetime is how long a challenge can be answered.
const NonceLifetime = 5 * time.Minute

// nonceBucketBytes bounds what unanswered challenges can take up; at about 700
// bytes each that is some 380,000 of them. A full bucket refuses new
// challenges until old ones expire.
const nonceBucketBytes = 256 << 20

// NonceBucketConfig returns the configuration of the bucket. The server drops
// a nonce by itself a little after it expired; whether it has expired is
// decided by the time inside.
func NonceBucketConfig(replicas int) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket: NonceBucket, Description: "Memory Ledger: unspent sign-in nonces",
		History: 1, TTL: NonceLifetime + time.Minute, MaxBytes: nonceBucketBytes,
		Storage: jetstream.FileStorage, Replicas: max(1, replicas),
	}
}

// challenge is what is kept of a challenge until it is answered.
type challenge struct {
	Message   string           `json:"message"`
	Owner     events.Owner     `json:"owner"`
	ExpiresAt events.Timestamp `json:"expiresAt"`
}

var errNoNonce = errors.New("no such nonce")

// nonces are unspent challenges. Both APIs share them: a nonce that either of
// them issued is spent once across both.
type nonces struct{ bucket jetstream.KeyValue }

func (n nonces) put(ctx context.Context, nonce string, c challenge) error {
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode challenge: %w", err)
	}
	if _, err := n.bucket.Create(ctx, nonce, value); err != nil {
		return fmt.Errorf("keep nonce: %w: %w", ErrUnavailable, err)
	}
	return nil
}

func (n nonces) get(ctx context.Context, nonce string) (challenge, uint64, error) {
	stored, err := n.bucket.Get(ctx, nonce)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return challenge{}, 0, errNoNonce
	}
	if err != nil {
		return challenge{}, 0, fmt.Errorf("look up nonce: %w: %w", ErrUnavailable, err)
	}
	var c challenge
	if err := json.Unmarshal(stored.Value(), &c); err != nil {
		return challenge{}, 0, fmt.Errorf("decode challenge: %w", err)
	}
	return c, stored.Revision(), nil
}

// wrongLastSequence is the server's answer to a delete that came second.
const wrongLastSequence jetstream.ErrorCode = jetstream.JSErrCodeStreamWrongLastSequence

// spend removes the nonce if it is still there as it was read. Of any number
// of callers, exactly one succeeds. A crash after it leaves a nonce that gave
// no session: its holder asks for another challenge.
func (n nonces) spend(ctx context.Context, nonce string, revision uint64) error {
	err := n.bucket.Delete(ctx, nonce, jetstream.LastRevision(revision))
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api) && (api.ErrorCode == wrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return errNoNonce
	default:
		return fmt.Errorf("spend nonce: %w: %w", ErrUnavailable, err)
	}
}
