package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
)

// ledger records uses, except for stuck owners, whose commands never get a turn.
type ledger struct {
	mu       sync.Mutex
	stuck    map[events.Owner]bool
	recorded map[events.Owner][]string
}

func (l *ledger) record(ctx context.Context, owner events.Owner, keyID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck[owner] {
		l.mu.Unlock()
		<-ctx.Done()
		l.mu.Lock()
		return ctx.Err()
	}
	l.recorded[owner] = append(l.recorded[owner], keyID)
	return nil
}

func (l *ledger) sticks(owner events.Owner, stuck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck[owner] = stuck
}

func (l *ledger) of(owner events.Owner) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recorded[owner])
}

// waiting returns the number of unrecorded uses, and of their owners.
func (u *keyUses) waiting() (uses, owners int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pending, len(u.owners)
}

// inBubble runs a test together with the workers. The clock advances only while all
// goroutines are blocked.
func inBubble(t *testing.T, test func(t *testing.T, u *keyUses, l *ledger)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{stuck: map[events.Owner]bool{}, recorded: map[events.Owner][]string{}}
		u := newKeyUses(l.record, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { u.run(ctx); close(ended) }()
		test(t, u, l)
		cancel()
		<-ended
	})
}

func use(owner events.Owner, keyID string) access.Caller {
	return access.Caller{Owner: owner, Credential: command.Credential{Kind: command.CredentialKey, ID: keyID}}
}

func ownerOf(n byte) events.Owner { return events.OwnerFromBytes([32]byte{n}) }

// TestASlowOwnerHoldsUpNobody: the answers to other owners do not wait for the slow
// owner's commands, and none of their uses is dropped. The slow owner's answers arrive
// after flushPatience.
func TestASlowOwnerHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, u *keyUses, l *ledger) {
		slow := ownerOf(0)
		l.sticks(slow, true)
		for i := range 1000 {
			u.note(use(slow, fmt.Sprint("slow-", i)))
		}
		if n, _ := u.waiting(); n > pendingOfOwner {
			t.Errorf("%d uses of one owner wait", n)
		}
		start := time.Now()
		for i := range byte(200) {
			u.note(use(ownerOf(i+1), fmt.Sprint("key-", i)))
		}
		for i := range byte(200) {
			u.flush(t.Context(), ownerOf(i+1))
			if got := l.of(ownerOf(i + 1)); len(got) != 1 {
				t.Fatalf("%v are recorded of owner %d", got, i+1)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the others waited for %v", took)
		}
		u.flush(t.Context(), slow)
		if took := time.Since(start); took != flushPatience {
			t.Errorf("the slow one waited for %v", took)
		}
	})
}

// TestMoreSlowOwnersThanWorkers: other owners wait, but not for all uses of the slow
// owners.
func TestMoreSlowOwnersThanWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, u *keyUses, l *ledger) {
		for n := range byte(useWorkers + 1) {
			l.sticks(ownerOf(n), true)
			for i := range 100 {
				u.note(use(ownerOf(n), fmt.Sprint(n, "-", i)))
			}
		}
		synctest.Wait()
		good, start := ownerOf(255), time.Now()
		u.note(use(good, "key"))
		for len(l.of(good)) == 0 && time.Since(start) < time.Minute {
			u.flush(t.Context(), good)
		}
		if took := time.Since(start); took > useTimeout {
			t.Errorf("recorded after %v", took)
		}
	})
}

// TestUsesOfAnOwnerAreRecordedInOrder: an owner's uses are recorded in order, at most once
// a minute for each key. A flush waits for the uses before it.
func TestUsesOfAnOwnerAreRecordedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, u *keyUses, l *ledger) {
		owner := ownerOf(1)
		var want []string
		for i := range 2 * pendingOfOwner {
			id := fmt.Sprint("key-", i)
			want = append(want, id)
			for range 3 {
				u.note(use(owner, id))
			}
			if i%50 == 49 {
				u.flush(t.Context(), owner)
			}
		}
		u.note(access.Caller{Owner: owner, Credential: command.Credential{Kind: command.CredentialCoreSession, ID: "session"}})
		u.flush(t.Context(), owner)
		if got := l.of(owner); !slices.Equal(got, want) {
			t.Errorf("recorded %v", got)
		}
		if uses, owners := u.waiting(); uses != 0 || owners != 0 {
			t.Errorf("%d uses of %d owners are kept", uses, owners)
		}
		time.Sleep(useInterval)
		u.note(use(owner, "key-0"))
		u.flush(t.Context(), owner)
		if got := l.of(owner); len(got) != len(want)+1 {
			t.Errorf("%d uses are recorded after a minute, want one more than %d", len(got), len(want))
		}
	})
}

// TestAUseThatFailedIsTriedAgain: if recording a use failed, or the queue was full, the
// key's next use is recorded.
func TestAUseThatFailedIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, u *keyUses, l *ledger) {
		owner := ownerOf(1)
		l.sticks(owner, true)
		for i := range pendingOfOwner + 1 {
			u.note(use(owner, fmt.Sprint("key-", i)))
		}
		time.Sleep(useTimeout)
		synctest.Wait()
		l.sticks(owner, false)
		time.Sleep(useTimeout)
		u.flush(t.Context(), owner)
		if got := l.of(owner); slices.Contains(got, "key-0") || slices.Contains(got, fmt.Sprint("key-", pendingOfOwner)) {
			t.Errorf("recorded %v", got)
		}
		again := []string{"key-0", fmt.Sprint("key-", pendingOfOwner)}
		for _, id := range again {
			u.note(use(owner, id))
		}
		u.flush(t.Context(), owner)
		if got := l.of(owner); !slices.Equal(got[len(got)-2:], again) {
			t.Errorf("recorded %v", got)
		}
	})
}

// TestFlushEndsWithTheRequest: a flush ends when the request's context ends. The workers
// end with the service.
func TestFlushEndsWithTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, u *keyUses, l *ledger) {
		owner := ownerOf(1)
		l.sticks(owner, true)
		u.note(use(owner, "key"))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("hung up"))
		defer cancel()
		start := time.Now()
		u.flush(ctx, owner)
		if took := time.Since(start); took != time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}
