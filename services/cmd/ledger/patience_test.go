package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestFollowingALogThatGoesAway: a server restart is reported and survived. If the server
// stays away, the command ends and says why.
func TestFollowingALogThatGoesAway(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	server := natstest.StartProcess(t)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eventlog.Create(t.Context(), nc, eventlog.Config{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	write(t, server.URL(), 2)
	t.Setenv("NATS_URL", server.URL())
	t.Setenv("LEDGER_DATA_DIR", t.TempDir())

	out, printed := io.Pipe()
	told, complaints := io.Pipe()
	ended := make(chan error, 1)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() {
		tail := tailing{from: 1, follow: true, patience: 5 * time.Second}
		ended <- tail.run(ctx, printed, complaints)
	}()
	lines, said := bufio.NewScanner(out), bufio.NewScanner(told)
	next := func(s *bufio.Scanner, want string) {
		t.Helper()
		if !s.Scan() || !strings.Contains(s.Text(), want) {
			t.Fatalf("%q, want %q", s.Text(), want)
		}
	}
	for _, want := range []string{"OwnerRegistered", "MemoryWritten", "MemoryWritten"} {
		next(lines, want)
	}
	server.Kill()
	next(said, "lost the connection to the log's server, trying again for 5s")
	server.Start()
	next(said, "connected to the log's server again")
	write(t, server.URL(), 0)
	next(lines, "OwnerRegistered")
	server.Kill()
	next(said, "lost the connection")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "has been away for 5s") || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// TestPatience: ending on purpose reports no lost connection.
func TestPatience(t *testing.T) {
	if patienceWith(false) != localPatience || patienceWith(true) != deployedPatience {
		t.Error("a restart of a deployment takes longer than one is missed who stopped the local run")
	}
	var told strings.Builder
	p := patience{lasts: time.Minute, tell: &told}
	p.end()
	p.lost()
	if told.Len() > 0 {
		t.Error(told.String())
	}
}
