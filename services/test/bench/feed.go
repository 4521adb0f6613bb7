package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/services/keystore"
)

const (
	followedOwners = 100
	followersEach  = 10
	// feedPatience is how long the newest event may take to reach a follower. An event
	// that has not arrived by then is lost.
	feedPatience = 10 * time.Second
	// feedGoal is the goal for the p99.
	feedGoal = 500 * time.Millisecond
)

// feeds measures how long after its acknowledgement a memory reaches the followers of its
// owner. Half of the followers use a second replica of the core API.
func feeds(ctx context.Context, w *world) error {
	if w.owners < followedOwners {
		return fmt.Errorf("%d owners are followed, and there are %d", followedOwners, w.owners)
	}
	second, err := w.startSecondCore(ctx)
	if err != nil {
		return err
	}
	var rounds []result
	written, err := compare(ctx, w.rounds, contender{"followed writes", func(ctx context.Context) (result, error) {
		writes, events, err := w.follow(ctx, []string{w.core, second})
		rounds = append(rounds, events)
		return writes, err
	}})
	if err != nil {
		return err
	}
	events := newSeries(rounds[1:]) // without the round that warms up
	name := fmt.Sprintf("%d followers of %d owners at two replicas, %d writers: ", followedOwners*followersEach, followedOwners, w.connections)
	w.report.add(name+"events delivered beside memories written", rate(events), rate(written[0]), ratio(events, written[0], throughput))
	w.report.add(name+"p99 behind the acknowledgement, beside the goal", short(events.p99).String(), feedGoal.String(), float64(events.p99)/float64(feedGoal))
	return nil
}

// startSecondCore starts another replica of the core API beside the local run and returns
// its base URL.
func (w *world) startSecondCore(ctx context.Context) (string, error) {
	data := filepath.Join(w.dir, "ledger")
	master, err := datadir.LoadSecret(data, "master-key", keystore.KeySize)
	if err != nil {
		return "", err
	}
	signing, err := datadir.LoadSecret(data, "jwt-secret", 32)
	if err != nil {
		return "", err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		return "", err
	}
	cmd := exec.Command(w.ledger, "core-api")
	cmd.Env = append(os.Environ(), "CORE_ADDR="+addr, "CORE_URL="+w.core, "EXTENSION_URL="+w.local.ExtensionURL, "LOG_LEVEL=warn",
		"NATS_URL="+w.local.NATSURL, "DATABASE_URL="+w.local.DatabaseURL,
		"MASTER_KEY="+base64.StdEncoding.EncodeToString(master), "JWT_SECRET="+base64.StdEncoding.EncodeToString(signing))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.children = append(w.children, cmd)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if status, _, err := fasthttp.Get(nil, "http://"+addr+"/readyz"); err == nil && status == fasthttp.StatusOK {
			return "http://" + addr, nil
		}
	}
	return "", errors.New("the second core API is not ready")
}

// follow opens all event streams, writes for a round, and waits until every follower has
// all acknowledged memories. It returns the results of the writes and of the deliveries.
func (w *world) follow(ctx context.Context, replicas []string) (writes, events result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	followers := make([]follower, followedOwners*followersEach)
	each := func(do func(f *follower, owner int) error) error {
		errs := make([]error, len(followers))
		var group sync.WaitGroup
		for i := range followers {
			group.Go(func() { errs[i] = do(&followers[i], i%followedOwners) })
		}
		group.Wait()
		return errors.Join(errs...)
	}
	for i := range followers { // half of an owner's followers at each replica
		followers[i].url = replicas[i/followedOwners%len(replicas)] + "/events"
	}
	if err := each(func(f *follower, owner int) error { return f.open(ctx, w.tokens[owner]) }); err != nil {
		return result{}, result{}, err
	}
	defer func() {
		_ = each(func(f *follower, _ int) error { return f.body.Close() })
	}()
	ended := make(chan error, 1)
	begin := time.Now()
	go func() { ended <- each(func(f *follower, _ int) error { return f.read() }) }()
	writes, acknowledged, err := w.writeFollowed(ctx)
	if err != nil {
		return result{}, result{}, err
	}
	defer time.AfterFunc(feedPatience, cancel).Stop()
	if err := <-ended; err != nil {
		return result{}, result{}, err
	}
	elapsed := time.Since(begin)
	var all []time.Duration
	for i := range followers {
		latencies, err := followers[i].behind(acknowledged[i%followedOwners])
		if err != nil {
			return result{}, result{}, fmt.Errorf("follower %d: %w", i, err)
		}
		all = append(all, latencies...)
	}
	slices.Sort(all)
	return writes, result{float64(len(all)) / elapsed.Seconds(), all[len(all)/2], all[len(all)*99/100]}, nil
}

// moment is when a client learned of a memory.
type moment struct {
	id string
	at time.Time
}

// writeFollowed writes for a round, and returns the acknowledged memories of each owner by
// leaf index. At its end each owner makes an API key, which ends the owner's followers.
func (w *world) writeFollowed(ctx context.Context) (result, []map[uint64]moment, error) {
	acknowledged := make([]map[uint64]moment, followedOwners)
	for i := range acknowledged {
		acknowledged[i] = map[uint64]moment{}
	}
	var mu sync.Mutex
	writes, err := driveAnd(ctx, w.connections, w.duration, fasthttp.StatusCreated, func(n int, r *fasthttp.Request) {
		postMemory(w.core, "/memories", n, r)
		r.Header.Set("Authorization", "Bearer "+w.tokens[n%followedOwners])
	}, func(n int, r *fasthttp.Response) error {
		at := time.Now()
		var answer struct {
			ID        string
			LeafIndex uint64
		}
		if err := json.Unmarshal(r.Body(), &answer); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		acknowledged[n%followedOwners][answer.LeafIndex] = moment{answer.ID, at}
		return nil
	})
	for i := 0; i < followedOwners && err == nil; i++ {
		_, err = w.post(ctx, "/keys", map[string]any{"label": "bench"}, w.tokens[i])
	}
	return writes, acknowledged, err
}

// follower is a client of an event stream.
type follower struct {
	url   string
	body  io.Closer
	lines *bufio.Reader
	first uint64   // leaf index of the first memory
	got   []moment // the memories, by leaf index from first
}

// open connects and waits until the stream has begun.
func (f *follower) open(ctx context.Context, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	f.body, f.lines = res.Body, bufio.NewReaderSize(res.Body, 32<<10)
	if line, err := f.lines.ReadString('\n'); err != nil || line != "retry: 1000\n" {
		return fmt.Errorf("status %d, begins with %q, %w", res.StatusCode, line, err)
	}
	return nil
}

// read reads events until the owner has made a key. Each leaf of the owner must arrive
// once, in order.
func (f *follower) read() error {
	for {
		line, err := f.lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("after %d memories: %w", len(f.got), err)
		}
		at := time.Now()
		for rest := line; ; {
			_, after, found := bytes.Cut(rest, []byte(`"memoryId":"`))
			if !found {
				break
			}
			id, after, _ := bytes.Cut(after, []byte(`","leafIndex":`))
			number, after, _ := bytes.Cut(after, []byte(","))
			index, err := strconv.ParseUint(string(number), 10, 64)
			if err != nil {
				return err
			}
			if len(f.got) == 0 {
				f.first = index
			}
			if want := f.first + uint64(len(f.got)); index != want {
				return fmt.Errorf("leaf %d, want %d", index, want)
			}
			f.got, rest = append(f.got, moment{string(id), at}), after
		}
		if bytes.Contains(line, []byte(`"type":"ApiKeyCreated"`)) {
			return nil
		}
	}
}

// behind compares the received memories with the acknowledged ones, and returns how long
// after its acknowledgement each memory arrived.
func (f *follower) behind(acknowledged map[uint64]moment) ([]time.Duration, error) {
	if len(f.got) != len(acknowledged) {
		return nil, fmt.Errorf("%d memories came, %d were acknowledged", len(f.got), len(acknowledged))
	}
	latencies := make([]time.Duration, len(f.got))
	for i, came := range f.got {
		index := f.first + uint64(i)
		if acknowledged[index].id != came.id {
			return nil, fmt.Errorf("leaf %d came as %s and was acknowledged as %s", index, came.id, acknowledged[index].id)
		}
		latencies[i] = max(0, came.at.Sub(acknowledged[index].at))
	}
	return latencies, nil
}
