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
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream is the name of the log.
const Stream = "LEDGER"

//go:embed streams consumers
var files embed.FS

// Provision creates the log, the buckets and the consumers, or
// updates them to what the files say, with that many replicas each. It needs
// the admin's credentials. A crash leaves some of them; run it again.
//
// It never lessens what a stream protects: what denies purges or deletes goes on
// denying them. So a bucket of keys that was made before its file allowed deletes
// can hide a key and not erase it.
func Provision(ctx context.Context, js jetstream.JetStream, replicas int) error {
	streams, err := read[jetstream.StreamConfig]("streams")
	if err != nil {
		return err
	}
	for _, cfg := range streams {
		cfg.Replicas = replicas
		if replicas > 1 && cfg.Name != Stream {
			// Buckets are read from the leader alone: a replica that is behind
			// would not know a key, or a sign-in, that another service made.
			cfg.AllowDirect = false
		}
		existing, err := js.Stream(ctx, cfg.Name)
		if err == nil {
			is := existing.CachedInfo().Config
			cfg.DenyDelete, cfg.DenyPurge = cfg.DenyDelete || is.DenyDelete, cfg.DenyPurge || is.DenyPurge
		} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
		if _, err := js.CreateOrUpdateStream(ctx, cfg); err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	consumers, err := read[jetstream.ConsumerConfig]("consumers")
	if err != nil {
		return err
	}
	for _, cfg := range consumers {
		if _, err := js.CreateOrUpdateConsumer(ctx, Stream, cfg); err != nil {
			return fmt.Errorf("consumer %s: %w", cfg.Name, err)
		}
	}
	return nil
}

// read decodes every file of a folder, refusing a field that the client library
// does not know and would silently drop.
func read[T any](dir string) ([]T, error) {
	names, err := fs.Glob(files, dir+"/*.json")
	if err != nil {
		return nil, err
	}
	var all []T
	var errs []error
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var one T
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&one); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}
