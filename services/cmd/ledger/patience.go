package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// How long a follower of the log waits for a lost server. A stopped local run is not
// expected to return; a deployment restarts its servers.
const (
	deployedPatience = time.Minute
)

var errAway = errors.New("the log's server has been away")

// patience cancels a context when a connection is lost for too long. Without it, a
// follower of a lost log would look just like a follower of a log that receives no
// writes.
type patience struct {
	lasts  time.Duration
	tell   io.Writer // messages for people
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	ended bool
	timer *time.Timer // runs while the connection is lost
}

// options returns options for a connection that retries for as long as the patience
// lasts.
func (p *patience) options() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectBufSize(-1),
		// A cluster announces its servers without the URL's credentials. If one of them
		// refused the client, the connection would end for good.
		nats.IgnoreDiscoveredServers(),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { p.lost() }),
		nats.ReconnectHandler(func(*nats.Conn) { p.found() }),
	}
}

func (p *patience) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.timer != nil {
		return
	}
	fmt.Fprintf(p.tell, "ledger: lost the connection to the log's server, trying again for %v\n", p.lasts)
	p.timer = time.AfterFunc(p.lasts, func() {
		p.cancel(fmt.Errorf("%w for %v", errAway, p.lasts))
	})
}

func (p *patience) found() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.timer == nil || !p.timer.Stop() {
		return
	}
	p.timer = nil
	fmt.Fprintln(p.tell, "ledger: connected to the log's server again")
}

// end stops the patience. Call it before closing the connection on purpose, which is no
// loss.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
