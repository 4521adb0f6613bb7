package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mr-tron/base58"
	"github.com/valyala/fasthttp"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/cluster"
)

const (
	// residentsAtOnce is how many owners are created before their messages are sent.
	residentsAtOnce = 10_000
	// residentsKept is how many owners of one size can come back. Each comes back once.
	residentsKept = 50_000
	// catchUpPatience is how long the projector may take for the messages that one size
	// adds.
	catchUpPatience = 20 * time.Minute
)

// growths measures the deployment while its log grows to more and more owners with
// history. It measures the writes of the same thousand owners, the writes of owners who
// were away since their first memory, each once, and the memory of the processes.
func growths(ctx context.Context, d *deployment) error {
	town, err := d.newTown(ctx)
	if err != nil {
		return err
	}
	var first []series
	for _, owners := range []int{1_000, 100_000, 1_000_000} {
		if owners > d.grown {
			break
		}
		if err := town.grow(ctx, owners); err != nil {
			return err
		}
		got, err := town.measure(ctx)
		if err != nil {
			return err
		}
		if first == nil {
			first = got
		}
		town.add(owners, got, first)
	}
	return nil
}

// town is a deployment whose log is filled with owners without its APIs. Its messages are
// the same as those that the APIs would have written.
type town struct {
	*deployment
	keys   *keystore.Store
	tokens *signin.SignedTokens
	owners int
	away   []string // tokens of owners who have not come back yet
	back   atomic.Int64
}

func (d *deployment) newTown(ctx context.Context) (*town, error) {
	bucket, err := d.admin.KeyValue(ctx, keystore.Bucket)
	if err != nil {
		return nil, err
	}
	t := &town{deployment: d, tokens: signin.NewSignedTokens([]byte(cluster.Secret), time.Now)}
	t.keys, err = keystore.Open(bucket, keystore.Config{Masters: []keystore.MasterKey{keystore.MasterKey([]byte(cluster.Secret))}})
	return t, err
}

// grow adds owners, each with a session and a memory, until the log has the given number
// of owners.
func (t *town) grow(ctx context.Context, owners int) error {
	t.away = nil
	t.back.Store(0)
	every := max(1, (owners-t.owners)/residentsKept)
	for t.owners < owners {
		n := min(residentsAtOnce, owners-t.owners)
		keys, err := t.newKeys(ctx, n)
		if err != nil {
			return err
		}
		if err := publish(t.publisher.Conn(), 2*n, func(i int) (subject string, payload []byte, err error) {
			resident := keys[i/2]
			if i%2 == 1 {
				return written(resident.owner, resident.OwnerKey, 2, 0, sentence(t.owners+i/2))
			}
			subject, payload, token, err := t.registered(resident.owner)
			if (t.owners+i/2)%every == 0 {
				t.away = append(t.away, token)
			}
			return subject, payload, err
		}); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		t.owners += n
	}
	return t.awaitProjector(ctx)
}

type resident struct {
	owner events.Owner
	*keystore.OwnerKey
}

func (t *town) newKeys(ctx context.Context, n int) ([]resident, error) {
	keys, errs := make([]resident, n), make([]error, n)
	var group sync.WaitGroup
	slots := make(chan struct{}, 256)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			var public [32]byte
			_, _ = rand.Read(public[:]) // never fails
			keys[i].owner = events.Owner(base58.Encode(public[:]))
			keys[i].OwnerKey, errs[i] = t.keys.FindOrCreate(ctx, keys[i].owner, 0)
		})
	}
	group.Wait()
	return keys, errors.Join(errs...)
}

// registered returns the message of an owner's first sign-in, and its session's token.
func (t *town) registered(owner events.Owner) (subject string, payload []byte, token string, err error) {
	session, command := assembly.NewID(), assembly.NewID()
	now := time.Now()
	issued, expires := events.At(now), events.At(now.Add(signin.CoreSessionLifetime))
	if token, _, err = t.tokens.Issue(owner, session, issued, expires); err != nil {
		return "", nil, "", err
	}
	event := func(data events.Data) events.Event {
		return events.Event{ID: assembly.NewID(), Source: "/bench", Owner: owner, Time: issued, OwnerVersion: 1, CommandID: command, Data: data}
	}
	payload, err = events.EncodeBatch([]events.Event{
		event(&events.OwnerRegistered{UserID: assembly.NewID()}),
		event(&events.SessionIssued{SessionID: session, Audience: events.AudienceCore, ExpiresAt: expires}),
	})
	return events.Subject{Family: events.FamilyLedger, Owner: owner, Kind: events.KindSession}.String(), payload, token, err
}

// awaitProjector waits until the read models hold everything that the log holds now.
func (t *town) awaitProjector(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	head, err := t.sizeOfLog(ctx)
	if err != nil {
		return err
	}
	ledger, err := schema.OpenPool(ctx, t.cluster.DatabaseURL("projector"), schema.Live, 1)
	if err != nil {
		return err
	}
	defer ledger.Close()
	for {
		seq, err := owners.Position(ctx, ledger)
		if err != nil {
			return err
		}
		if seq >= head.Msgs {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the projector is at %d of %d: %w", seq, head.Msgs, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// measure returns the writes of the thousand owners, the writes of owners who were away,
// and raw publishes.
func (t *town) measure(ctx context.Context) ([]series, error) {
	write := func(fill request) func(context.Context) (result, error) {
		return func(ctx context.Context) (result, error) {
			return drive(ctx, t.connections, t.duration, fasthttp.StatusCreated, fill)
		}
	}
	got, err := compare(ctx, t.rounds,
		contender{"active", write(func(n int, r *fasthttp.Request) { t.writeOurs(n, r) })},
		contender{"back", write(func(n int, r *fasthttp.Request) {
			t.writeOurs(n, r)
			r.Header.Set("Authorization", "Bearer "+t.away[int(t.back.Add(1)-1)%len(t.away)])
		})},
		contender{"raw", func(ctx context.Context) (result, error) { return t.rawPublishes(ctx, t.connections) }},
	)
	return got, err
}

// add reports a size next to the first size, each as a fraction of the raw publishes that
// were measured with it.
func (t *town) add(owners int, got, first []series) {
	raw := func(all []series, i int) float64 { return ratio(all[i], all[2], throughput) }
	for i, who := range []string{"1,000 owners", "owners who were away, each once"} {
		name := fmt.Sprintf("growth: %d owners with history: writes of %s, as a part of raw publishes, beside those with the first size", owners, who)
		t.report.add(name, fmt.Sprintf("%s, %.2f", rate(got[i]), raw(got, i)), fmt.Sprintf("%s, %.2f", rate(first[i]), raw(first, i)), raw(got, i)/raw(first, i))
	}
	if once := int64(len(t.away)); t.back.Load() > once {
		t.report.note(fmt.Sprintf("growth: %d owners: %d came back, %d writes of them: some wrote again", owners, once, t.back.Load()))
	}
	var memory []string
	for name, process := range t.processes() {
		memory = append(memory, fmt.Sprintf("%s %d MB", name, residentMemory(process.PID())>>20))
	}
	slices.Sort(memory)
	t.report.note(fmt.Sprintf("growth: %d owners: resident memory: %s", owners, strings.Join(memory, ", ")))
}

func (t *town) processes() map[string]*cluster.Process {
	all := map[string]*cluster.Process{"core": t.api, "projector": t.projector}
	for i, node := range t.cluster.Nodes {
		all[fmt.Sprintf("node %d", i+1)] = node
	}
	return all
}

// residentMemory returns the resident memory of a process in bytes, or 0 if Linux does
// not report it.
func residentMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		var kB int64
		if _, err := fmt.Sscanf(string(line), "VmRSS: %d kB", &kB); err == nil {
			return kB << 10
		}
	}
	return 0
}
