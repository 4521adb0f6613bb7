package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats"
)

// bareLog appends messages as large as a memory's to a separate log, with the same
// durability and the same number of writers. The additional cost of our write is
// decoding, hashing, sealing, deciding and HTTP.
func (w *world) bareLog(ctx context.Context) (result, error) {
	dir := filepath.Join(w.dir, fmt.Sprintf("log-%d", time.Now().UnixNano()))
	server, err := localnats.Start(ctx, localnats.Config{Dir: dir, GroupSync: true})
	if err != nil {
		return result{}, err
	}
	defer func() { _ = server.Stop(context.Background()) }()
	nc, err := server.Connect(nats.Name("bench"))
	if err != nil {
		return result{}, err
	}
	stream, err := eventlog.Create(ctx, nc, eventlog.Config{})
	if err != nil {
		return result{}, err
	}
	log := eventlog.WithGroupSync(stream, server.GroupSync(eventlog.StreamName, false))
	payload := make([]byte, 700)
	end := time.Now().Add(w.duration)
	latencies, errs := make([][]time.Duration, w.connections), make([]error, w.connections)
	var commands atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for i := range w.connections {
		group.Go(func() {
			owner := events.OwnerFromBytes([32]byte{1, byte(i)})
			var last uint64
			for time.Now().Before(end) {
				begin := time.Now()
				seq, err := eventlog.AppendAndWait(ctx, log, eventlog.Append{
					Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory,
					CommandID: fmt.Sprint("bench-", commands.Add(1)), Expected: last, Payload: payload,
				})
				if err != nil {
					errs[i] = err
					return
				}
				last = seq
				latencies[i] = append(latencies[i], time.Since(begin))
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return result{}, err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return result{float64(len(all)) / elapsed.Seconds(), all[len(all)/2], all[len(all)*99/100]}, nil
}
