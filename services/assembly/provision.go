package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/config"
)

// provisionTimeout bounds one request. Nodes that elect their leader drop what
// they are asked and tell nobody, so waiting longer would not help.
const provisionTimeout = 3 * time.Second

// provisionPatience is how long a cluster may take to agree on a leader; on a
// loaded machine it was seen to lose one and elect again for a minute.
const provisionPatience = 3 * time.Minute

// Provision creates the log, the buckets and the consumers, or
// brings them to what this build wants. It needs the admin's credentials, and
// waits for a cluster that is still electing its leader. A crash leaves some
// of them; run it again. It returns what is there at the end.
func Provision(ctx context.Context, cfg config.Config, logger *slog.Logger, dial Connector) (made []natsconf.Made, err error) {
	starting, cancel := context.WithTimeout(ctx, provisionPatience)
	defer cancel()
	var failure dialFailure
	conn, err := dial(append(natsOptions(logger), failure.option())...)
	if err != nil {
		return nil, fmt.Errorf("connect to the log's server: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(provisionTimeout))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	err = waitingForLog(logger, conn, &failure).eventually(starting, func() (err error) {
		// Without starting's deadline: each request has its own.
		made, err = natsconf.Provision(ctx, js, cfg.NATSReplicas)
		return err
	})
	return made, err
}
