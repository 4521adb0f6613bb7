package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

const (
	// proofPrefix begins the name of a proof's folder. The folder is beside the copy if
	// that place is writable. A crash leaves the folder; it can be removed.
	proofPrefix = ".proof-"
	// named is how many missing messages an error names.
	named = 8
)

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
	server, err := localnats.Start(ctx, localnats.Config{Dir: dir, NoSync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	nc, err := server.Connect()
	if err != nil {
		return err
	}
	config, err := natsconf.StreamConfig(n.Stream, 1)
	if err != nil {
		return err
	}
	if err := send(ctx, nc, n, config, path, func(uint64) {}); err != nil {
		return err
	}
	return use(nc)
}

// streamState is the state of a stream as its server reports it. Deleted lists the
// sequences between the first and the last that the server does not have.
type streamState struct {
	Messages uint64   `json:"messages"`
	FirstSeq uint64   `json:"first_seq"`
	LastSeq  uint64   `json:"last_seq"`
	Deleted  []uint64 `json:"deleted"`
}

// readAll reads a restored copy. A log must have every sequence from 1 on. The keystore
// drops overwritten entries, so for the keystore only the number of messages can show a
// loss. This number only grows during a snapshot.
func readAll(ctx context.Context, nc *nats.Conn, part Part, n note, progress func(done, total uint64)) error {
	var before streamState
	if err := json.Unmarshal(n.State, &before); err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	var answer struct {
		State streamState `json:"state"`
	}
	if err := api(ctx, nc, "STREAM.INFO."+n.Stream, map[string]any{"deleted_details": true}, &answer); err != nil {
		return err
	}
	is := answer.State
	if part != Keystore {
		if lost := missing(is, before); len(lost) > 0 {
			return fmt.Errorf("%w: %s can't be read", ErrDamaged, sequences(lost))
		}
	}
	if is.Messages < before.Messages {
		return fmt.Errorf("%w: %d of %d messages can't be read", ErrDamaged, before.Messages-is.Messages, before.Messages)
	}
	deleted := make(map[uint64]bool, len(is.Deleted))
	for _, seq := range is.Deleted {
		deleted[seq] = true
	}
	return readEach(ctx, nc, n.Stream, is, deleted, progress)
}

// missing returns the sequences of a log that a copy lacks.
func missing(is, before streamState) (lost []uint64) {
	upTo := func(from, to uint64) {
		for seq := from; seq <= to && len(lost) <= named; seq++ {
			lost = append(lost, seq)
		}
	}
	if is.LastSeq > 0 {
		upTo(1, is.FirstSeq-1)
	}
	lost = append(lost, is.Deleted...)
	upTo(is.LastSeq+1, before.LastSeq)
	return lost
}

// readEach reads every message that the server reports for a stream.
func readEach(ctx context.Context, nc *nats.Conn, stream string, is streamState, deleted map[uint64]bool, progress func(done, total uint64)) error {
	if is.Messages == 0 {
		return nil
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(2000, 16<<20))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for next, done := is.FirstSeq, uint64(0); next <= is.LastSeq; next++ {
		if deleted[next] {
			continue
		}
		waiting, cancel := context.WithTimeout(ctx, stall)
		msg, err := messages.Next(jetstream.NextContext(waiting))
		cancel()
		if err != nil {
			return errors.Join(fmt.Errorf("%w: %s can't be read", ErrDamaged, sequences([]uint64{next})), err)
		}
		at, err := msg.Metadata()
		if err != nil {
			return err
		}
		if at.Sequence.Stream != next {
			return fmt.Errorf("%w: %s can't be read, the next that can is %d", ErrDamaged, sequences([]uint64{next}), at.Sequence.Stream)
		}
		done++
		progress(done, is.Messages)
	}
	return nil
}

// sequences formats sequences for an error, at most named of them.
func sequences(all []uint64) string {
	var texts []string
	for _, seq := range all[:min(named, len(all))] {
		texts = append(texts, strconv.FormatUint(seq, 10))
	}
	text := "sequence " + strings.Join(texts, ", ")
	if len(all) > named {
		text += " and others"
	}
	return text
}
