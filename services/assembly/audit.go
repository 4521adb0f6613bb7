package assembly

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/config"
	"github.com/memory-ledger/ledger/services/keystore"
)

// AuditOptions say what to audit.
type AuditOptions struct {
	Owner    events.Owner // empty means everybody
	LogOnly  bool         // neither database nor keys nor chain
	Chain    audit.Chain  // overrides the configured chain
	Report   func(audit.Finding)
	Progress func(reached, through uint64)
}

// Audit checks the log and, as far as the configuration reaches them, the read
// models, the contents and the chain. It writes nothing anywhere.
func Audit(ctx context.Context, cfg config.Config, o AuditOptions) (audit.Summary, error) {
	nc, err := Dial(cfg)(nats.Name("memory-ledger verify"))
	if err != nil {
		return audit.Summary{}, fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return audit.Summary{}, err
	}
	run := audit.Config{Log: partReader(cfg, log), Owner: o.Owner, Report: o.Report, Progress: o.Progress}
	if o.LogOnly {
		run.WhyNoKeys, run.WhyNoPool, run.WhyNoChain = "--log-only", "--log-only", "--log-only"
		return audit.Run(ctx, run)
	}
	run.Keys, run.WhyNoKeys = auditKeys(ctx, cfg, nc)
	if run.Chain = o.Chain; run.Chain == nil {
		run.Chain, run.WhyNoChain = auditChain(cfg)
	}
	if cfg.DatabaseURL == "" {
		run.WhyNoPool = "DATABASE_URL is not set"
		return audit.Run(ctx, run)
	}
	if run.Pool, err = schema.OpenPool(ctx, cfg.DatabaseURL, schema.Live, 2); err != nil {
		return audit.Summary{}, err
	}
	defer run.Pool.Close()
	return audit.Run(ctx, run)
}

// auditKeys opens the keystore where there is a master key; otherwise it says
// why not.
func auditKeys(ctx context.Context, cfg config.Config, nc *nats.Conn) (func(context.Context, events.Owner) (audit.Key, error), string) {
	keys, err := openKeys(ctx, cfg, nc)
	if err != nil {
		return nil, err.Error()
	}
	return func(ctx context.Context, owner events.Owner) (audit.Key, error) {
		key, err := keys.Find(ctx, owner)
		switch {
		case errors.Is(err, keystore.ErrUnavailable):
			return nil, err
		case err != nil: // forgotten, of another master key, or damaged
			return nil, fmt.Errorf("%w: %w", audit.ErrNoKey, err)
		}
		return key, nil
	}, ""
}

// openKeys opens the keystore for a tool. Beside a local run it uses that run's
// generated master key.
func openKeys(ctx context.Context, cfg config.Config, nc *nats.Conn) (*keystore.Store, error) {
	if cfg.MasterKey == "" {
		key, err := datadir.LoadSecret(cfg.DataDir, "master-key", keystore.KeySize)
		if err != nil {
			return nil, errors.New("MASTER_KEY is not set")
		}
		cfg.MasterKey = base64.StdEncoding.EncodeToString(key)
	}
	masters, err := cfg.MasterKeys()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	bucket, err := js.KeyValue(ctx, keystore.Bucket)
	if err != nil {
		return nil, fmt.Errorf("open the keystore: %w", err)
	}
	return keystore.Open(bucket, keystore.Config{Masters: masters, Cached: cfg.CachedOwners})
}

var plainUser = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// inboxPrefix is where answers to a user go: each may listen to its own only.
// Without a user in the URL it is what the configuration says, or the library's
// default.
func inboxPrefix(cfg config.Config) []nats.Option {
	if cfg.NATSInbox != "" {
		return []nats.Option{nats.CustomInboxPrefix(cfg.NATSInbox)}
	}
	user := userOf(cfg.NATSURL)
	if !plainUser.MatchString(user) {
		return nil
	}
	return []nats.Option{nats.CustomInboxPrefix("_INBOX_" + user)}
}
