package keystore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// Forget destroys an owner's data key, and reports whether there was one. Nothing sealed with
// it can be opened again, no matter which other keys a reader has. There are two exceptions:
// an earlier backup of the bucket still has the key, and a running process may keep it in
// memory until its [Store.Watch] sees the mark.
//
// Forget needs the right to delete messages of the bucket's stream, which only an
// administrator has on a cluster with permissions. It needs no master key. After a crash
// the key may or may not be destroyed; run it again.
//
// had says that the owner once had a key, as every registered owner: then Forget leaves a
// mark even if there is no key.
func Forget(ctx context.Context, js jetstream.JetStream, owner events.Owner, had bool) (existed bool, err error) {
	existed, err = forget(ctx, js, owner, AnyKey, had)
	if err != nil {
		err = fmt.Errorf("forget %s: %w", owner, err)
	}
	return existed, err
}

// forget destroys the key if it was made before that many erasures, and spares a later one.
// If the owner had a key, forget leaves a mark although it finds none: an earlier attempt
// may have ended before its mark, and without a mark other processes go on sealing with
// the destroyed key.
func forget(ctx context.Context, js jetstream.JetStream, owner events.Owner, before int, had bool) (existed bool, err error) {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return existed, fmt.Errorf("open the keystore: %w: %w", ErrUnavailable, err)
	}
	bucket, err := js.KeyValue(ctx, Bucket)
	if err != nil {
		return existed, fmt.Errorf("open the keystore: %w: %w", ErrUnavailable, err)
	}
	refused := uint64(0)
	for range maxTries {
		stored, err := bucket.Get(ctx, string(owner))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			mark, err := marked(ctx, stream, owner)
			if err == nil && mark == 0 && (had || existed) {
				err = putMark(ctx, js, owner)
			}
			if eventlog.IsWrongSequence(err) || errors.Is(err, errFound) {
				continue // another process made a key, or the mark
			}
			if err != nil {
				return existed, fmt.Errorf("mark: %w: %w", ErrUnavailable, err)
			}
			return existed, nil
		}
		if err != nil {
			return existed, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if before < AnyKey {
			if e, err := parse(owner, stored.Value()); err != nil || e.Erasures >= before {
				return existed, err
			}
		}
		existed = true
		// Erase before the mark is published: a service that reads the mark may rely on it.
		// Older revisions are erased first. Otherwise one of them would be the entry again.
		if err := eraseOlder(ctx, stream, owner); err != nil {
			return existed, err
		}
		if err := stream.SecureDeleteMsg(ctx, stored.Revision()); err != nil {
			if refused == stored.Revision() {
				return existed, fmt.Errorf("erase: %w: %w", ErrUnavailable, err)
			}
			refused = stored.Revision() // a rewrap may have replaced the entry meanwhile
		}
	}
	return existed, fmt.Errorf("%w: there was another key %d times", ErrUnavailable, maxTries)
}

// putMark publishes the mark that tells later readers that there was a key. It fails, as
// eventlog.IsWrongSequence reports, if the owner has an entry. A server that syncs before it
// acknowledges has then also synced the erasure before it.
//
// A crash before putMark leaves an owner with neither a key nor a mark; the next forget
// makes the mark.
func putMark(ctx context.Context, js jetstream.JetStream, owner events.Owner) error {
	mark := nats.NewMsg(subjectPrefix + string(owner))
	mark.Header.Set(operationHeader, "DEL")
	_, err := js.PublishMsg(ctx, mark, jetstream.WithExpectLastSequencePerSubject(0))
	return err
}

// AnyKey makes Destroy destroy the key no matter when it was made.
const AnyKey = math.MaxInt

// Destroy is Forget for a service. It destroys the key if it was made before that many
// erasures, drops it from this process at once, and returns when the change is on stable
// storage.
func (s *Store) Destroy(ctx context.Context, js jetstream.JetStream, owner events.Owner, before int) error {
	_, err := forget(ctx, js, owner, before, true)
	if err = s.drop(ctx, owner, err); err != nil {
		return fmt.Errorf("forget %s: %w", owner, err)
	}
	return nil
}

func (s *Store) marked(ctx context.Context, owner events.Owner) (uint64, error) {
	if s.cfg.Stream == nil {
		return 0, nil
	}
	return marked(ctx, s.cfg.Stream, owner)
}

// marked returns the revision of the mark that Forget leaves in place of an owner's key, or 0
// if there is none. The caller has found no key, but that may be wrong: a server also answers
// "not found" if it could not read the message, because its disk fails or it has no file
// descriptors left. An unreadable key is an error, neither forgotten nor missing.
func marked(ctx context.Context, stream jetstream.Stream, owner events.Owner) (uint64, error) {
	subject := subjectPrefix + string(owner)
	for range 2 { // a message that arrives between the two requests is found by the third
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case err == nil && last.Header.Get(operationHeader) == "":
			return 0, errFound
		case err == nil:
			return last.Sequence, nil
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, err
		}
		// The server counts the messages of a subject without reading any.
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
		if err != nil || info.State.Subjects[subject] == 0 {
			return 0, err
		}
	}
	return 0, errors.New("the server does not find an entry that it has")
}

// errFound: another process has made a key since, or the first read missed it.
var errFound = errors.New("there is a key, which was not found before")

// operationHeader is on the marks of a bucket, and on no key.
const operationHeader = "KV-Operation"
