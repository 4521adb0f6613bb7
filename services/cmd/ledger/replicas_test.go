package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// cluster provisions three nodes. They elect their leader first.
func cluster(t *testing.T) []*natstest.Node {
	t.Helper()
	nodes := natstest.Cluster(t)
	js, err := jetstream.New(dial(t, nodes[0].ClientURL()), jetstream.WithDefaultTimeout(2*time.Second))
	must(t, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = natsconf.Provision(t.Context(), js, 3); err == nil {
			return nodes
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// One message is damaged on the disk of one of three nodes: verify names the node and the
// sequence, and audits what the other nodes have. Not parallel: three nodes that elect
// leaders need the machine to themselves.
func TestADamagedReplicaIsNamed(t *testing.T) {
	nodes := cluster(t)
	url := nodes[0].ClientURL()
	write(t, url, 100)
	onlyEnviron(t, map[string]string{"NATS_URL": url, "LEDGER_DATA_DIR": t.TempDir()})
	verify := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return ledger(ctx, append([]string{"verify", "--log-only"}, args...)...)
	}
	// A stopped node is reported as away; after a restart it catches up.
	nodes[2].Stop()
	await := func(what string, wanted func(text string, err error) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			text, err := verify("--replicas")
			if wanted(text, err) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s, %v", what, text, err)
			}
		}
	}
	await("a node that is away", func(text string, err error) bool {
		return err != nil && strings.Contains(text, "INCOMPLETE   the replica of the log on node node-2: it is away")
	})
	damageReplica(t, nodes[2])
	nodes[2].Restart()
	await("the damaged node", func(text string, err error) bool {
		var found finding
		return errors.As(err, &found) && strings.Contains(text, "replica: sequence 1: node node-2 can't read sequence 1\n") &&
			strings.Contains(text, "1 finding\n") && strings.Contains(text, "100 leaves") && !strings.Contains(text, "INCOMPLETE")
	})
	// Without --replicas any node may answer. Another node can read the message that the
	// damaged node can't: the audit completes each time, whichever node answers.
	for range 5 {
		text, err := verify()
		var found finding
		if err != nil && !errors.As(err, &found) || !strings.Contains(text, "100 leaves") || strings.Count(text, "replica: ") > 1 {
			t.Errorf("%s, %v", text, err)
		}
	}
	// To refill a node: stop it, empty its store, and start it. The other nodes send it
	// everything.
	nodes[2].Stop()
	must(t, os.RemoveAll(filepath.Join(nodes[2].Folder(), "jetstream")))
	nodes[2].Restart()
	await("the refilled node", func(text string, err error) bool { return err == nil && strings.Contains(text, "agrees") })
}

// damageReplica alters the first message in a node's files.
func damageReplica(t *testing.T, n *natstest.Node) {
	t.Helper()
	streams := filepath.Join(n.Folder(), "jetstream", "$G", "streams", natsconf.Stream)
	files := natstest.FilesHolding(t, streams, []byte("/test"))
	if len(files) != 1 {
		t.Fatalf("the log is in %v", files)
	}
	data, err := os.ReadFile(files[0])
	must(t, err)
	data[bytes.Index(data, []byte("/test"))] ^= 1
	must(t, os.WriteFile(files[0], data, 0o600))
}
