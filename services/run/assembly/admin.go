package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/run/adminlog"
	"github.com/memory-ledger/ledger/services/run/config"
)

// asRecordedAdmin is asAdmin for an act that the admin log records. Connection and records
// outlast the act, also when ctx ends.
func asRecordedAdmin(ctx context.Context, cfg config.Config, connect Connector, act string, about map[string]string, work func(context.Context, *nats.Conn) error) error {
	return asAdmin(ctx, connect, act, func(ctx context.Context, nc *nats.Conn) error {
		return recorded(ctx, cfg, nc, act, about, func() error { return work(ctx, nc) })
	})
}

// recorded does an act between two records of it. An act that can't be recorded is not
// begun.
func recorded(ctx context.Context, cfg config.Config, nc *nats.Conn, act string, about map[string]string, do func() error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var end func(context.Context, error) error
	if _, err = adminlog.Open(ctx, js, cmp.Or(cfg.NATSReplicas, natsconf.Replicas(nc))); err == nil {
		end, err = adminlog.Begin(ctx, js, adminlog.Record{Act: act, About: about, By: adminlog.Me(namedUser(cfg))})
	}
	if err == nil {
		err = syncLocal(cfg, adminlog.Stream)
	}
	if err != nil {
		return fmt.Errorf("%s is not begun, because it can't be recorded: %w", act, err)
	}
	err = do()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if unrecorded := end(ending, err); unrecorded != nil {
		return errors.Join(err, fmt.Errorf("%s has ended, but the admin log does not say how: %w", act, unrecorded))
	}
	return errors.Join(err, syncLocal(cfg, adminlog.Stream))
}

// namedUser returns the user in NATS_URL, or "". A URL with a user and no password holds a
// token, which is a secret.
func namedUser(cfg config.Config) string {
	first, _, _ := strings.Cut(cfg.NATSURL, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil {
		return ""
	}
	if _, is := u.User.Password(); !is {
		return ""
	}
	return u.User.Username()
}

// AdminLog calls each with the records of operators' acts from a sequence on.
func AdminLog(ctx context.Context, cfg config.Config, from uint64, each func(adminlog.Entry) error) error {
	var refused refusals
	nc, err := Dial(cfg)(nats.Name("memory-ledger tail"), refused.option(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	err = refused.during(ctx, func(ctx context.Context) error { return adminlog.Read(ctx, js, from, each) })
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no act yet
		return nil
	}
	return err
}
