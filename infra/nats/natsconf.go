// Package natsconf holds the configuration of a NATS deployment (the .conf files
// beside it), and creates the streams that the configuration's permissions name.
//
//	single.conf, node.conf   start here: one node, or one of three
//	server.conf              what all nodes share: fsynced acknowledgements
//	accounts.conf            who may do what, and why
//	cluster.conf             how three nodes find each other
//	streams/, consumers/     what Provision creates
//
// The log and the buckets are created by an admin, before any service starts,
// because no service may create or change them.
package natsconf

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const Stream = "LEDGER"

//go:embed streams consumers
var files embed.FS

// ErrFewer says that a stream would keep fewer replicas than it has.
var ErrFewer = errors.New("copies would be thrown away")

// Made describes a stream or a consumer after Provision.
type Made struct{ What, Now string }

// Provision creates the log, the buckets, and the consumers, or updates them to match the
// files, and returns their state afterwards. It needs the admin's credentials. A crash
// leaves some of them; run it again.
//
// replicas is how many servers keep each stream. With 0, existing streams keep their
// replicas, and a new stream gets as many as the log has. If there is no log yet, a new
// stream gets three on a cluster and one elsewhere. If a stream has more than replicas,
// Provision returns ErrFewer and changes nothing.
//
// No stream is compressed. A node that was killed cuts its replica back to its last snapshot
// when it starts, and replays the rest. nats-server 2.15.3 cuts a compressed block as if it
// were not: it destroys the block, and the replica stays away. If all nodes lose power at
// once, acknowledged messages are lost.
//
// Provision never weakens a stream's protection: a stream that denies purges or deletes
// keeps denying them. So a bucket of keys that was made before its file allowed deletes
// can hide a key but can't erase it.
func Provision(ctx context.Context, js jetstream.JetStream, replicas int) ([]Made, error) {
	streams, err := plan(ctx, js, replicas)
	if err != nil {
		return nil, err
	}
	var made []Made
	for _, cfg := range streams {
		stream, err := js.CreateOrUpdateStream(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
		info := stream.CachedInfo()
		made = append(made, Made{"stream " + cfg.Name, fmt.Sprintf("%d replicas, %d messages", info.Config.Replicas, info.State.Msgs)})
	}
	for _, cfg := range read[jetstream.ConsumerConfig]("consumers/*") {
		consumer, err := js.CreateOrUpdateConsumer(ctx, Stream, cfg)
		if err != nil {
			return nil, fmt.Errorf("consumer %s: %w", cfg.Name, err)
		}
		made = append(made, Made{"consumer " + cfg.Name, fmt.Sprintf("of %s, %d messages to bring", Stream, consumer.CachedInfo().NumPending)})
	}
	return made, nil
}

// plan returns the configurations that the streams are to have. It changes no stream.
func plan(ctx context.Context, js jetstream.JetStream, replicas int) ([]jetstream.StreamConfig, error) {
	streams := read[jetstream.StreamConfig]("streams/*")
	have := make(map[string]jetstream.StreamConfig)
	var fewer []error
	for _, cfg := range streams {
		existing, err := js.Stream(ctx, cfg.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
		is := existing.CachedInfo().Config
		if have[cfg.Name] = is; replicas > 0 && replicas < is.Replicas {
			fewer = append(fewer, fmt.Errorf("stream %s has %d replicas and would have %d: %w; to do that all the same: nats stream edit %s --replicas %d",
				cfg.Name, is.Replicas, replicas, ErrFewer, cfg.Name, replicas))
		}
	}
	if len(fewer) > 0 {
		return nil, errors.Join(fewer...)
	}
	fresh := cmp.Or(replicas, have[Stream].Replicas, Replicas(js.Conn()))
	for i := range streams {
		cfg := &streams[i]
		is := have[cfg.Name]
		replicate(cfg, cmp.Or(replicas, is.Replicas, fresh))
		cfg.DenyDelete, cfg.DenyPurge = cfg.DenyDelete || is.DenyDelete, cfg.DenyPurge || is.DenyPurge
		cfg.Metadata = is.Metadata // a restore may have marked a part of a stream
	}
	return streams, nil
}

// replicate sets how many servers keep a stream, and what depends on that. Buckets are read from
// the leader only, whatever the number: a replica that is behind may not have a key, or a
// sign-in, that another service made; and an open bucket does not notice more replicas.
func replicate(cfg *jetstream.StreamConfig, replicas int) {
	cfg.Replicas = replicas
	if replicas > 1 && cfg.Name == Stream {
		// A server with the only replica checks what an append expects before its id, so the
		// file has the shortest window that a server accepts: ids cost memory. The leader of
		// several replicas checks ids first. By the id it tells an append that is still being
		// replicated from one that conflicts, so the window must outlast the retries.
		cfg.Duplicates = 2 * time.Minute
	}
}

// StreamConfig returns the configuration of a stream that so many servers keep; 0 means one.
func StreamConfig(name string, replicas int) jetstream.StreamConfig {
	cfg := read[jetstream.StreamConfig]("streams/" + name)[0]
	replicate(&cfg, max(1, replicas))
	return cfg
}

// Create creates a stream as Provision would.
func Create(ctx context.Context, js jetstream.JetStream, name string, replicas int) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, StreamConfig(name, replicas))
	if err != nil {
		return nil, fmt.Errorf("create stream %s: %w", name, err)
	}
	return stream, nil
}

// CreateBucket creates a bucket as Provision would, and opens it.
func CreateBucket(ctx context.Context, js jetstream.JetStream, bucket string, replicas int) (jetstream.KeyValue, error) {
	if _, err := Create(ctx, js, "KV_"+bucket, replicas); err != nil {
		return nil, err
	}
	return js.KeyValue(ctx, bucket)
}

// Clustered reports whether the server of a connection is one of several.
func Clustered(nc *nats.Conn) bool { return nc.ConnectedClusterName() != "" }

// Replicas returns how many servers keep a new stream by default. On a cluster it is the
// smallest number that loses nothing if one server is lost.
func Replicas(nc *nats.Conn) int {
	if Clustered(nc) {
		return 3
	}
	return 1
}

// read decodes every file whose name, without .json, fits a pattern. It refuses a field that
// the client library does not know and would silently drop. The files are part of the
// program, so a fault in one is a fault of the program.
func read[T any](pattern string) (all []T) {
	names, err := fs.Glob(files, pattern+".json")
	for _, name := range names {
		text, errRead := files.ReadFile(name)
		var one T
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		err = errors.Join(err, errRead, dec.Decode(&one))
		all = append(all, one)
	}
	if err != nil {
		panic(err)
	}
	return all
}
