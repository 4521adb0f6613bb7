package core

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

const (
	useInterval = time.Minute
	trackedKeys = 100_000
	// useWorkers are how many owners' uses are recorded at the same time.
	useWorkers = 16
	useTimeout = 5 * time.Second
	// pendingUses bounds the uses that wait, pendingOfOwner those of one owner.
	pendingUses    = 16_384
	pendingOfOwner = 128
	// flushPatience is how long an answer waits for uses to be recorded.
	flushPatience = time.Second
)

// keyUses records the uses of keys by requests that store no memory. It works in the
// background: at most one use per key and minute is handed on, and a full queue drops
// uses instead of waiting. A use that is dropped, or lost in a crash, is not shown by
// lastUsedAt until the key is used again.
//
// A use waits among its owner's commands. Each owner has a queue, and the owners
// take turns. A slow owner holds up one worker, but no other owner's uses.
type keyUses struct {
	record func(ctx context.Context, owner events.Owner, keyID string) error
	now    func() time.Time
	recent *lru.Cache[string, time.Time]

	mu      sync.Mutex
	owners  map[events.Owner]*ownerUses // who have uses that are not recorded
	pending int                         // uses of them all
	// turns holds each of the owners once, but for those whom a worker has. It
	// has room for as many as there can be uses, so it never blocks.
	turns chan *ownerUses
}

// ownerUses are an owner's uses, oldest first. The first may be at a worker.
type ownerUses struct {
	owner events.Owner
	uses  []keyUse
}

// keyUse is a use to record.
type keyUse struct {
	keyID string
	done  chan struct{} // closed when it is recorded, or failed to be
}

func newKeyUses(record func(context.Context, events.Owner, string) error, now func() time.Time) *keyUses {
	recent, err := lru.New[string, time.Time](trackedKeys)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &keyUses{
		record: record, now: now, recent: recent,
		owners: make(map[events.Owner]*ownerUses), turns: make(chan *ownerUses, pendingUses),
	}
}

func (a *API) recordUse(ctx context.Context, owner events.Owner, keyID string) error {
	return a.Commands.Execute(ctx, owner, &command.UseKey{KeyID: keyID})
}

// note remembers that a caller used a key.
func (u *keyUses) note(caller access.Caller) {
	if caller.Credential.Kind != command.CredentialKey {
		return
	}
	now := u.now()
	if last, ok := u.recent.Get(caller.Credential.ID); ok && now.Sub(last) < useInterval {
		return
	}
	if u.add(caller.Owner, caller.Credential.ID) {
		u.recent.Add(caller.Credential.ID, now)
	}
}

// add reports whether there was room.
func (u *keyUses) add(owner events.Owner, keyID string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.owners[owner]
	if u.pending >= pendingUses || o != nil && len(o.uses) >= pendingOfOwner {
		return false
	}
	u.pending++
	if o == nil {
		o = &ownerUses{owner: owner}
		u.owners[owner] = o
		u.turns <- o
	}
	o.uses = append(o.uses, keyUse{keyID, make(chan struct{})})
	return true
}

// run records until ctx ends.
func (u *keyUses) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range useWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case o := <-u.turns:
					u.recordFirst(ctx, o)
				}
			}
		})
	}
	workers.Wait()
}

// recordFirst records the first of an owner's uses; the next one is for the owner's
// next turn.
func (u *keyUses) recordFirst(ctx context.Context, o *ownerUses) {
	u.mu.Lock()
	use := o.uses[0]
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	if err := u.record(ctx, o.owner, use.keyID); err != nil {
		u.recent.Remove(use.keyID) // the next use tries again
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	close(use.done)
	u.pending--
	if o.uses = o.uses[1:]; len(o.uses) > 0 {
		u.turns <- o
	} else {
		delete(u.owners, o.owner)
	}
}

// flush waits until what was noted of an owner before is recorded, but not for long.
func (u *keyUses) flush(ctx context.Context, owner events.Owner) {
	u.mu.Lock()
	o := u.owners[owner]
	if o == nil {
		u.mu.Unlock()
		return
	}
	last := o.uses[len(o.uses)-1].done
	u.mu.Unlock()
	timer := time.NewTimer(flushPatience)
	defer timer.Stop()
	select {
	case <-last:
	case <-timer.C:
	case <-ctx.Done():
	}
}
