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
	// useWorkers is the number of owners whose uses are recorded at the same time.
	useWorkers = 16
	useTimeout = 5 * time.Second
	// pendingUses bounds the waiting uses of all owners, pendingOfOwner those of one.
	pendingUses    = 16_384
	pendingOfOwner = 128
	// flushPatience is how long an answer waits for uses to be recorded.
	flushPatience = time.Second
)

// keyUses records the uses of API keys by requests that store no memory. It works in the
// background: it records at most one use per key and minute, and a full queue drops uses
// instead of waiting. A use that is dropped, or lost in a crash, does not appear in
// lastUsedAt; the next use of the key does.
//
// Recording a use waits for the owner's other commands. Each owner has a queue, and the
// owners take turns. A slow owner blocks one worker, but not the uses of other owners.
type keyUses struct {
	record func(ctx context.Context, owner events.Owner, keyID string) error
	now    func() time.Time
	recent *lru.Cache[string, time.Time]

	mu      sync.Mutex
	owners  map[events.Owner]*ownerUses // owners with unrecorded uses
	pending int                         // unrecorded uses of all owners
	// turns holds each of these owners once, except the owners that a worker is serving.
	// Its capacity is the maximum number of pending uses, so a send never blocks.
	turns chan *ownerUses
}

// ownerUses holds an owner's unrecorded uses, oldest first. A worker may be recording
// the first use.
type ownerUses struct {
	owner events.Owner
	uses  []keyUse
}

// keyUse is a use to record.
type keyUse struct {
	keyID string
	done  chan struct{} // closed after the use was recorded or failed
}

func newKeyUses(record func(context.Context, events.Owner, string) error, now func() time.Time) *keyUses {
	recent, err := lru.New[string, time.Time](trackedKeys)
	if err != nil {
		panic(err) // the size is not positive
	}
	return &keyUses{
		record: record, now: now, recent: recent,
		owners: make(map[events.Owner]*ownerUses), turns: make(chan *ownerUses, pendingUses),
	}
}

func (a *API) recordUse(ctx context.Context, owner events.Owner, keyID string) error {
	return a.Commands.Execute(ctx, owner, &command.UseKey{KeyID: keyID})
}

// note queues the use of a key by a caller, if it is due.
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

// add queues a use. It reports whether there was room.
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

// run records uses until ctx ends.
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

// recordFirst records the first of an owner's uses. The next use waits for the owner's
// next turn.
func (u *keyUses) recordFirst(ctx context.Context, o *ownerUses) {
	u.mu.Lock()
	use := o.uses[0]
	u.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	if err := u.record(ctx, o.owner, use.keyID); err != nil {
		u.recent.Remove(use.keyID) // so the key's next use is recorded
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

// flush waits until the owner's uses that were noted so far are recorded, for at most
// flushPatience.
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
