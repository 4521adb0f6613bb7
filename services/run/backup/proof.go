package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// proofPrefix begins the name of a proof's folder. The folder is beside the copy if that place
// is writable. A crash leaves the folder; it can be removed.
const proofPrefix = ".proof-"

// prove restores a copy into a temporary server and reads every message there. The server
// compares each message with its hash, and leaves out messages that do not match. A
// message that is missing then can't be restored at all.
func prove(ctx context.Context, part Part, n note, path string, progress Progress) error {
	return onTrial(ctx, n, path, func(nc *nats.Conn) error {
		return readAll(ctx, nc, part, n, func(done, total uint64) { progress("checking "+string(part), false, done, total) })
	})
}

// Look restores a part's copy into a temporary server, and calls look with a connection to
// it. The copy stays as it is.
func Look(ctx context.Context, part Part, dir string, look func(*nats.Conn) error) error {
	n, err := check(part, dir)
	if err != nil {
		return err
	}
	return onTrial(ctx, n, filepath.Join(dir, dataName), look)
}

// onTrial restores a copy into a temporary server, and calls use with a connection to it.
func onTrial(ctx context.Context, n note, path string, use func(*nats.Conn) error) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(path)), proofPrefix)
	if err != nil { // the backup may be on a read-only disk
		dir, err = os.MkdirTemp("", proofPrefix)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return localnats.With(ctx, localnats.Config{Dir: dir, NoSync: true}, func(nc *nats.Conn) error {
		if err := send(ctx, nc, n, natsconf.StreamConfig(n.Stream, 1), path, func(uint64) {}); err != nil {
			return err
		}
		return use(nc)
	})
}

// readAll reads every message of a restored copy. A log must have every sequence from 1 on.
// The keystore drops overwritten entries, so for the keystore only the number of messages can
// show a loss. This number only grows during a snapshot.
func readAll(ctx context.Context, nc *nats.Conn, part Part, n note, progress func(done, total uint64)) error {
	var before jetstream.StreamState
	if err := json.Unmarshal(n.State, &before); err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, n.Stream)
	if err != nil {
		return err
	}
	all := stream.CachedInfo().State.Msgs
	if part == Keystore && all < before.Msgs {
		return fmt.Errorf("%w: %d of %d messages can't be read", ErrDamaged, before.Msgs-all, before.Msgs)
	}
	consumer, err := js.OrderedConsumer(ctx, n.Stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(16 << 20))
	if err != nil {
		return err
	}
	defer messages.Stop()
	unreadable := func(seq uint64) error { return fmt.Errorf("%w: sequence %d can't be read", ErrDamaged, seq) }
	for done := uint64(0); done < all; {
		waiting, cancel := context.WithTimeout(ctx, stall)
		msg, err := messages.Next(jetstream.NextContext(waiting))
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %d of %d messages can't be read: %w", ErrDamaged, all-done, all, err)
		}
		at, err := msg.Metadata()
		if err != nil {
			return err
		}
		done++
		if part != Keystore && at.Sequence.Stream != done {
			return unreadable(done)
		}
		progress(done, all)
	}
	if part != Keystore && all < before.LastSeq {
		return unreadable(all + 1)
	}
	return nil
}
