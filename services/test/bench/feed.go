package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// arrival is when a follower got a memory. The first one of a follower, without an id,
// says that its stream is open.
type arrival struct {
	id  string
	at  time.Time
	err error
}

// feeds measures how long after its acknowledgement a memory reaches the two followers of
// its owner, beside the goal of half a second.
func (w *world) feeds(ctx context.Context) error {
	const owners, each = 100, 2
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrivals := make(chan arrival, 1<<20) // a round's
	for range each {
		for i := range owners {
			go w.follow(ctx, w.writers[i], arrivals)
		}
	}
	await := func(n int) ([]arrival, error) {
		late := time.After(10 * time.Second) // an event that has not arrived by then is lost
		all := make([]arrival, n)
		for i := range all {
			select {
			case all[i] = <-arrivals:
			case <-late:
				return nil, fmt.Errorf("%d of %d events arrived", i, n)
			}
			if all[i].err != nil {
				return nil, all[i].err
			}
		}
		return all, nil
	}
	if _, err := await(owners * each); err != nil {
		return err
	}
	got, err := compare(ctx, w.rounds, func(ctx context.Context) (result, error) {
		start := time.Now()
		acknowledged, err := w.writeFollowed(ctx, w.writers[:owners])
		if err != nil {
			return result{}, err
		}
		came, err := await(each * len(acknowledged))
		if err != nil {
			return result{}, err
		}
		behind := make([]time.Duration, len(came))
		for i, one := range came {
			behind[i] = max(0, one.at.Sub(acknowledged[one.id]))
		}
		return newResult(behind, time.Since(start)), nil
	})
	if err != nil {
		return err
	}
	goal := 500 * time.Millisecond
	add(fmt.Sprintf("%d followers of %d owners, %d writers: p99 behind the acknowledgement, of half a second", owners*each, owners, w.connections),
		short(got[0].p99), goal, float64(got[0].p99)/float64(goal))
	return nil
}

// follow follows an owner from the beginning, which is a sign-in.
func (w *world) follow(ctx context.Context, owner writer, arrivals chan<- arrival) {
	for e, err := range w.client(owner).Follow(ctx, "0") {
		if id, _ := e.Data["memoryId"].(string); id != "" || e.Type == "SessionIssued" || err != nil {
			arrivals <- arrival{id, time.Now(), err}
		}
	}
}

// writeFollowed writes for a round, and returns when each memory was acknowledged.
func (w *world) writeFollowed(ctx context.Context, writers []writer) (map[string]time.Time, error) {
	acknowledged := make(map[string]time.Time)
	var mu sync.Mutex
	_, err := w.drive(ctx, w.connections, fasthttp.StatusCreated, w.writeOurs(writers), func(_ int, r *fasthttp.Response) error {
		at := time.Now()
		var answer struct{ ID string }
		err := json.Unmarshal(r.Body(), &answer)
		mu.Lock()
		defer mu.Unlock()
		acknowledged[answer.ID] = at
		return err
	})
	return acknowledged, err
}
