package deployed_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// anchorer runs the anchorer of compose.yaml, with its role's credentials and its
// provisioned consumer.
func (d *deployment) anchorer(chain, authority string, environ ...string) *process {
	return d.process(d.Run(func() *exec.Cmd {
		return d.Command([]string{"anchorer"}, append([]string{
			d.As("anchorer"), "SOLANA_RPC_URL=" + chain, "AUTHORITY_KEYPAIR=" + authority,
			"COMMITMENT_PROGRAM_ID=" + program.LocalID.String(), "ANCHOR_MAX_WAIT=100ms",
		}, environ...)...)
	}))
}

// TestAnchorsWithItsRoleAlone: two anchorers follow the log through their provisioned
// consumer; their role must not create consumers. One works and one stands by. The working
// one is killed and starts again. Each leaf is in one confirmed batch. Not parallel,
// because it starts many processes.
func TestAnchorsWithItsRoleAlone(t *testing.T) {
	chain, authority := stacktest.Chain(t, 20*time.Millisecond)
	d := deploy(t)
	ops := freeAddr(t)
	d.projector("OPS_ADDR=" + ops)
	_, core := d.api("core-api")
	anchorers := []*process{d.anchorer(chain.URL(), authority), d.anchorer(chain.URL(), authority)}
	sessions := []stacktest.Header{core.SignIn(stacktest.NewWallet()), core.SignIn(stacktest.NewWallet())}
	d.settled(core, sessions[0])
	var last [2]string
	write := func(n int) {
		for i := range n {
			for who, session := range sessions {
				last[who] = core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint("leaf ", i)}, session).Text("id")
			}
		}
	}
	anchored := func() {
		for who, session := range sessions {
			core.AwaitAnchored(session, last[who])
		}
	}
	write(10)
	anchored()
	write(5)
	anchorers[0].Kill() // whichever works: if this one stood by, the other goes on
	write(5)
	anchored()
	anchorers[0].start()
	anchorers[1].Kill()
	write(1)
	anchored()
	d.exportsExpiry(ops)
	leaves, batches := d.batches()
	if leaves < 42 || batches < 4 {
		t.Errorf("%d leaves in %d batches", leaves, batches)
	}
}

// exportsExpiry checks that a service exports when the certificate of the log's nodes
// expires. The database's socket has none.
func (d *deployment) exportsExpiry(addr string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Secrets, "nats_certificate"))
	must(d.t, err)
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	must(d.t, err)
	said := exported(d.t, "http://"+addr+"/metrics")
	const metric = "ledger_certificate_expiry_timestamp_seconds"
	for of, want := range map[string]float64{"log": float64(certificate.NotAfter.Unix()), "database": 0} {
		if line := fmt.Sprintf("%s{of=%q} %v\n", metric, of, want); !strings.Contains(said, line) {
			d.t.Errorf("no %s", line)
		}
	}
}

// events reads the log with the auditor's role.
func (d *deployment) events(yield func(*events.Event)) {
	d.t.Helper()
	url := d.As("auditor")[len("NATS_URL="):]
	nc, err := nats.Connect(url, nats.CustomInboxPrefix("_INBOX_auditor"), nats.RootCAs(filepath.Join(d.Secrets, "ca_certificate")))
	must(d.t, err)
	defer nc.Close()
	log, err := eventlog.Open(d.t.Context(), nc)
	must(d.t, err)
	head, err := log.Head(d.t.Context())
	must(d.t, err)
	err = log.Read(d.t.Context(), eventlog.ReadConfig{To: head}, func(s eventlog.Slice) error {
		for _, r := range s.Records {
			batch, err := events.DecodeBatch(r.Payload)
			if err != nil {
				return err
			}
			for i := range batch {
				yield(&batch[i])
			}
		}
		return nil
	})
	must(d.t, err)
}

// batches checks that the confirmed batches in the log hold every leaf once. It returns
// the number of leaves and of confirmed batches.
func (d *deployment) batches() (leaves, batches uint64) {
	d.t.Helper()
	from, written, anchored := map[string]uint64{}, map[events.Owner]uint64{}, map[events.Owner]uint64{}
	d.events(func(e *events.Event) {
		switch data := e.Data.(type) {
		case *events.MemoryWritten:
			written[e.Owner]++
			leaves++
		case *events.BatchCut:
			from[data.BatchID] = data.FromSize
		case *events.BatchConfirmed:
			if from[data.BatchID] != anchored[e.Owner] {
				d.t.Errorf("a batch from leaf %d is confirmed after %d leaves", from[data.BatchID], anchored[e.Owner])
			}
			anchored[e.Owner] = data.Size
			batches++
		}
	})
	if !maps.Equal(anchored, written) {
		d.t.Errorf("%v were written, %v anchored", written, anchored)
	}
	return leaves, batches
}
