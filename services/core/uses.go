package core

import (
	"context"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

// maxUses bounds the keys whose use is not recorded yet. A use of a further key is
// forgotten.
const maxUses = 100_000

// keyUses records which API keys were used by requests that store no memory, once a minute.
// A crash loses the uses of the last minute; the next use of the key shows again.
type keyUses struct {
	record func(ctx context.Context, owner events.Owner, keyID string) error

	mu   sync.Mutex
	used map[keyUse]struct{} // not recorded yet
}

type keyUse struct {
	owner events.Owner
	keyID string
}

func newKeyUses(record func(context.Context, events.Owner, string) error) *keyUses {
	return &keyUses{record: record, used: map[keyUse]struct{}{}}
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
	if len(u.used) < maxUses {
		u.used[keyUse{caller.Owner, caller.Credential.ID}] = struct{}{}
	}
}

// run records uses until ctx ends.
func (u *keyUses) run(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
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
		u.mu.Unlock()
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
