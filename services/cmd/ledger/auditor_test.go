package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
)

// deployed starts a server with the shipped configuration and provisions it.
func deployed(t *testing.T) (urlOf func(user string) string) {
	t.Helper()
	urlOf = guarded(t)
	js, err := jetstream.New(dial(t, urlOf("admin")))
	must(t, err)
	must(t, errorOf(natsconf.Provision(t.Context(), js, 1)))
	return urlOf
}

// guarded starts a log server with permissions that is not provisioned yet.
func guarded(t *testing.T) (urlOf func(user string) string) {
	t.Helper()
	t.Setenv("NATS_SERVER_NAME", "test")
	t.Setenv("NATS_STORE_DIR", t.TempDir())
	for _, user := range []string{"ADMIN", "CORE", "EXTENSION", "PROJECTOR", "ANCHORER", "AUDITOR", "SYS"} {
		t.Setenv("NATS_"+user+"_PASSWORD", "pw"+strings.ToLower(user))
	}
	clientURL := natstest.FromConfig(t, "../../../infra/nats/single.conf")
	return func(user string) string {
		return strings.Replace(clientURL, "nats://", "nats://"+user+":pw"+user+"@", 1)
	}
}

func dial(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := assembly.Dial(config.Config{NATSURL: url})()
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// write appends as an API does: an owner's sign-in, then memories.
func write(t *testing.T, url string, memories int) events.Owner {
	t.Helper()
	log, err := eventlog.Open(t.Context(), dial(t, url))
	must(t, err)
	owner, last := logtest.Owner(), uint64(0)
	say := func(version int, kind events.SubjectKind, data events.Data) {
		command := assembly.NewID()
		payload, err := events.EncodeBatch([]events.Event{{ID: assembly.NewID(), Source: "/test", Owner: owner,
			Time: events.At(time.Now()), OwnerVersion: version, CommandID: command, Data: data}})
		must(t, err)
		message := eventlog.Append{Family: events.FamilyLedger, Owner: owner, Kind: kind, CommandID: command, Expected: last, Payload: payload}
		for {
			last, err = log.Append(t.Context(), message)
			if !errors.Is(err, eventlog.ErrConflict) {
				break
			}
			// A new leader of a cluster might not have applied the previous message yet. An
			// API would decide again; here nothing else writes, so the decision is the
			// same.
		}
		must(t, err)
	}
	say(1, events.KindSession, &events.OwnerRegistered{UserID: assembly.NewID()})
	for i := range memories {
		say(i+2, events.KindMemory, &events.MemoryWritten{MemoryID: assembly.NewID(), LeafIndex: uint64(i), LeafVersion: 1, Metadata: []byte(`{}`), Sealed: []byte("sealed")})
	}
	return owner
}

// ledger runs a command and returns its output and its error.
func ledger(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// An auditor, who may only read, tails and verifies the log with the credentials shipped
// for auditors.
func TestAuditorTailsAndVerifies(t *testing.T) {
	urlOf := deployed(t)
	owner := write(t, urlOf("core"), 20)
	write(t, urlOf("core"), 5)
	t.Setenv("NATS_URL", urlOf("auditor"))
	t.Setenv("LEDGER_DATA_DIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		args  string
		lines int
	}{
		{"tail -n 3", 3}, {"tail -n 0", 0}, {"tail -n 99", 27}, {"tail -n 1 --type OwnerRegistered", 1}, {"tail --newest 4 --from 25", 3},
		{"tail --type OwnerRegistered,MemoryWritten", 27}, {"tail --type OwnerRegistered --type GrantMinted", 2},
		{"tail --json", 27}, {"tail", 27}, {"tail --from 20 --json", 8}, {"tail --owner " + string(owner), 21}, {"tail --type OwnerRegistered", 2}, {"tail --from 99", 0},
	} {
		out, err := ledger(ctx, strings.Fields(c.args)...)
		if lines := strings.Count(out, "\n"); err != nil || lines != c.lines {
			t.Errorf("%s: %d lines, %v", c.args, lines, err)
		}
	}
	for _, args := range [][]string{{"verify", "--log-only", "--json"}, {"verify", "--json"}} {
		out, err := ledger(ctx, args...)
		var last struct {
			Good    bool
			Summary struct {
				Leaves     int
				NotChecked []string
			}
		}
		if jsonErr := json.Unmarshal([]byte(out), &last); err != nil || jsonErr != nil || !last.Good || last.Summary.Leaves != 25 || len(last.Summary.NotChecked) != 3 {
			t.Errorf("%v: %s, %v, %v", args, out, err, jsonErr)
		}
	}
	if out, err := ledger(ctx, "verify", "--log-only"); err != nil || !strings.Contains(out, "not checked") || !strings.Contains(out, "agrees") {
		t.Errorf("%s, %v", out, err)
	}
	// A second sign-up and leaf 0 again: versions, leaves and the registration are wrong.
	log, err := eventlog.Open(ctx, dial(t, urlOf("core")))
	must(t, err)
	payload, err := events.EncodeBatch([]events.Event{{ID: "x", Source: "/test", Owner: owner, Time: events.At(time.Now()), OwnerVersion: 40, CommandID: "c",
		Data: &events.MemoryWritten{MemoryID: assembly.NewID(), Metadata: []byte(`{}`)}}})
	must(t, err)
	must(t, errorOf(log.Append(ctx, eventlog.Append{Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory, CommandID: "c", Expected: 21, Payload: payload})))
	out, err := ledger(ctx, "verify", "--log-only")
	var found finding
	if !errors.As(err, &found) || !strings.Contains(out, "version: owner "+string(owner)) || !strings.Contains(out, "leaf: owner "+string(owner)+" leaf 0") {
		t.Errorf("%s, %v", out, err)
	}
	for _, bad := range []string{"verify --owner x", "tail --owner x", "tail --type x", "verify extra"} {
		if _, err := ledger(ctx, strings.Fields(bad)...); err == nil || errors.As(err, &found) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
