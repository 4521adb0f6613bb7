package keystore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go"
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
	done, err := forget(ctx, js, owner, AnyKey)
	if err != nil {
		err = fmt.Errorf("forget %s: %w", owner, err)
	}
	return done, err
}

// forget is Forget for a key that was made before so many erasures. It spares a later one.
func forget(ctx context.Context, js jetstream.JetStream, owner events.Owner, before int) (done Forgotten, err error) {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return done, fmt.Errorf("open the keystore: %w: %w", ErrUnavailable, err)
	}
	bucket, err := js.KeyValue(ctx, Bucket)
	if err != nil {
		return done, fmt.Errorf("open the keystore: %w: %w", ErrUnavailable, err)
	}
	erasable := !stream.CachedInfo().Config.DenyDelete
	refused := uint64(0)
	for range maxTries {
		stored, err := bucket.Get(ctx, string(owner))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			mark, err := Marked(stream)(ctx, owner)
			if err == nil && mark == 0 && done.Existed {
				err = putMark(ctx, js, owner, 0)
			}
			if isMoved(err) || errors.Is(err, errFound) {
				continue // a sign-in has made a key, or another Forget the mark
			}
			if err != nil {
				return done, fmt.Errorf("mark: %w: %w", ErrUnavailable, err)
			}
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if before < AnyKey {
			if e, err := parse(owner, stored.Value()); err != nil || e.Erasures >= before {
				return done, err
			}
		}
		done.Existed, done.Erased = true, erasable
		if !erasable {
			err = putMark(ctx, js, owner, stored.Revision())
			if err != nil && !isMoved(err) {
				return done, fmt.Errorf("mark: %w: %w", ErrUnavailable, err)
			}
			continue
		}
		// Before the mark is made: what a newer message takes the place of is
		// removed and not written over, and then can't be any more.
		if err := stream.SecureDeleteMsg(ctx, stored.Revision()); err != nil {
			if refused == stored.Revision() {
				return done, fmt.Errorf("erase: %w: %w", ErrUnavailable, err)
			}
			refused = stored.Revision() // it may have got a new wrapping meanwhile
		}
	}
	return done, fmt.Errorf("%w: there was another key %d times", ErrUnavailable, maxTries)
}

// putMark makes the mark that tells later readers that there was a key, unless the entry
// is another one than that revision, 0 for none. A server that syncs before it
// acknowledges has then also synced what it did to the file before.
//
// A crash before it leaves an owner who has neither a key nor a mark.
func putMark(ctx context.Context, js jetstream.JetStream, owner events.Owner, revision uint64) error {
	mark := nats.NewMsg(subjectPrefix + string(owner))
	mark.Header.Set(operationHeader, "DEL")
	_, err := js.PublishMsg(ctx, mark, jetstream.WithExpectLastSequencePerSubject(revision))
	return err
}

// AnyKey has Destroy spare no key.
const AnyKey = math.MaxInt

// Destroy is Forget for a service, for a key that was made before so many erasures: it
// drops the key from this process at once, and returns when what the server did is on
// stable storage. It is an error if the bucket can only hide a key.
func (s *Store) Destroy(ctx context.Context, js jetstream.JetStream, owner events.Owner, before int) error {
	done, err := forget(ctx, js, owner, before)
	s.forgets.Add(1)
	s.cache.Remove(owner)
	s.told(owner)
	if err == nil && done.Existed && !done.Erased {
		err = fmt.Errorf("%w: the bucket denies deletes", ErrUnavailable)
	}
	if err == nil && s.syncer != nil {
		if err = s.syncer.Sync(ctx); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if err != nil {
		return fmt.Errorf("forget %s: %w", owner, err)
	}
	return nil
}

// Marked returns what looks for the mark that Forget leaves, for Config. Who asks has
// found no key. That is not believed at once: a server says that there is none as well
// where it could not read one, because its disk fails or it may open no more files. Such
// a key is an error, neither forgotten nor missing.
func Marked(stream jetstream.Stream) func(context.Context, events.Owner) (uint64, error) {
	return func(ctx context.Context, owner events.Owner) (uint64, error) {
		subject := subjectPrefix + string(owner)
		for range 2 { // what comes between the two questions is found by the third
			last, err := stream.GetLastMsgForSubject(ctx, subject)
			switch {
			case err == nil && last.Header.Get(operationHeader) == "":
				return 0, errFound
			case err == nil:
				return last.Sequence, nil
			case !errors.Is(err, jetstream.ErrMsgNotFound):
				return 0, err
			}
			// How many messages a subject has the server knows without reading one.
			info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
			if err != nil || info.State.Subjects[subject] == 0 {
				return 0, err
			}
		}
		return 0, errors.New("the server does not find an entry that it has")
	}
}

// errFound: another process has made a key since, or it could not be read before.
var errFound = errors.New("there is a key, which was not found before")

// operationHeader is on the marks of a bucket, and on no key.
const operationHeader = "KV-Operation"
