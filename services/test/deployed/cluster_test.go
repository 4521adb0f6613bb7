package deployed_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/cluster"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// deployment is the services of compose.yaml, as processes.
type deployment struct {
	t *testing.T
	*cluster.Cluster
}

// process is one process of a deployment. It dies with the test.
type process struct {
	t   *testing.T
	log *lines
	*cluster.Process
}

func (p *process) start() {
	p.t.Helper()
	must(p.t, p.Start())
}

// roles is held while a test makes the roles of the shared database server.
var roles sync.Mutex

// deploy starts the nodes and provisions them.
func deploy(t *testing.T) *deployment {
	t.Helper()
	var outputs []*lines
	cfg := cluster.Config{
		Root: "../../..", Dir: t.TempDir(), Database: pgtest.Database(t),
		Ledger: stacktest.Program(t, stacktest.Ledger),
		Server: stacktest.Program(t, "github.com/nats-io/nats-server/v2"),
		Output: func() io.Writer { l := &lines{}; outputs = append(outputs, l); return l },
	}
	var err error
	cfg.Root, err = filepath.Abs(cfg.Root)
	must(t, err)
	roles.Lock()
	c, err := cluster.Start(cfg)
	roles.Unlock()
	t.Cleanup(func() {
		c.Close()
		if t.Failed() && os.Getenv("STACK_LOG") != "" {
			for _, output := range outputs {
				t.Logf("%s", output)
			}
		}
	})
	if errors.Is(err, cluster.ErrNoPsql) {
		t.Skip(err)
	}
	must(t, err)
	return &deployment{t, c}
}

func (d *deployment) process(p *cluster.Process, err error) *process {
	d.t.Helper()
	must(d.t, err)
	return &process{d.t, p.Output.(*lines), p}
}

// api runs a replica and returns its client once it is ready.
func (d *deployment) api(command string, environ ...string) (*process, *stacktest.Client) {
	d.t.Helper()
	p, url, err := d.API(command, environ...)
	if err != nil {
		if p != nil {
			err = fmt.Errorf("%w:\n%s", err, p.Output)
		}
		d.t.Fatal(err)
	}
	api := contracttest.Core
	if command == "extension-api" {
		api = contracttest.Extension
	}
	return d.process(p, nil), stacktest.NewClient(d.t, api, url)
}

func (d *deployment) projector(environ ...string) *process {
	d.t.Helper()
	return d.process(d.Projector(environ...))
}

// settled waits until the nodes are connected well enough to accept a write.
func (d *deployment) settled(c *stacktest.Client, session stacktest.Header) {
	d.t.Helper()
	n := 0
	testkit.Await(d.t, "something can be written", func() bool {
		n++
		a, err := c.Try("POST", "/memories", map[string]any{"content": fmt.Sprint("settled ", n)}, session)
		return err == nil && a.Status == 201
	})
}
