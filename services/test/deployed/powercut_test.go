package deployed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events/eventlog"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/test/cluster"
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
			must(t, err)
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
	must(t, errorOf(admin.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+natsconf.Stream, nil)))
	for leader() == before {
	}
	write(block * 3 / 2 / len(payload))

	for _, node := range d.Nodes {
		node.Kill()
	}
	for _, node := range d.Nodes {
		must(t, node.Start())
	}
	leader()
	log, err := eventlog.Open(ctx, admin.Conn())
	must(t, err)
	must(t, awaitReplicas(ctx, d.Cluster, log))
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

// awaitReplicas waits until every node has the log up to its end, or ctx ends.
func awaitReplicas(ctx context.Context, c *cluster.Cluster, log *eventlog.JetStream) error {
	for {
		is, err := log.Replication(ctx)
		if err == nil && is.Err() == nil && len(is.Replicas) == len(c.Nodes) {
			return nil
		}
		if !eventlog.Pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("not every node has the log: %w", errors.Join(ctx.Err(), is.Err(), err))
		}
	}
}
