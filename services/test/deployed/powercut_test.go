package deployed_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// TestAPowerCutLeavesEveryReplicaWhole kills all nodes at once, after the log has filled a
// block since a node's last snapshot. When this node starts, it cuts its replica back to the
// snapshot, in the middle of the full block, and replays the rest.
func TestAPowerCutLeavesEveryReplicaWhole(t *testing.T) {
	d := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	admin := d.admin()
	payload := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	written := 0
	write := func(messages int) {
		t.Helper()
		var acks []jetstream.PubAckFuture
		for range messages {
			written++
			ack, err := admin.PublishAsync(fmt.Sprintf("ledger.00.owner%d.memory", written), payload)
			if err != nil {
				t.Fatal(err)
			}
			acks = append(acks, ack)
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				t.Fatal(err)
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
	}
	leader := func() string {
		for {
			asking, stop := context.WithTimeout(ctx, time.Second)
			stream, err := admin.Stream(asking, natsconf.Stream)
			stop()
			if err == nil && stream.CachedInfo().Cluster.Leader != "" {
				return stream.CachedInfo().Cluster.Leader
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	const block = 8 << 20 // bytes of a full block
	write(block / 2 / len(payload))
	before := leader()
	if _, err := admin.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+natsconf.Stream, nil); err != nil {
		t.Fatal(err)
	}
	for leader() == before {
	}
	write(block * 3 / 2 / len(payload))

	for _, node := range d.Nodes {
		node.Kill()
	}
	for _, node := range d.Nodes {
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
	}
	leader()
	log, err := eventlog.Open(ctx, admin.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.AwaitReplicas(ctx, log); err != nil {
		t.Fatal(err)
	}
	for n := range d.Nodes {
		read := 0
		err := log.Replica(fmt.Sprintf("nats-%d", n+1)).Read(ctx, eventlog.ReadConfig{From: 1, To: uint64(written)}, func(s eventlog.Slice) error {
			for _, record := range s.Records {
				if !bytes.Equal(record.Payload, payload) || !strings.HasPrefix(record.Subject, "ledger.00.owner") {
					return fmt.Errorf("%d: %s", record.Seq, record.Subject)
				}
				read++
			}
			return nil
		})
		if err != nil || read != written {
			t.Errorf("nats-%d has %d of %d messages: %v", n+1, read, written, err)
		}
	}
}
