package keystore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

// Master is a master key: it wraps and unwraps the keys of owners.
type Master interface {
	// ID names it without telling anything about it.
	ID() string
	// Wrap seals an owner's keys, bound to a context, without which they don't unwrap.
	// ErrUnavailable: the master key can't be used now.
	Wrap(ctx context.Context, plain, bound []byte) ([]byte, error)
	// Unwrap opens what Wrap has sealed. Errors: ErrSealed, ErrUnavailable.
	Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error)
	// Secret is what all processes with this master key have in common, and no other one. It
	// does not unwrap what a device has wrapped.
	Secret() MasterKey
}

// MasterKey is a master key that is in this process.
type MasterKey [KeySize]byte

// ID returns the first 8 bytes of a domain-separated SHA-256, in hex.
func (k MasterKey) ID() string {
	sum := sha256.Sum256(append([]byte("memory-ledger/master-key-id/v1\x00"), k[:]...))
	return hex.EncodeToString(sum[:8])
}

// String keeps the key out of logs and error messages.
func (MasterKey) String() string { return "[master key]" }

func (k MasterKey) Secret() MasterKey { return k }

// Wrap returns a nonce, and the ciphertext and tag of AES-256-GCM, whose associated data
// is what the keys are bound to.
func (k MasterKey) Wrap(_ context.Context, plain, bound []byte) ([]byte, error) {
	return seal(newAEAD(k), plain, bound), nil
}

// Unwrap opens what Wrap has sealed.
func (k MasterKey) Unwrap(_ context.Context, wrapped, bound []byte) ([]byte, error) {
	return open(newAEAD(k), wrapped, bound)
}

// NewestMaster returns the id of the master key that wraps the newest entry of the bucket,
// or "" if there is no entry, or the newest is a mark.
func NewestMaster(ctx context.Context, js jetstream.JetStream) (string, error) {
	var newest *jetstream.RawStreamMsg
	stream, err := js.Stream(ctx, Stream)
	if err == nil {
		newest, err = stream.GetLastMsgForSubject(ctx, allSubjects)
	}
	var e entry
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrMsgNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("newest data key: %w: %w", ErrUnavailable, err)
	case json.Unmarshal(newest.Data, &e) != nil: // a mark has no data
		return "", nil
	}
	return e.Master, nil
}

// Fits returns an error that matches ErrMasterKey if a store with these master keys must
// not write beside an entry wrapped by the master key with that id: it could not read the
// existing keys, and would wrap new keys under a different master key.
func Fits(newest string, masters []Master) error {
	known := ""
	for i, master := range masters {
		switch {
		case master.ID() == newest:
			return nil
		case i > 0:
			known += " and MASTER_KEY_PREVIOUS is "
		}
		known += master.ID()
	}
	if newest == "" {
		return nil
	}
	return fmt.Errorf("%w: the newest entry of the keystore names master key %s, MASTER_KEY is %s: "+
		"set MASTER_KEY, or MASTER_KEY_PREVIOUS beside a new one, to the key of that id", ErrMasterKey, newest, known)
}
