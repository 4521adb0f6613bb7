package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// Bucket is the name of the key-value bucket of apps, and Stream that of its stream. An entry
// takes about 250 bytes, so a million apps fit. A full bucket refuses new apps.
const (
	Bucket = "ledger_apps"
	Stream = "KV_" + Bucket
)

// entry is what is stored of an app whose code was exchanged, by the id of its key.
type entry struct {
	// Generation is that of the one refresh token that works.
	Generation int    `json:"generation,omitzero"`
	Client     string `json:"client,omitzero"` // SHA-256 of the client id, in hexadecimal
	Resource   string `json:"resource,omitzero"`
	Ended      bool   `json:"ended,omitzero"` // no token works
	// By is random, and tells whose replacement it was if its answer was lost.
	By string `json:"by"`
}

// errMoved: the entry is not in the expected state.
var errMoved = errors.New("another request used the code or the refresh token")

// entries are the apps. Each step names the revision that it starts from, so only one of
// any number of requests on any number of replicas succeeds.
type entries struct {
	bucket jetstream.KeyValue
	sync   func(context.Context) error // nil if the server syncs
}

// get returns the entry of an app: an ended one if it is damaged and, without a revision, if
// the app is unknown, as after a restore: the bucket is not in backups.
func (e entries) get(ctx context.Context, keyID string) (found entry, revision uint64, err error) {
	stored, err := e.bucket.Get(ctx, keyID)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return entry{Ended: true}, 0, nil
	}
	if err != nil {
		return entry{}, 0, fmt.Errorf("look up app: %w: %w", ErrBusy, err)
	}
	if err := json.Unmarshal(stored.Value(), &found); err != nil {
		found = entry{Ended: true}
	}
	return found, stored.Revision(), nil
}

// replace updates an entry from a revision; 0 for a new one. It returns errMoved if the
// entry has another revision. After ErrBusy, the entry may or may not be replaced.
func (e entries) replace(ctx context.Context, keyID string, next entry, revision uint64) error {
	next.By = rand.Text()
	value, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode app: %w", err)
	}
	if _, err = e.bucket.Update(ctx, keyID, value, revision); err != nil {
		found, _, lookup := e.get(ctx, keyID)
		switch {
		case lookup == nil && found.By == next.By: // only the answer was lost
			err = nil
		case eventlog.IsWrongSequence(err):
			return errMoved
		}
	}
	if err == nil && e.sync != nil {
		err = e.sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("store app: %w: %w", ErrBusy, err)
	}
	return nil
}

// end makes all tokens of an app useless but the access token.
func (e entries) end(ctx context.Context, keyID string) error {
	for {
		found, revision, err := e.get(ctx, keyID)
		if err != nil || found.Ended {
			return err
		}
		err = e.replace(ctx, keyID, entry{Ended: true, Client: found.Client}, revision)
		if !errors.Is(err, errMoved) {
			return err
		}
	}
}
