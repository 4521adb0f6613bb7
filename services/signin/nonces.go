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
	// Audience is the API that issued it, and whose sessions it is good for.
	Audience events.Audience `json:"audience"`
	// ClaimedUntil is set while a good answer is being made a session, and so is
	// ClaimedBy, by which whoever claimed it knows its own claim again.
	ClaimedUntil *events.Timestamp `json:"claimedUntil,omitempty"`
	ClaimedBy    string            `json:"claimedBy,omitempty"`
}

// claimed reports whether somebody is at work on an answer.
func (c challenge) claimed(now time.Time) bool {
	return c.ClaimedUntil != nil && now.Before(c.ClaimedUntil.Time())
}

// claimTime is how long a claim holds that nobody ends: somewhat longer than a
// request may take.
const claimTime = 15 * time.Second

var errNoNonce = errors.New("no such nonce")

// nonces are unspent challenges, in one bucket for both APIs.
//
//	issued --claim--> claimed --spend----> gone, and a session is handed out
//	issued <-release- claimed     (the session could not be recorded)
//	issued <-time---- claimed     (nor could that be said: a crash, no server)
//
// Whoever comes while it is claimed waits for what becomes of it: gone is a refusal,
// issued is a nonce to claim. Each step names the revision that it goes from, so of
// any number of answers one is made a session, and one that fails costs its holder
// nothing. Clocks that differ can take a claim over too soon; whoever had it then
// can't spend.
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

// claim keeps other answers out. A crash after it leaves a nonce that can be used
// again after claimTime. ErrUnavailable leaves it open whether the claim stands;
// made again, from the same revision, it lands instead of the first or finds it.
func (n nonces) claim(ctx context.Context, nonce string, c challenge, by string, revision uint64, now time.Time) (claimed uint64, err error) {
	until := events.At(now.Add(claimTime))
	c.ClaimedUntil, c.ClaimedBy = &until, by
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return n.update(ctx, "claim nonce", nonce, c, revision)
}

// claimTimeout leaves time to ask again where an answer is lost.
const claimTimeout = 2 * time.Second

// release gives a claimed nonce back.
func (n nonces) release(ctx context.Context, nonce string, c challenge, claimed uint64) error {
	c.ClaimedUntil, c.ClaimedBy = nil, ""
	_, err := n.update(ctx, "release nonce", nonce, c, claimed)
	return err
}

func (n nonces) update(ctx context.Context, step, nonce string, c challenge, revision uint64) (uint64, error) {
	value, err := json.Marshal(c)
	if err != nil {
		return 0, fmt.Errorf("encode challenge: %w", err)
	}
	revision, err = n.bucket.Update(ctx, nonce, value, revision)
	if err != nil {
		return 0, moved(step, err)
	}
	return revision, nil
}

// spend removes a claimed nonce. Of any number of callers, exactly one succeeds. A
// crash after it leaves a nonce whose session nobody was told of: its holder asks
// for another challenge.
func (n nonces) spend(ctx context.Context, nonce string, claimed uint64) error {
	if err := n.bucket.Delete(ctx, nonce, jetstream.LastRevision(claimed)); err != nil {
		return moved("spend nonce", err)
	}
	return nil
}

// moved tells the server's answer to a step that came second from other failures.
func moved(step string, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return errNoNonce
	}
	return fmt.Errorf("%s: %w: %w", step, ErrUnavailable, err)
}
