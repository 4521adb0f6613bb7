package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/run/config"
)

// Provision creates the log, the buckets and the consumers, or changes them to this
// build's configuration. It needs the administrator's credentials, and waits for a
// cluster that is still electing its leader. A crash leaves some of them created or
// changed; run Provision again. It returns the streams, buckets and consumers that exist
// at the end.
func Provision(ctx context.Context, cfg config.Config, logger *slog.Logger, dial Connector) (made []natsconf.Made, err error) {
	// This is how long a cluster may take to elect a leader. On a loaded machine, a cluster
	// lost its leader and took a minute to elect another.
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	conn, waits, err := dialLog(logger, dial)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// This bounds one request. Nodes that elect their leader drop requests without an answer,
	// so waiting longer would not help.
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(3*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	waits.because = unlessInVain(waits.because)
	err = waits.eventually(starting, func() error {
		// Not with starting's deadline: each request has its own.
		return waits.refused.during(ctx, func(ctx context.Context) (err error) {
			made, err = natsconf.Provision(ctx, js, cfg.NATSReplicas)
			return err
		})
	})
	return made, err
}

// unlessInVain adds the errors that waiting can't fix: missing permissions, and settings
// that the cluster can't have.
func unlessInVain(because func(error) reason) func(error) reason {
	return func(err error) reason {
		var answer *jetstream.APIError
		switch {
		case errors.Is(err, errNotPermitted):
			return reason{why: fmt.Errorf("provision needs the administrator's credentials in NATS_URL: %w", err), hopeless: true}
		// This is the server's error while too few nodes have joined for the replicas.
		case errors.Is(err, natsconf.ErrFewer), errors.As(err, &answer) && answer.Code == http.StatusBadRequest && answer.ErrorCode != jetstream.ErrorCode(10005):
			return reason{why: err, hopeless: true}
		}
		return because(err)
	}
}
