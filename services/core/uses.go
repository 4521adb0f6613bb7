package core

import (
	"context"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

// keyUses records which API keys were used by requests that store no memory: within
// seconds, and at most once a minute for each key. A crash loses the uses that are not
// recorded yet; the key's next use shows again.
type keyUses struct {
	record func(ctx context.Context, owner events.Owner, keyID string) error

	mu       sync.Mutex
	used     map[keyUse]struct{}  // not recorded yet
	recorded map[keyUse]time.Time // within the last minute
}

type keyUse struct {
	owner events.Owner
	keyID string
}

func newKeyUses(record func(context.Context, events.Owner, string) error) *keyUses {
	return &keyUses{record: record, used: map[keyUse]struct{}{}, recorded: map[keyUse]time.Time{}}
}

// recordUse appends the use, unless the key's last use is less than a minute old.
func (a *API) recordUse(ctx context.Context, owner events.Owner, keyID string) error {
	return a.Commands.Execute(ctx, owner, &command.UseKey{KeyID: keyID})
}

// note notes that a caller used its key.
func (u *keyUses) note(caller access.Caller) {
	if caller.Credential.Kind != command.CredentialKey {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	use := keyUse{caller.Owner, caller.Credential.ID}
	// A use of a further key is forgotten.
	if _, again := u.recorded[use]; !again && len(u.used)+len(u.recorded) < 200_000 {
		u.used[use] = struct{}{}
	}
}

// run records uses until ctx ends.
func (u *keyUses) run(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			u.forget(now.Add(-time.Minute))
			u.recordAll(ctx, func(events.Owner) bool { return true })
		}
	}
}

// flush records an owner's uses before the owner looks at them. If that takes long, the
// owner sees them later.
func (u *keyUses) flush(ctx context.Context, owner events.Owner) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	u.recordAll(ctx, func(of events.Owner) bool { return of == owner })
}

// recordAll records the uses of some owners. After a failure, the owner's other uses wait
// until the next time.
func (u *keyUses) recordAll(ctx context.Context, of func(events.Owner) bool) {
	failed := map[events.Owner]bool{}
	for _, use := range u.unrecorded(of) {
		if failed[use.owner] {
			continue
		}
		if err := u.record(ctx, use.owner, use.keyID); err != nil {
			failed[use.owner] = true
			continue
		}
		u.mu.Lock()
		delete(u.used, use)
		u.recorded[use] = time.Now()
		u.mu.Unlock()
	}
}

// forget lets uses be noted again of keys that were recorded before a time.
func (u *keyUses) forget(before time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for use, at := range u.recorded {
		if at.Before(before) {
			delete(u.recorded, use)
		}
	}
}

func (u *keyUses) unrecorded(of func(events.Owner) bool) (uses []keyUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for use := range u.used {
		if of(use.owner) {
			uses = append(uses, use)
		}
	}
	return uses
}
