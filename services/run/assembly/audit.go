package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/gagliardetto/solana-go"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/config"
)

type AuditOptions struct {
	Owner    events.Owner // empty: all owners
	LogOnly  bool         // skip the database, the keys and the chain
	Replicas bool         // check each replica of the log first
	Chain    audit.Chain  // overrides the configured chain
	Report   func(audit.Finding)
	Progress func(reached, through uint64)
}

// Audit checks the log, and the read models, the contents and the chain if they are
// configured. It writes nothing.
func Audit(ctx context.Context, cfg config.Config, o AuditOptions) (audit.Summary, error) {
	var refused refusals
	nc, err := Dial(cfg)(nats.Name("memory-ledger verify"), refused.option(telling(slog.New(slog.NewTextHandler(os.Stderr, nil)))))
	if err != nil {
		return audit.Summary{}, fmt.Errorf("connect to the log's server: %w", err)
	}
	defer nc.Close()
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return audit.Summary{}, err
	}
	run := audit.Config{Log: partReader(cfg, log), Owner: o.Owner, Report: o.Report, Progress: o.Progress}
	if o.Replicas {
		if run.Replicas, err = replicasOf(ctx, log, &refused); err != nil {
			return audit.Summary{}, err
		}
	}
	if o.LogOnly {
		run.WhyNoKeys, run.WhyNoPool, run.WhyNoChain = "--log-only", "--log-only", "--log-only"
		return audit.Run(ctx, run)
	}
	run.Keys, run.WhyNoKeys = auditKeys(ctx, cfg, nc, &refused)
	if run.Chain = o.Chain; run.Chain == nil {
		if run.Chain, run.WhyNoChain, err = auditChain(cfg); err != nil {
			return audit.Summary{}, err
		}
	}
	if cfg.DatabaseURL == "" {
		run.WhyNoPool = "DATABASE_URL is not set"
		return audit.Run(ctx, run)
	}
	if run.Pool, err = schema.OpenPool(ctx, cfg.DatabaseURL, schema.Live, 2); err != nil {
		return audit.Summary{}, err
	}
	defer run.Pool.Close()
	// The audit would report the columns of a newer build as damage. It reports missing
	// tables itself.
	if err := schema.Known(ctx, run.Pool); errors.Is(err, schema.ErrNewer) {
		return audit.Summary{}, err
	}
	return audit.Run(ctx, run)
}

// replicasOf returns each node's copy of the log. Reading the copy of a chosen node needs
// permissions that an auditor does not have.
func replicasOf(ctx context.Context, log *eventlog.JetStream, refused *refusals) (replicas []audit.Replica, err error) {
	err = refused.during(ctx, func(ctx context.Context) error {
		is, err := log.Replication(ctx)
		if err != nil {
			return err
		}
		for _, node := range is.Replicas {
			replicas = append(replicas, audit.Replica{Node: node.Node, Missing: node.Missing, Log: log.Replica(node.Node)})
		}
		return log.Replica(is.Replicas[0].Node).Permitted(ctx)
	})
	if errors.Is(err, errNotPermitted) {
		return nil, fmt.Errorf("verify --replicas needs the administrator's credentials in NATS_URL: %w", err)
	}
	return replicas, err
}

// auditKeys opens the keystore if there is a master key, or returns why it did not.
//
// A master key from the environment must open the data keys, and so must the generated
// key of the local run that keeps this log. The generated key of another run need not
// open them: an auditor of a cluster may work in another run's folder.
func auditKeys(ctx context.Context, cfg config.Config, nc *nats.Conn, refused *refusals) (func(context.Context, events.Owner) (audit.Key, error), string) {
	configured := cfg.MasterKey != ""
	if run, err := datadir.LoadRun(cfg.DataDir); err == nil && run.NATSURL == cfg.NATSURL {
		configured = true
	}
	unopened := func(why string) error { return &audit.Unopened{Why: why, Optional: !configured} }
	var keys *keystore.Store
	err := refused.during(ctx, func(ctx context.Context) (err error) {
		keys, err = openKeys(ctx, cfg, nc)
		return err
	})
	if errors.Is(err, errNotPermitted) {
		err = errors.New("the credentials of NATS_URL may not read the keystore")
	}
	if err != nil {
		if !configured || errors.Is(err, errNoMasterKey) {
			return nil, err.Error()
		}
		why := unopened(err.Error())
		return func(context.Context, events.Owner) (audit.Key, error) { return nil, why }, ""
	}
	return func(ctx context.Context, owner events.Owner) (audit.Key, error) {
		key, err := keys.Find(ctx, owner)
		switch {
		case errors.Is(err, keystore.ErrUnavailable):
			return nil, err
		case errors.Is(err, keystore.ErrForgotten):
			return nil, fmt.Errorf("%w: %w", audit.ErrNoKey, err)
		case errors.Is(err, keystore.ErrMasterKey):
			return nil, unopened("another master key wraps the owner's data key")
		case err != nil:
			return nil, unopened("the data key of " + string(owner) + " is lost or damaged in the keystore")
		}
		return key, nil
	}, ""
}

var errNoMasterKey = errors.New("MASTER_KEY is not set")

// openKeys opens the keystore with the configured master keys or, beside a local run, with the
// run's generated one.
func openKeys(ctx context.Context, cfg config.Config, nc *nats.Conn) (*keystore.Store, error) {
	if err := fillMasterKey(&cfg); err != nil {
		return nil, errNoMasterKey
	}
	masters, err := openMasters(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return openKeysWith(ctx, cfg, nc, masters)
}

// openKeysWith opens the keystore with other master keys than the configured ones.
func openKeysWith(ctx context.Context, cfg config.Config, nc *nats.Conn, masters []keystore.Master) (*keystore.Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	var bucket jetstream.KeyValue
	var stream jetstream.Stream
	err = eventlog.Ask(ctx, func(ctx context.Context) (err error) {
		if bucket, err = js.KeyValue(ctx, keystore.Bucket); err == nil {
			stream, err = js.Stream(ctx, keystore.Stream)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the keystore: %w", err)
	}
	return keystore.Open(bucket, keystore.Config{
		Masters: masters, Cached: cachedOwners, Stream: stream,
		Sync: func(context.Context) error { return syncLocal(cfg, keystore.Stream) },
	}), nil
}

var plainUser = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// inboxPrefix returns the subject prefix of replies: a user may subscribe only to their own
// prefix. It comes from the configuration or from the user in the URL. Without both, it is
// empty, and the library's default applies.
func inboxPrefix(cfg config.Config) string {
	if cfg.NATSInbox != "" {
		return cfg.NATSInbox
	}
	if user := userOf(cfg.NATSURL).Username(); plainUser.MatchString(user) {
		return "_INBOX_" + user
	}
	return ""
}

// userOf returns the user in the first of the servers' URLs, nil if there is none.
func userOf(servers string) *url.Userinfo {
	first, _, _ := strings.Cut(servers, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil {
		return nil
	}
	return u.User
}

// Onchain reads commitment accounts over JSON-RPC, to check the anchorer.
type Onchain struct {
	client             *chain.Client
	program, authority solana.PublicKey
}

// auditChain returns the configured chain, or why there is none.
func auditChain(cfg config.Config) (onchain audit.Chain, why string, err error) {
	switch {
	case cfg.SolanaRPCURL == "":
		return nil, "SOLANA_RPC_URL is not set", nil
	case cfg.CommitmentProgramID == "":
		return nil, "COMMITMENT_PROGRAM_ID is not set", nil
	case cfg.AuthorityKeypair == "":
		return nil, "AUTHORITY_KEYPAIR is not set; an auditor names the authority's public key with --authority", nil
	}
	pair, err := cfg.Authority()
	if err != nil {
		return nil, "", err
	}
	onchain, err = NewOnchain(cfg, pair.PublicKey().String())
	return onchain, "", err
}

// NewOnchain returns a reader of the accounts of an authority, given in base58, on the
// configured chain.
func NewOnchain(cfg config.Config, authority string) (*Onchain, error) {
	client, errURL := cfg.Chain()
	program, errProgram := cfg.Program()
	key, errKey := events.ParseOwner(authority) // all public keys have the same form
	if errKey != nil {
		errKey = fmt.Errorf("authority: %w", errKey)
	}
	if err := errors.Join(errURL, errProgram, errKey); err != nil {
		return nil, err
	}
	return &Onchain{client, program, key.Bytes()}, nil
}

func (o *Onchain) GenesisHash(ctx context.Context) (string, error) {
	genesis, err := o.client.GenesisHash(ctx)
	if err != nil {
		return "", fmt.Errorf("ask which chain it is: %w", err)
	}
	return genesis, nil
}

// Commitments implements audit.Chain with two requests. It requests the genesis hash
// last, to learn which chain answered.
func (o *Onchain) Commitments(ctx context.Context, owners []events.Owner) ([]*audit.Commitment, uint64, error) {
	addresses := make([]solana.PublicKey, len(owners))
	for i, owner := range owners {
		addresses[i], _ = commitment.Address(o.program, o.authority, owner.Bytes())
	}
	accounts, reached, err := o.client.Accounts(ctx, addresses, chain.Finalized)
	if err != nil {
		return nil, 0, fmt.Errorf("read %d accounts: %w", len(addresses), err)
	}
	cluster, err := o.GenesisHash(ctx)
	if err != nil {
		return nil, 0, err
	}
	commitments := make([]*audit.Commitment, len(accounts))
	for i, account := range accounts {
		if account == nil || account.Owner != o.program {
			continue // only the program can commit
		}
		decoded, err := verify.DecodeAccount(account.Data)
		if err != nil {
			return nil, 0, fmt.Errorf("account %s: %w", addresses[i], err)
		}
		if decoded.Owner != solana.PublicKey(owners[i].Bytes()) || decoded.Authority != o.authority {
			return nil, 0, fmt.Errorf("account %s is about another owner or authority", addresses[i])
		}
		commitments[i] = &audit.Commitment{
			Size: decoded.Size, Root: decoded.Root, Slot: decoded.Slot,
			Cluster: cluster, ProgramID: o.program.String(), Account: addresses[i].String(),
		}
	}
	return commitments, reached, nil
}
