package signin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// NonceBucket is the name of the key-value bucket of used nonces, and NonceStream that of
// its stream. The bucket stores only answers with a valid signature, 183 bytes each, so it is
// full after some 1.4 million, or 4,000 a second throughout spentFor. Each also adds 1 kB to
// the log permanently. A full bucket refuses sign-ins with ErrUnavailable until the oldest
// uses expire. Never drop them earlier: one signature could then yield two sessions.
const (
	NonceBucket = "ledger_nonces"
	NonceStream = "KV_" + NonceBucket
)

// spentFor is how long a use is remembered: until every replica considers the nonce
// expired, even if it was issued by a replica with a fast clock and is checked by one with
// a slow clock. The bucket's max_age in infra/nats/streams is the same.
const spentFor = NonceLifetime + 2*clockSkew

// useOf is the bucket's entry for a nonce that is used or claimed.
type useOf struct {
	// Spent is set permanently once there is a session. Otherwise an attempt holds the nonce
	// until a time, which is absent if the claim was released.
	Spent        bool              `json:"spent,omitzero"`
	ClaimedUntil *events.Timestamp `json:"claimedUntil,omitzero"`
}

// claimed reports whether an attempt holds the nonce.
func (u useOf) claimed(now time.Time) bool {
	return u.ClaimedUntil != nil && now.Before(u.ClaimedUntil.Time())
}

// claimTime is how long a claim lasts if it is not ended: slightly longer than a request
// may take.
const claimTime = 15 * time.Second

// errMoved: the nonce is not in the expected state.
var errMoved = errors.New("nonce was used by another attempt")

// spentNonces are the used nonces, in one bucket for both APIs.
//
//	unused --claim--> claimed --spend--> spent, and a session is handed out
//	unused <-release- claimed     (the session could not be recorded)
//	unused <-time---- claimed     (nor could that be said: a crash, no server)
//
// An attempt that finds the nonce claimed waits for the outcome: if spent, it is refused;
// if unused, it claims the nonce. Each step names the revision that it starts from, so only
// one of any number of attempts gets a session, and a failed attempt costs the holder
// nothing. If clocks differ, a claim may be taken over too early; then the first attempt
// can no longer spend.
type spentNonces struct {
	bucket jetstream.KeyValue
	sync   func(context.Context) error // nil if the server syncs
	now    func() time.Time
	pause  func(context.Context, time.Duration) bool
}

// claim keeps other attempts out and returns the claim's revision. A crash after it, or a
// lost answer, leaves a nonce that can be used again after claimTime. Errors: ErrRefused if
// the nonce was used, ErrUnavailable if that is unknown.
func (s spentNonces) claim(ctx context.Context, nonce string) (revision uint64, err error) {
	for range 20 { // five seconds, in which a session is recorded
		found, revision, err := s.get(ctx, nonce)
		switch {
		case err != nil:
			return 0, err
		case found.Spent:
			return 0, fmt.Errorf("%w: nonce was used", ErrRefused)
		case !found.claimed(s.now()):
			until := events.At(s.now().Add(claimTime))
			// A message that a failing server lost is sent again while there is time.
			attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
			claimed, err := s.put(attempt, "claim nonce", nonce, useOf{ClaimedUntil: &until}, revision)
			cancel()
			lost := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
			if !lost && !errors.Is(err, errMoved) { // otherwise another attempt was faster
				return claimed, err
			}
		case !s.pause(ctx, 250*time.Millisecond):
			return 0, fmt.Errorf("%w: another attempt is using the nonce: %w", ErrUnavailable, ctx.Err())
		}
	}
	return 0, fmt.Errorf("%w: another attempt is using the nonce", ErrUnavailable)
}

// release releases a claimed nonce, even after the request's own deadline. If that fails,
// the claim expires by itself.
func (s spentNonces) release(ctx context.Context, nonce string, claim uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, _ = s.put(ctx, "release nonce", nonce, useOf{}, claim)
}

// spend uses up a claimed nonce. Exactly one of any number of attempts succeeds, and only
// once no power failure can undo it. A crash after it leaves a session whose token was
// never returned: the client asks for another challenge.
func (s spentNonces) spend(ctx context.Context, nonce string, claim uint64) error {
	_, err := s.put(ctx, "spend nonce", nonce, useOf{Spent: true}, claim)
	if errors.Is(err, errMoved) {
		return fmt.Errorf("%w: nonce was used", ErrRefused)
	}
	if err != nil || s.sync == nil {
		return err
	}
	if err := s.sync(ctx); err != nil {
		return fmt.Errorf("spend nonce: %w: %w", ErrUnavailable, err)
	}
	return nil
}

// get returns the entry of a nonce and its revision; an empty entry and 0 if the nonce was
// never used.
func (s spentNonces) get(ctx context.Context, nonce string) (u useOf, revision uint64, err error) {
	stored, err := s.bucket.Get(ctx, nonce)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return useOf{}, 0, nil
	}
	if err != nil {
		return useOf{}, 0, fmt.Errorf("look up nonce: %w: %w", ErrUnavailable, err)
	}
	if err := json.Unmarshal(stored.Value(), &u); err != nil {
		return useOf{}, 0, fmt.Errorf("decode the use of a nonce: %w", err)
	}
	return u, stored.Revision(), nil
}

// put updates a nonce's entry from a revision; 0 for a nonce that was never used. Errors:
// errMoved, or ErrUnavailable, after which the entry may or may not be stored.
func (s spentNonces) put(ctx context.Context, step, nonce string, u useOf, revision uint64) (uint64, error) {
	value, err := json.Marshal(u)
	if err != nil {
		return 0, fmt.Errorf("encode the use of a nonce: %w", err)
	}
	stored, err := s.bucket.Update(ctx, nonce, value, revision)
	switch {
	case err == nil:
		return stored, nil
	case eventlog.IsWrongSequence(err):
		return 0, errMoved
	}
	return 0, fmt.Errorf("%s: %w: %w", step, ErrUnavailable, err)
}
