package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
)

const (
	// inFlight bounds the messages of a fill that are not yet acknowledged.
	inFlight = 4096
	// fillPatience is how long a fill waits for room to send the next message, and for
	// the last acknowledgement. A busy machine may stall for some seconds.
	fillPatience = time.Minute
)

// fill makes an owner with n memories. It appends them directly to the running ledger's
// log, because the APIs would take them one after the other. The messages are the same as
// those that the APIs would have written, sealed under the owner's key. fill returns when
// the read models hold them.
func (w *world) fill(ctx context.Context, n int, text func(i int) string) (token string, err error) {
	publicKey, token, err := w.signIn(ctx)
	if err != nil {
		return "", err
	}
	owner, err := events.ParseOwner(publicKey)
	if err != nil {
		return "", err
	}
	nc, err := nats.Connect(w.local.NATSURL)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	key, err := w.ownerKey(ctx, nc, owner)
	if err != nil {
		return "", err
	}
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return "", err
	}
	version := 0
	if err := log.OwnerTail(ctx, events.FamilyLedger, owner, 0, func(r eventlog.Record) error {
		batch, err := events.DecodeBatch(r.Payload)
		if err == nil {
			version = batch[0].OwnerVersion
		}
		return err
	}); err != nil {
		return "", err
	}
	if err := publish(nc, n, func(i int) (string, []byte, error) {
		version++
		return written(owner, key, version, i, text(i))
	}); err != nil {
		return "", fmt.Errorf("fill: %w", err)
	}
	return token, w.awaitSize(ctx, token, n)
}

func (w *world) ownerKey(ctx context.Context, nc *nats.Conn, owner events.Owner) (*keystore.OwnerKey, error) {
	secret, err := datadir.LoadSecret(filepath.Join(w.dir, "ledger"), "master-key", keystore.KeySize)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	bucket, err := js.KeyValue(ctx, keystore.Bucket)
	if err != nil {
		return nil, err
	}
	store, err := keystore.Open(bucket, keystore.Config{Masters: []keystore.MasterKey{keystore.MasterKey(secret)}})
	if err != nil {
		return nil, err
	}
	return store.Find(ctx, owner)
}

// written returns the message that stores a memory as leaf i.
func written(owner events.Owner, key *keystore.OwnerKey, version, i int, text string) (subject string, payload []byte, err error) {
	metadata := fmt.Sprintf(`{"n":%d,"source":"bench"}`, i)
	secret, err := key.LeafSecret(events.SaltOwner, nil)
	if err != nil {
		return "", nil, err
	}
	l, err := leaf.New(secret, leaf.Memory{Content: text, Metadata: canonical.Trusted([]byte(metadata)), Owner: owner})
	if err != nil {
		return "", nil, err
	}
	hash, err := l.Hash()
	if err != nil {
		return "", nil, err
	}
	id := assembly.NewID()
	sealed, err := key.Seal(id, text)
	if err != nil {
		return "", nil, err
	}
	payload, err = events.EncodeBatch([]events.Event{{
		ID: assembly.NewID(), Source: "/bench", Owner: owner, Time: events.At(time.Now()),
		OwnerVersion: version, CommandID: assembly.NewID(),
		Data: &events.MemoryWritten{
			MemoryID: id, LeafIndex: uint64(i), LeafHash: hash, LeafVersion: leaf.Version,
			Metadata: jsontext.Value(metadata), Sealed: sealed, Salt: events.SaltOwner,
		},
	}})
	return events.Subject{Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory}.String(), payload, err
}

// publish sends n messages, many of them before the first acknowledgement, and waits for
// all acknowledgements.
func publish(nc *nats.Conn, n int, message func(i int) (subject string, payload []byte, err error)) error {
	refused := make(chan error, 1)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(inFlight),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	if err != nil {
		return err
	}
	for i := range n {
		subject, payload, err := message(i)
		if err != nil {
			return err
		}
		if _, err := js.PublishAsync(subject, payload, jetstream.WithStallWait(fillPatience)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(fillPatience):
		return fmt.Errorf("messages were not acknowledged within %s", fillPatience)
	}
	select {
	case err := <-refused:
		return err
	default:
		return nil
	}
}

// awaitSize requests the head of the owner's log until it has n leaves. The answer is 503
// while the projection is behind.
func (w *world) awaitSize(ctx context.Context, token string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		body, status, err := w.get(ctx, "/log", token)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK && strings.Contains(body, fmt.Sprintf(`"treeSize":%d,`, n)):
			return nil
		case status == http.StatusOK:
			return fmt.Errorf("the log of a filled owner is %s", body)
		case status != http.StatusServiceUnavailable:
			return fmt.Errorf("/log: status %d: %s", status, body)
		}
	}
}
