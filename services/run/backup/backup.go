// Package backup copies the data that can't be made again, and restores it: the log, the
// keystore, the admin log, and a local run's secrets and chain. Each part has its own folder, so that
// the parts can be kept apart. The read models are not copied; they can be rebuilt from
// the log.
//
//	DIR/log/       stream.s2, stream.json              every fact; contents sealed
//	DIR/keystore/  stream.s2, stream.json              data keys, wrapped by the master key
//	DIR/secrets/   one file each                       the master key among them
//	DIR/chain/     state, transactions, chain.json     what the local chain has saved
//	DIR/admin/     stream.s2, stream.json              what operators did
//
// Anyone with the log, the keystore and the secrets can read everything. Without the
// master key, the contents in the log and the keys in the keystore stay sealed. A backup
// of the keystore still has the keys of owners who are forgotten later: to forget these
// owners for good, delete old backups of the keystore too.
//
// Streams are copied by JetStream's own snapshots, while everything runs. A snapshot
// contains the server's files as they are, damaged files too. So each copy is proven: it
// is restored into a temporary server and read to its end.
//
// The log is copied before the other parts. A data key is stored before its owner's first
// event, and a commit is on the chain before the log calls it confirmed. So the copies
// hold the key of every event, and every anchor that the log mentions. The copied chain
// may hold commits that the copied log lacks; the anchorer finds them on the chain.
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
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/datadir"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/adminlog"
)

var (
	// ErrNotEmpty: the target of the copy already holds data.
	ErrNotEmpty = errors.New("not empty")
	// ErrIncomplete: the copy was never finished, or was damaged later.
	ErrIncomplete = errors.New("backup is incomplete or damaged")
	// ErrDamaged: the copy lacks messages of the stream, because the log's server can't
	// read them.
	ErrDamaged = errors.New("the copied stream is damaged")
	// ErrNone: a folder holds no part of a backup, or not the wanted one.
	ErrNone = errors.New("there is no backup")
)

// Part names a part that is copied separately.
type Part string

// The parts, in the order in which they are copied.
const (
	Log      Part = "log"
	Keystore Part = "keystore"
	Secrets  Part = "secrets"
	Chain    Part = "chain"
	Admin    Part = "admin"
)

// Parts lists all parts, in the order in which they are copied: the chain after the log, so
// that it holds everything that the copied log calls confirmed.
var Parts = []Part{Log, Keystore, Secrets, Chain, Admin}

var streams = map[Part]string{Log: eventlog.StreamName, Keystore: keystore.Stream, Admin: adminlog.Stream}

const (
	dataName = "stream.s2"
	noteName = "stream.json"

	// stall bounds the wait for one piece or one reply.
	stall     = 30 * time.Second
	pieceSize = 256 << 10
)

// note describes a copy. It is written last, so a copy without a note was never finished.
type note struct {
	Stream string          `json:"stream"`
	State  json.RawMessage `json:"state"`
	Bytes  int64           `json:"bytes"`
	SHA256 string          `json:"sha256"`
	Taken  time.Time       `json:"taken"`
}

// Done describes a part that was copied or restored.
type Done struct {
	Part     Part
	Messages uint64
	Bytes    int64
}

// Progress is called with the progress of a step, in messages or in bytes. total is 0 if
// it is unknown.
type Progress func(step string, bytes bool, done, total uint64)

// Copy copies one part into dir, and proves the copy of a stream. from is the folder of the
// secrets or of the chain, which may be running. On a cluster with permissions, a stream
// needs an administrator's credentials.
//
// The dir of a stream or of the chain must be new or empty. A failure leaves nothing. A crash
// leaves a folder without its note, which Restore refuses, and the folder of a proof beside
// it. Secrets may be copied again: see copySecrets.
func Copy(ctx context.Context, nc *nats.Conn, part Part, from, dir string, progress Progress) (Done, error) {
	done := Done{Part: part}
	err := copyPart(ctx, nc, &done, from, dir, progress)
	if err != nil {
		err = fmt.Errorf("back up %s: %w", part, err)
	}
	return done, err
}

func copyPart(ctx context.Context, nc *nats.Conn, done *Done, from, dir string, progress Progress) (err error) {
	if done.Part == Secrets {
		return saveSecrets(done, from, dir)
	}
	if err := newFolder(dir); err != nil {
		return err
	}
	if done.Part == Chain {
		err = copyChain(done, from, dir)
	} else {
		err = copyStream(ctx, nc, done, dir, progress)
	}
	if err != nil {
		err = errors.Join(err, Remove(dir))
	}
	return err
}

// Remove deletes the files of one part of a backup, and no other files in its folder. It
// also deletes the folder if that is empty then.
func Remove(dir string) error {
	var errs []error
	for _, name := range append([]string{noteName, dataName, chainNoteName}, chainFiles...) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		_ = os.Remove(dir) // fails if it is not empty
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
	done.Bytes, done.Messages = n.Bytes, n.messages()
	return writeNote(dir, noteName, n)
}

func (n *note) messages() uint64 {
	var state jetstream.StreamState
	_ = json.Unmarshal(n.State, &state) // only a number for people
	return state.Msgs
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

// snapshot receives a stream's snapshot. The server sends one window of pieces, then
// waits for their acknowledgments. An empty message ends the snapshot.
//
// The request does not let the server check messages first (jsck): that check compares no
// hashes, and truncates files that it takes for damaged.
func snapshot(ctx context.Context, nc *nats.Conn, stream string, to io.Writer, progress func(bytes uint64)) (note, error) {
	n := note{Stream: stream}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return n, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := sub.SetPendingLimits(-1, -1); err != nil { // the server's window bounds it
		return n, err
	}
	var answer struct {
		State json.RawMessage `json:"state"`
	}
	request := map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": pieceSize}
	if err := api(ctx, nc, "STREAM.SNAPSHOT."+stream, request, &answer); err != nil {
		return n, err
	}
	n.State = answer.State
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

// Restore restores one part from dir: a stream, or secrets or a chain into the folder to.
// replicas is for a stream that does not exist.
func Restore(ctx context.Context, nc *nats.Conn, part Part, dir, to string, replicas int, progress Progress) (Done, error) {
	done := Done{Part: part}
	var err error
	switch part {
	case Secrets:
		err = copySecrets(&done, dir, to)
	case Chain:
		err = putChain(&done, dir, to)
	default:
		err = restoreStream(ctx, nc, &done, dir, replicas, progress)
	}
	if err != nil {
		err = fmt.Errorf("restore %s: %w", part, err)
	}
	return done, err
}

// restoreStream restores a stream that does not exist, or that never held a message: then it
// is replaced, without its consumers, and keeps its number of replicas.
//
// The server stores the messages as they arrive, and keeps and serves them even if the rest
// never comes. So a crash leaves a part of the stream, with a mark: no service uses it, and
// the next restore replaces it.
func restoreStream(ctx context.Context, nc *nats.Conn, done *Done, dir string, replicas int, progress Progress) error {
	n, err := check(done.Part, dir)
	if err != nil {
		return err
	}
	done.Bytes, done.Messages = n.Bytes, n.messages()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(stall))
	if err != nil {
		return err
	}
	before, err := makeRoom(ctx, js, n.Stream)
	if err != nil {
		return err
	}
	// A backup holds no configuration: a changed backup could then allow events to be deleted.
	config := natsconf.StreamConfig(n.Stream, cmp.Or(before, replicas))
	marked := config
	marked.Metadata = map[string]string{eventlog.Restoring: "true"}
	err = send(ctx, nc, n, marked, filepath.Join(dir, dataName), func(bytes uint64) {
		progress("restoring "+string(done.Part), true, bytes, uint64(n.Bytes))
	})
	if err == nil {
		_, err = js.UpdateStream(ctx, config)
	}
	return err
}

// PutBack puts back the data keys that a keystore in use has lost, and damaged ones: see
// [keystore.Store.PutBack]. A crash leaves some of them; run it again.
func PutBack(ctx context.Context, dir string, keys *keystore.Store) (Done, error) {
	done := Done{Part: Keystore}
	err := Look(ctx, Keystore, dir, func(copied *nats.Conn) error {
		from, err := jetstream.New(copied)
		if err != nil {
			return err
		}
		bucket, err := from.KeyValue(ctx, keystore.Bucket)
		if err != nil {
			return err
		}
		return keystore.Each(ctx, bucket, func(owner events.Owner) error {
			entry, err := bucket.Get(ctx, string(owner))
			if errors.Is(err, jetstream.ErrKeyNotFound) { // destroyed, but an older revision is left
				return nil
			}
			if err != nil {
				return err
			}
			put, err := keys.PutBack(ctx, entry)
			if put {
				done.Messages++
				done.Bytes += int64(len(entry.Value()))
			}
			return err
		})
	})
	if err != nil {
		return done, fmt.Errorf("put back data keys: %w", err)
	}
	return done, nil
}

// Check reads every byte of a part's copy, and proves that the part can be restored. To
// restore several parts, check all of them before restoring the first.
func Check(ctx context.Context, part Part, dir string, progress Progress) (err error) {
	switch part {
	case Chain:
		_, err = checkChain(dir)
	case Secrets:
		err = checkSecrets(dir)
	default:
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

// check checks every byte of a stream's copy.
func check(part Part, dir string) (note, error) {
	var n note
	if err := readNote(dir, noteName, &n); err != nil {
		return n, err
	}
	if n.Stream != streams[part] {
		return n, fmt.Errorf("%w: %s holds stream %s", ErrIncomplete, dir, n.Stream)
	}
	return n, checkFiles(dir, map[string]fileNote{dataName: {n.Bytes, n.SHA256}})
}

// fileNote is what a backup notes of a file.
type fileNote struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func noteOf(path string) (fileNote, error) {
	file, err := os.Open(path)
	if err != nil {
		return fileNote{}, err
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	return fileNote{size, hex.EncodeToString(hash.Sum(nil))}, err
}

// count counts the files of a part.
func (d *Done) count(files map[string]fileNote) {
	for _, file := range files {
		d.Messages++
		d.Bytes += file.Bytes
	}
}

// noteFiles writes a note of a folder's files.
func noteFiles(dir, note string, names []string) (map[string]fileNote, error) {
	noted := map[string]fileNote{}
	for _, name := range names {
		var err error
		if noted[name], err = noteOf(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return noted, writeNote(dir, note, noted)
}

// checkFiles compares files of a backup with what was noted of them.
func checkFiles(dir string, noted map[string]fileNote) error {
	for name, want := range noted {
		path := filepath.Join(dir, name)
		is, err := noteOf(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err != nil || is != want {
			return fmt.Errorf("%w: %s is not what was written", ErrIncomplete, path)
		}
	}
	return nil
}

// writeNote notes what a folder of a backup holds. It is written last.
func writeNote(dir, name string, note any) error {
	text, err := json.MarshalIndent(note, "", "  ")
	if err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o600)
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

// makeRoom removes a stream that never held a message, or was restored only in part, and
// returns how many replicas it had: 0 if there was no stream.
func makeRoom(ctx context.Context, js jetstream.JetStream, name string) (replicas int, err error) {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	is := stream.CachedInfo()
	if is.State.LastSeq > 0 && is.Config.Metadata[eventlog.Restoring] == "" {
		return 0, fmt.Errorf("stream %s has %d messages: %w", name, is.State.Msgs, ErrNotEmpty)
	}
	return is.Config.Replicas, js.DeleteStream(ctx, name)
}

func send(ctx context.Context, nc *nats.Conn, n note, config jetstream.StreamConfig, path string, progress func(bytes uint64)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var answer struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	if err := api(ctx, nc, "STREAM.RESTORE."+n.Stream, map[string]any{"config": config, "state": n.State}, &answer); err != nil {
		return err
	}
	sent := uint64(0)
	for piece := make([]byte, pieceSize); ; {
		size, err := io.ReadFull(file, piece)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return err
		}
		// The server answers every piece. Its answer to the empty piece at the end says
		// whether the restore succeeded.
		reply, requestErr := hand(ctx, nc, answer.DeliverSubject, bytes.Clone(piece[:size]))
		if requestErr != nil {
			return fmt.Errorf("stream %s: %w", n.Stream, requestErr)
		}
		if len(reply.Data) > 0 {
			if err := decode(reply.Data, &struct{}{}); err != nil {
				return err
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
	// The restoring server itself waits that long for a piece.
	for until := time.Now().Add(5 * time.Second); ; {
		reply, err := requestWithin(ctx, nc, subject, piece)
		if !errors.Is(err, nats.ErrNoResponders) || time.Now().After(until) {
			return reply, err
		}
		if !eventlog.Pause(ctx, 20*time.Millisecond) {
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
	return decode(reply.Data, answer)
}

// decode reads an answer of the server. If the server refused, the error is a
// *jetstream.APIError.
func decode(data []byte, answer any) error {
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(data, &refused); err != nil {
		return err
	}
	if refused.Error != nil {
		return refused.Error
	}
	return json.Unmarshal(data, answer)
}

func requestWithin(ctx context.Context, nc *nats.Conn, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	return nc.RequestWithContext(ctx, subject, body)
}
