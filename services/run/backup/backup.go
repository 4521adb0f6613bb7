// Package backup copies what can't be made again, and puts it back: the log, the
// keystore, and a local run's secrets and chain, each in a folder of its own so that
// they can be kept apart. The read models are not in it; the log gives them again.
//
//	DIR/log/       stream.s2, stream.json              every fact; contents sealed
//	DIR/keystore/  stream.s2, stream.json              data keys, wrapped by the master key
//	DIR/secrets/   one file each                       the master key among them
//	DIR/chain/     state, transactions, chain.json     what the local chain has saved
//
// Log, keystore and secrets together let their holder read everything. Without the
// master key, log and keystore open nothing. A backup of the keystore still has the
// keys of owners who are forgotten later: to forget them for good, delete old backups
// of it, too.
//
// Streams are copied by JetStream's own snapshots, while everything runs. A snapshot
// is the server's files as they are, damaged ones too, so each copy is proven: it is
// restored into a server of its own, which is thrown away, and read to its end. The
// log is copied before the others: a data key is stored before its owner's first
// event, and a commit is on the chain before the log calls it confirmed, so the
// copies hold the key of every event and every anchor that the log speaks of. What
// the chain holds beyond the copied log, the anchorer finds there.
package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Errors of backups.
var (
	// ErrNotEmpty: there is something where the copy should go.
	ErrNotEmpty = errors.New("not empty")
	// ErrIncomplete: the copy was never finished, or was damaged since.
	ErrIncomplete = errors.New("backup is incomplete or damaged")
	// ErrDamaged: the copy is what the log's server gave, and lacks messages that the
	// server has: it can't read them.
	ErrDamaged = errors.New("the copied stream is damaged")
	// ErrNone: a folder holds no part of a backup.
	ErrNone = errors.New("there is no backup")
)

// Part is what is copied apart from the rest.
type Part string

// The parts, in the order in which they are copied.
const (
	Log      Part = "log"
	Keystore Part = "keystore"
	Secrets  Part = "secrets"
	Chain    Part = "chain"
)

// Parts are all of them.
var Parts = []Part{Log, Keystore, Secrets, Chain}

// streams names the stream of a part.
var streams = map[Part]string{Log: eventlog.StreamName, Keystore: keystore.Stream}

const (
	dataName = "stream.s2"
	noteName = "stream.json"

	apiTimeout = 30 * time.Second
	// stall is how long one piece may take.
	stall     = 30 * time.Second
	pieceSize = 256 << 10
	// heard is how long a restoring server is looked for, which is as long as it
	// waits for a piece itself; lookAgain is how often.
	heard     = 5 * time.Second
	lookAgain = 20 * time.Millisecond
)

// note is what a copy says of itself; it is written last, so a copy without one
// was never finished.
type note struct {
	Stream string          `json:"stream"`
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	Bytes  int64           `json:"bytes"`
	SHA256 string          `json:"sha256"`
	Taken  time.Time       `json:"taken"`
}

// Done says what was copied.
type Done struct {
	Part     Part
	Messages uint64
	Bytes    int64
	// Replicas and Consumers are those of a stream that was put back: how many
	// servers keep it, and the consumers that were there before and are again.
	Replicas  int
	Consumers []string
}

// Progress is told how far a step is, in messages or in bytes. total is 0 if it is
// unknown.
type Progress func(step string, bytes bool, done, total uint64)

// Stream copies one stream into dir, which must be new or empty, and proves the copy.
// A failure leaves nothing, a crash a folder without stream.json, which Restore
// refuses, and the folder of the proof beside it. It needs an administrator's rights
// on a cluster with permissions.
func Stream(ctx context.Context, nc *nats.Conn, part Part, dir string, progress Progress) (Done, error) {
	done := Done{Part: part}
	if err := newFolder(dir); err != nil {
		return done, fmt.Errorf("back up %s: %w", part, err)
	}
	if err := copyStream(ctx, nc, &done, dir, progress); err != nil {
		return done, errors.Join(fmt.Errorf("back up %s: %w", part, err), Remove(dir))
	}
	return done, nil
}

// Remove takes a part of a backup away again, and nothing else that may be in
// its folder.
func Remove(dir string) error {
	var errs []error
	for _, name := range append([]string{noteName, dataName, chainNoteName}, chainFiles...) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		_ = os.Remove(dir) // unless it is not empty
	}
	return errors.Join(errs...)
}

func copyStream(ctx context.Context, nc *nats.Conn, done *Done, dir string, progress Progress) error {
	path := filepath.Join(dir, dataName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := snapshot(ctx, nc, streams[done.Part], io.MultiWriter(file, hash), func(bytes uint64) {
		progress("copying "+string(done.Part), true, bytes, 0)
	})
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	n.SHA256, n.Taken = hex.EncodeToString(hash.Sum(nil)), time.Now().UTC()
	if err := prove(ctx, done.Part, n, path, progress); err != nil {
		return err
	}
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	if err := datadir.WriteFile(filepath.Join(dir, noteName), append(text, '\n'), 0o600); err != nil {
		return err
	}
	done.Bytes, done.Messages = n.Bytes, n.messages()
	return nil
}

func (n *note) messages() uint64 {
	var state struct {
		Messages uint64 `json:"messages"`
	}
	_ = json.Unmarshal(n.State, &state) // only a number for people
	return state.Messages
}

func newFolder(dir string) error {
	if err := datadir.MakeFolder(dir); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	return err
}

// snapshot receives a stream's snapshot. The server sends pieces, a window's
// worth before it waits for their receipts, and ends with an empty message.
//
// The server is not asked to check messages first (jsck): it checks no hashes then,
// and cuts off files that it takes for damaged.
func snapshot(ctx context.Context, nc *nats.Conn, stream string, to io.Writer, progress func(bytes uint64)) (note, error) {
	n := note{Stream: stream}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return n, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sub.SetPendingLimits(-1, -1); err != nil { // the window bounds it
		return n, err
	}
	var answer struct {
		Config json.RawMessage     `json:"config"`
		State  json.RawMessage     `json:"state"`
		Error  *jetstream.APIError `json:"error"`
	}
	request := map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": pieceSize}
	if err := api(ctx, nc, "STREAM.SNAPSHOT."+stream, request, &answer); err != nil {
		return n, err
	}
	if answer.Error != nil {
		return n, answer.Error
	}
	n.Config, n.State = answer.Config, answer.State
	for {
		waiting, cancel := context.WithTimeout(ctx, stall)
		msg, err := sub.NextMsgWithContext(waiting)
		cancel()
		if err != nil {
			return n, fmt.Errorf("snapshot of %s broke off: %w", stream, err)
		}
		if len(msg.Data) == 0 {
			if status := msg.Header.Get("Status"); status != "" && status != "204" {
				return n, fmt.Errorf("snapshot of %s: %s %s", stream, status, msg.Header.Get("Description"))
			}
			return n, nil
		}
		if _, err := to.Write(msg.Data); err != nil {
			return n, err
		}
		n.Bytes += int64(len(msg.Data))
		progress(uint64(n.Bytes))
		if msg.Reply != "" {
			if err := msg.Respond(nil); err != nil {
				return n, err
			}
		}
	}
}

// Restore puts a stream back from dir. The stream must not be there yet, or hold
// nothing; one that was made for this keeps its replicas, and gets the durable
// consumers again that it had. replicas is for one that was not.
//
// A crash leaves no stream, for the server makes it when all has arrived, or one
// without its consumers: `ledger provision` makes them.
func Restore(ctx context.Context, nc *nats.Conn, part Part, dir string, replicas int, progress Progress) (Done, error) {
	done := Done{Part: part}
	n, err := check(part, dir)
	if err == nil {
		err = restore(ctx, nc, n, filepath.Join(dir, dataName), replicas, &done, func(bytes uint64) {
			progress("restoring "+string(part), true, bytes, uint64(n.Bytes))
		})
	}
	if err != nil {
		return done, fmt.Errorf("restore %s: %w", part, err)
	}
	done.Bytes, done.Messages = n.Bytes, n.messages()
	return done, nil
}

func restore(ctx context.Context, nc *nats.Conn, n note, path string, replicas int, done *Done, progress func(bytes uint64)) error {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		return err
	}
	before, err := makeRoom(ctx, js, n.Stream)
	if err != nil {
		return err
	}
	done.Replicas = cmp.Or(before.replicas, replicas)
	if n.Config, err = keptBy(n.Stream, n.Config, done.Replicas); err != nil {
		return err
	}
	if err := send(ctx, nc, n, path, progress); err != nil {
		return err
	}
	for _, cfg := range before.consumers {
		if _, err := js.CreateConsumer(ctx, n.Stream, cfg); err != nil {
			return fmt.Errorf("consumer %s, which `ledger provision` makes: %w", cfg.Durable, err)
		}
		done.Consumers = append(done.Consumers, cfg.Durable)
	}
	return nil
}

// keptBy is a stream's configuration with that many replicas. Everything else
// stays as it was copied, fields that this build does not know included; but
// that a bucket with replicas is read from the leader alone, as Provision has it.
func keptBy(stream string, config json.RawMessage, replicas int) (json.RawMessage, error) {
	changes := map[string]any{"num_replicas": replicas}
	if replicas > 1 && stream != eventlog.StreamName {
		changes["allow_direct"] = false
	}
	return changed(config, changes)
}

func changed(config json.RawMessage, changes map[string]any) (json.RawMessage, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	maps.Copy(fields, changes)
	return json.Marshal(fields)
}

// Check reads the copy of a part, every byte of it, and proves that it can be
// restored. To restore several parts, check all of them before restoring the first.
func Check(ctx context.Context, part Part, dir string, progress Progress) (err error) {
	if part == Chain {
		_, err = checkChain(dir)
	} else {
		var n note
		if n, err = check(part, dir); err == nil {
			err = prove(ctx, part, n, filepath.Join(dir, dataName), progress)
		}
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", part, err)
	}
	return nil
}

func check(part Part, dir string) (note, error) {
	n, err := readStream(dir)
	if err == nil && n.Stream != streams[part] {
		err = fmt.Errorf("%w: %s holds stream %s", ErrIncomplete, dir, n.Stream)
	}
	return n, err
}

// readStream checks the copy of a stream, every byte of it.
func readStream(dir string) (note, error) {
	var n note
	if err := readNote(dir, noteName, &n); err != nil {
		return n, err
	}
	is, err := noteOf(filepath.Join(dir, dataName))
	if err == nil && is != (fileNote{n.Bytes, n.SHA256}) {
		err = fmt.Errorf("%w: %s is not what was written", ErrIncomplete, filepath.Join(dir, dataName))
	}
	return n, err
}

func readNote(dir, name string, into any) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s has no %s", ErrIncomplete, dir, name)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return nil
}

// emptied is what was known of a stream that made room.
type emptied struct {
	replicas  int // 0 where there was none
	consumers []jetstream.ConsumerConfig
}

// makeRoom removes a stream that holds nothing and never did.
func makeRoom(ctx context.Context, js jetstream.JetStream, name string) (was emptied, err error) {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return was, nil
	}
	if err != nil {
		return was, err
	}
	if state := stream.CachedInfo().State; state.LastSeq > 0 {
		return was, fmt.Errorf("stream %s has %d messages: %w", name, state.Msgs, ErrNotEmpty)
	}
	was.replicas = stream.CachedInfo().Config.Replicas
	all := stream.ListConsumers(ctx)
	for info := range all.Info() {
		if info.Config.Durable != "" {
			was.consumers = append(was.consumers, info.Config)
		}
	}
	if err := all.Err(); err != nil {
		return was, err
	}
	return was, js.DeleteStream(ctx, name)
}

func send(ctx context.Context, nc *nats.Conn, n note, path string, progress func(bytes uint64)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var answer struct {
		DeliverSubject string              `json:"deliver_subject"`
		Error          *jetstream.APIError `json:"error"`
	}
	if err := api(ctx, nc, "STREAM.RESTORE."+n.Stream, map[string]any{"config": n.Config, "state": n.State}, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	sent := uint64(0)
	for piece := make([]byte, pieceSize); ; {
		size, err := io.ReadFull(file, piece)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return err
		}
		// Every piece is answered; the empty one at the end by how it went.
		reply, requestErr := hand(ctx, nc, answer.DeliverSubject, bytes.Clone(piece[:size]))
		if requestErr != nil {
			return fmt.Errorf("stream %s: %w", n.Stream, requestErr)
		}
		if len(reply.Data) > 0 {
			var result struct {
				Error *jetstream.APIError `json:"error"`
			}
			if err := json.Unmarshal(reply.Data, &result); err != nil {
				return err
			}
			if result.Error != nil {
				return result.Error
			}
		}
		if size == 0 {
			return nil
		}
		sent += uint64(size)
		progress(sent)
	}
}

// hand sends one piece to the server that restores. In a cluster, that server's answer,
// which names the subject, and its subscription to the subject travel by different
// routes. The answer sometimes arrives first. A piece that found no responder is sent
// again. It reached no server, so no piece is written twice.
func hand(ctx context.Context, nc *nats.Conn, subject string, piece []byte) (*nats.Msg, error) {
	for until := time.Now().Add(heard); ; {
		reply, err := requestWithin(ctx, nc, subject, piece)
		if !errors.Is(err, nats.ErrNoResponders) || time.Now().After(until) {
			return reply, err
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func api(ctx context.Context, nc *nats.Conn, what string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	reply, err := requestWithin(ctx, nc, "$JS.API."+what, body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return json.Unmarshal(reply.Data, answer)
}

func requestWithin(ctx context.Context, nc *nats.Conn, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	return nc.RequestWithContext(ctx, subject, body)
}
