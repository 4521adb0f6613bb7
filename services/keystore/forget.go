package keystore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

// Forgotten is what a Forget found.
type Forgotten struct {
	Existed bool // there was a data key
	// Erased says that the server has written over its bytes in the bucket's files;
	// wrappings from before a rewrap it had only dropped. It is false where the bucket
	// was made by a build that had it deny deletes: then the key is hidden from every
	// reader, and its bytes, wrapped by the master key, stay until the server happens
	// to rewrite that file.
	Erased bool
}

// Forget destroys an owner's data key. Nothing that was sealed with it can be opened
// again, whatever other keys a reader has. There are two exceptions: a backup of the
// bucket from before still has the key, and a running process may remember it until
// its [Store.Watch] sees the mark.
//
// It needs to delete messages of the bucket's stream, which is an administrator's
// right on a cluster with permissions, and no master key. A crash leaves the key
// destroyed or not; run it again.
func Forget(ctx context.Context, js jetstream.JetStream, owner events.Owner) (Forgotten, error) {
	var done Forgotten
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return done, fmt.Errorf("open the keystore: %w: %w", ErrUnavailable, err)
	}
	bucket, err := js.KeyValue(ctx, Bucket)
	if err != nil {
		return done, fmt.Errorf("open the keystore: %w: %w", ErrUnavailable, err)
	}
	erasable := !stream.CachedInfo().Config.DenyDelete
	for refused := uint64(0); ; {
		stored, err := bucket.Get(ctx, string(owner))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			break
		}
		if err != nil {
			return done, fmt.Errorf("forget %s: %w: %w", owner, ErrUnavailable, err)
		}
		done.Existed, done.Erased = true, erasable
		if !erasable {
			break
		}
		// Before the mark is made: what a newer message takes the place of is
		// removed and not written over, and then can't be any more.
		if err := stream.SecureDeleteMsg(ctx, stored.Revision()); err != nil {
			if refused == stored.Revision() {
				return done, fmt.Errorf("forget %s: erase: %w: %w", owner, ErrUnavailable, err)
			}
			refused = stored.Revision() // it may have got a new wrapping meanwhile
		}
	}
	if !done.Existed {
		if _, err := Marked(stream)(ctx, owner); err != nil {
			return done, fmt.Errorf("forget %s: %w: %w", owner, ErrUnavailable, err)
		}
		return done, nil
	}
	// The mark tells later readers that there was a key. A server that syncs before
	// it acknowledges has then also synced what it did to the file before.
	if err := bucket.Delete(ctx, string(owner)); err != nil {
		return done, fmt.Errorf("forget %s: mark: %w: %w", owner, ErrUnavailable, err)
	}
	return done, nil
}

// Destroy is Forget for a service: it drops the key from this process at once, and
// returns when what the server did is on stable storage. It is an error if the bucket
// can only hide a key.
func (s *Store) Destroy(ctx context.Context, js jetstream.JetStream, owner events.Owner) error {
	done, err := Forget(ctx, js, owner)
	s.forgets.Add(1)
	s.cache.Remove(owner)
	s.told(owner)
	switch {
	case err != nil:
		return err
	case done.Existed && !done.Erased:
		return fmt.Errorf("forget %s: %w: the bucket denies deletes", owner, ErrUnavailable)
	case s.syncer == nil:
		return nil
	}
	if err := s.syncer.Sync(ctx); err != nil {
		return fmt.Errorf("forget %s: %w: %w", owner, ErrUnavailable, err)
	}
	return nil
}

// Marked returns what looks for the mark that Forget leaves, for Config. Who asks has
// found no key. That is not believed at once: a server says that there is none as well
// where it could not read one, because its disk fails or it may open no more files. Such
// a key is an error, neither forgotten nor missing.
func Marked(stream jetstream.Stream) func(context.Context, events.Owner) (bool, error) {
	return func(ctx context.Context, owner events.Owner) (bool, error) {
		subject := subjectPrefix + string(owner)
		for range 2 { // what comes between the two questions is found by the third
			last, err := stream.GetLastMsgForSubject(ctx, subject)
			if err == nil && last.Header.Get(operationHeader) == "" {
				return false, errFound
			}
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return err == nil, err
			}
			// How many messages a subject has the server knows without reading one.
			info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
			if err != nil || info.State.Subjects[subject] == 0 {
				return false, err
			}
		}
		return false, errors.New("the server does not find an entry that it has")
	}
}

// errFound: another process has made a key since, or it could not be read before.
var errFound = errors.New("there is a key, which was not found before")

// operationHeader is on the marks of a bucket, and on no key.
const operationHeader = "KV-Operation"
