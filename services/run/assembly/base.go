// Package assembly puts the services together: it connects to the log, the database and
// the chain, wires the parts, and starts and stops them in the right order. Only the
// ledger command uses it.
package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/dial"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/run/telemetry"
	"github.com/memory-ledger/ledger/services/signin"
)

// startTimeout bounds how long a service waits at its start for log and database.
const startTimeout = 60 * time.Second

// askTimeout bounds one request to the log's server; see ask.
const askTimeout = 5 * time.Second

// natsPing is how often a client asks its node whether it is there, and how long a write to
// the node may block. The client's defaults are minutes.
const natsPing = 2 * time.Second

// NewID returns a UUIDv7: unique, and ordered by time, which suits database indexes.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return id.String()
}

// Base holds the parts that every service needs: configuration, connections, metrics.
type Base struct {
	Config   config.Config
	Logger   *slog.Logger
	Registry *prometheus.Registry
	NATS     *nats.Conn
	// Stream is the log as its server stores it. Services use Log: the stream itself or,
	// in a local run, the stream with a group sync.
	Stream *eventlog.JetStream
	Log    eventlog.Log
	Pool   *pgxpool.Pool
	// Traces makes tracers. Nil: tracing is off.
	Traces *telemetry.Exporter

	// embedded is the log's server if it runs in this process, which then has to sync what
	// the server acknowledges. Otherwise the server syncs before it acknowledges.
	embedded *localnats.Server
	js       jetstream.JetStream
	log      waiting // for the log's server
}

// Connector makes connections to NATS: over the network, or into an embedded
// server.
type Connector func(options ...nats.Option) (*nats.Conn, error)

// Dial connects to the configured servers.
func Dial(cfg config.Config) Connector {
	return func(options ...nats.Option) (*nats.Conn, error) {
		if cfg.NATSCreds != "" {
			options = append(options, nats.UserCredentials(cfg.NATSCreds))
		}
		if cfg.NATSCA != "" {
			options = append(options, nats.RootCAs(cfg.NATSCA))
		}
		if prefix := inboxPrefix(cfg); prefix != "" {
			options = append(options, nats.CustomInboxPrefix(prefix))
		}
		// A node that vanished or hangs says no goodbye: the client has to notice. One that
		// is paused still accepts connections, and then says nothing. While a client tries to
		// reach one node, it can't use the others.
		dialer, greeting := dial.Dialer(), 1500*time.Millisecond
		dialer.Timeout = 500 * time.Millisecond
		defaults := []nats.Option{nats.ErrorHandler(telling(slog.New(slog.NewTextHandler(os.Stderr, nil)))),
			nats.SetCustomDialer(dialer), nats.Timeout(greeting), nats.PingInterval(natsPing), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(natsPing),
			nats.ReconnectToServer(nextNode())}
		return nats.Connect(cfg.NATSURL, append(defaults, options...)...)
	}
}

// nextNode chooses the node that a client goes to next: the one where it was longest ago. It
// leaves out a node that did not answer in the last seconds, because an attempt to connect
// blocks the client.
func nextNode() nats.ReconnectToServerHandler {
	const rest, pause = 2 * time.Second, 200 * time.Millisecond
	tried := map[string]time.Time{}
	return func(nodes []nats.Server, _ nats.ServerInfo) (*nats.Server, time.Duration) {
		dead := func(n *nats.Server) bool { return n.Reconnects > 0 && time.Since(tried[n.URL.Host]) < rest }
		next := &nodes[len(nodes)-1] // at first, the client is at one of the others
		for i := len(nodes) - 2; i >= 0; i-- {
			n := &nodes[i]
			if dead(n) == dead(next) && tried[n.URL.Host].Before(tried[next.URL.Host]) || dead(next) && !dead(n) {
				next = n
			}
		}
		wait := pause - time.Since(tried[next.URL.Host])
		tried[next.URL.Host] = time.Now().Add(max(0, wait))
		return next, max(0, wait)
	}
}

// NewBase connects to the log and the database, and waits up to a minute for both to
// start. Then it migrates the tables to this build's version, however long that takes.
func NewBase(ctx context.Context, cfg config.Config, logger *slog.Logger, dial Connector) (*Base, error) {
	return newBase(ctx, cfg, logger, dial, nil)
}

// newBase does the work of NewBase. embedded is the log's server if it runs in this
// process.
func newBase(ctx context.Context, cfg config.Config, logger *slog.Logger, dial Connector, embedded *localnats.Server) (*Base, error) {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	b := &Base{Config: cfg, Logger: logger, Registry: prometheus.NewRegistry(), embedded: embedded}
	b.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := b.openTraces(starting); err != nil {
		return nil, err
	}
	if err := b.openLog(starting, dial); err != nil {
		b.Close()
		return nil, err
	}
	b.Log = b.Stream
	if embedded != nil {
		b.Log = eventlog.WithGroupSync(b.Stream, b.syncOf(eventlog.StreamName, false))
	}
	if err := b.openDatabase(ctx, starting); err != nil {
		b.Close()
		return nil, err
	}
	b.registerCertificates()
	b.registerReplicas()
	return b, nil
}

// cachedOwners bounds the owners whose states and keys are kept in memory, about 6 kB each.
const cachedOwners = 25_000

// syncOf returns the function that makes what a stream acknowledged durable, nil if its
// server does. rewritten means that the stream's older messages may be deleted.
func (b *Base) syncOf(stream string, rewritten bool) func(context.Context) error {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.GroupSync(stream, rewritten).Sync
}

// UnlessAsked returns err, the error of a start, or nil if ctx has ended: then the start
// failed because the process was asked to stop.
func UnlessAsked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (b *Base) openTraces(ctx context.Context) (err error) {
	if b.Config.TraceEndpoint == "" {
		return nil
	}
	b.Traces, err = telemetry.Start(ctx, telemetry.Config{
		Endpoint: b.Config.TraceEndpoint, Service: cmp.Or(b.Config.ServiceName, "memory-ledger"), Logger: b.Logger,
	})
	return err
}

func (b *Base) openLog(ctx context.Context, dial Connector) error {
	var err error
	if b.NATS, b.log, err = dialLog(b.Logger, dial); err != nil {
		return err
	}
	if b.js, err = jetstream.New(b.NATS); err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	if err := b.log.ask(ctx, func(ctx context.Context) error {
		b.Stream, err = eventlog.Open(ctx, b.NATS)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if err = b.mayMake(); err != nil {
				return err
			}
			if _, err = natsconf.Create(ctx, b.js, eventlog.StreamName, b.Config.NATSReplicas); err == nil {
				b.Stream, err = eventlog.Open(ctx, b.NATS)
			}
		}
		return err
	}); err != nil {
		return err
	}
	// Elsewhere than at the leader's node, each message and its acknowledgement take a way
	// through one node more. Only the start moves the connection there: when another node
	// takes the lead, moving it would interrupt what is under way.
	b.moveTo(ctx, true)
	// The rest of the log can still be served.
	if err := b.Stream.Damaged(ctx); errors.Is(err, eventlog.ErrDamaged) {
		b.Logger.Error("the log's server has lost messages", "err", err)
	}
	return nil
}

// errNotProvisioned says that the streams do not exist and that an operator has to
// create them.
var errNotProvisioned = errors.New("the log's streams are not there: run `ledger provision`")

// mayMake returns an error if this service must not create missing streams. On a cluster
// an operator decides how many servers keep each message, and buckets must be read only
// from the leader.
func (b *Base) mayMake() error {
	if natsconf.Clustered(b.NATS) {
		return errNotProvisioned
	}
	return nil
}

func natsOptions(logger *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name("memory-ledger"),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		// While disconnected, a publish fails at once and is not buffered: the caller
		// must know whether the message was stored.
		nats.ReconnectBufSize(-1),
		// Addresses that a cluster announces carry no credentials. A server at such an
		// address would refuse the client, and the refusal would end the connection for
		// good.
		nats.IgnoreDiscoveredServers(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				logger.Warn("log disconnected", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { logger.Info("log connected again", "node", nc.ConnectedServerName()) }),
	}
}

// openDatabase waits for the database until starting ends. A migration that has begun by
// then, in this service or another, may run as long as it needs: if each start aborted
// the migration, the next start would begin it again, and it would never finish.
func (b *Base) openDatabase(ctx, starting context.Context) error {
	var err error
	if b.Pool, err = schema.OpenPool(ctx, b.Config.DatabaseURL, schema.Live, 16); err != nil {
		return err
	}
	if err := waitingForDatabase(b.Logger).eventually(starting, func() error { return schema.Migrate(ctx, b.Pool) }); err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	b.registerPool()
	return nil
}

// ask repeats a request to the log's server with eventually. A cluster that is electing a
// leader does not answer at all, so each try has its own deadline. A request that is not
// permitted is repeated too: it may be permitted once the streams exist.
func (w waiting) ask(ctx context.Context, question func(context.Context) error) error {
	return w.eventually(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		return w.refused.during(ctx, question)
	})
}

func (b *Base) Close() {
	if b.Pool != nil {
		b.Pool.Close()
	}
	if b.NATS != nil {
		b.NATS.Close()
	}
	b.Traces.Stop() // last, so that the spans that end here are sent
}

// bucket opens a bucket, or creates it if the server and the credentials allow that.
func (b *Base) bucket(ctx context.Context, name string) (bucket jetstream.KeyValue, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = b.log.ask(ctx, func(ctx context.Context) error {
		bucket, err = b.js.KeyValue(ctx, name)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			if err = b.mayMake(); err != nil {
				return err
			}
			bucket, err = natsconf.CreateBucket(ctx, b.js, name, b.Config.NATSReplicas)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return bucket, nil
}

// Neighbors describes the other parts that run in an API's process. The zero value is for
// an API that runs alone.
type Neighbors struct {
	// Workers maps each worker's name to its check. The APIs' readiness shows the error
	// of a check, but the APIs stay ready.
	Workers map[string]func() error
	// APIs is the number of APIs that share the process's limit on open files. 0 means 1.
	APIs int
}

// APIServer holds the parts with which both APIs execute commands and read.
type APIServer struct {
	*Base
	neighbors Neighbors

	Fence    *fence.Fence
	Commands *command.Executor
	Keys     *keystore.Store
	Chain    *chainview.View

	// For sign-in: the nonce keys, the bucket of used nonces, and the function that syncs
	// this bucket (nil: the server syncs it).
	nonceKeys   []signin.NonceKey
	spentNonces jetstream.KeyValue
	syncSpent   func(context.Context) error

	texts   *memory.TextCache
	slots   *memory.FairScheduler
	damaged atomic.Uint64 // memories that were found damaged
	quotas  *quota.Quotas
}

// NewAPIServer opens the buckets and prepares the command side.
func NewAPIServer(ctx context.Context, b *Base, neighbors Neighbors) (*APIServer, error) {
	d := &APIServer{
		Base: b, neighbors: neighbors, texts: memory.NewTextCache(b.Config.BodyCacheBytes), slots: memory.NewFairScheduler(),
		quotas: quota.New(quota.Limits{
			quota.Writes: b.Config.QuotaWrites, quota.Mints: b.Config.QuotaMints, quota.Keys: b.Config.QuotaKeys, quota.Searches: b.Config.QuotaSearches,
		}, time.Now),
	}
	var reader chainview.Reader // nil without a configured chain: answers don't show its state
	if b.Config.SolanaRPCURL != "" {
		client, err := b.Config.Chain()
		if err != nil {
			return nil, err
		}
		reader = client
	}
	d.Chain = chainview.New(reader, 2*time.Second, time.Now, b.Logger)
	masters, err := b.masters(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := b.bucket(ctx, keystore.Bucket)
	if err != nil {
		return nil, err
	}
	if err := b.masterFits(ctx, masters); err != nil {
		return nil, err
	}
	var stream jetstream.Stream
	err = b.log.ask(ctx, func(ctx context.Context) (err error) {
		if stream, err = b.js.Stream(ctx, keystore.Stream); err == nil {
			err = eventlog.CheckRestored(stream)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the keystore: %w", err)
	}
	store := keystore.Config{
		Masters: masters, Cached: cachedOwners, MaxAge: b.Config.KeyMaxAge, Stream: stream,
		Sync: b.syncOf(keystore.Stream, true), Ask: b.Stream.Ask,
		Forgotten: d.texts.Drop,
	}
	d.Keys = keystore.Open(keys, store)
	go d.watchKeys(ctx)
	d.nonceKeys, d.syncSpent = signin.DeriveNonceKeys(masters), b.syncOf(signin.NonceStream, true)
	if d.spentNonces, err = b.bucket(ctx, signin.NonceBucket); err != nil {
		return nil, err
	}
	d.Fence = b.newFence(fence.Options{Registerer: b.Registry, OnExchange: func() { d.Commands.Forget(); d.texts.Drop("") }})
	d.Commands = command.NewExecutor(command.Config{
		Log: fitting{b.Log, d.Fence.CheckLog, newAppends(b.Registry)}, Loader: command.ReadModel{Pool: b.Pool, Now: time.Now, CountBytes: b.Config.QuotaBytesPerDay > 0}, Source: "/ledger",
		NewID: NewID, CachedOwners: cachedOwners,
	})
	b.registerOwners("states", d.Commands.Cached)
	b.registerOwners("keys", d.Keys.Cached)
	b.registerHits("states", d.Commands.Hits)
	b.registerHits("keys", &d.Keys.Hits)
	b.registerHits("texts", &d.texts.Hits)
	b.gauge("ledger_cached_bytes", "Bytes kept in memory, by what is kept.", prometheus.Labels{"cache": "texts"}, func() float64 { return float64(d.texts.Bytes()) })
	b.counter("ledger_damaged_memories_total", "Memories that were read and did not match their leaves. Run ledger rebuild --force.", nil,
		func() float64 { return float64(d.damaged.Load()) })
	return d, nil
}

// watchKeys drops keys from memory soon after they were forgotten.
func (d *APIServer) watchKeys(ctx context.Context) {
	ticker := time.NewTicker(keystore.WatchInterval)
	defer ticker.Stop()
	d.Keys.Watch(ctx, ticker.C)
}

// masters opens the master keys. The program that has the device may still be starting.
func (b *Base) masters(ctx context.Context) (masters []keystore.Master, err error) {
	if err := b.Config.Check(config.NeedMasterKey); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = (waiting{what: "the device of the master key", logger: b.Logger, because: func(err error) reason { return reason{why: err} }}).eventually(ctx, func() error {
		masters, err = openMasters(ctx, b.Config)
		return err
	})
	return masters, err
}

// masterFits returns an error if the master key does not open the existing data keys.
// Such a key would wrap the data keys of new owners, and from then on both master keys
// would be needed.
func (b *Base) masterFits(ctx context.Context, masters []keystore.Master) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var newest string
	err := b.log.ask(ctx, func(ctx context.Context) (err error) {
		newest, err = keystore.NewestMaster(ctx, b.js)
		return err
	})
	if err != nil {
		return err
	}
	return keystore.Fits(newest, masters)
}

// memories returns the memory service of one API. Only the core API's service may destroy
// keys.
func (d *APIServer) memories(commands *command.Executor, destroys bool) *memory.Service {
	cfg := memory.Config{
		Commands: commands, Keys: d.Keys, Pool: d.Pool, NewID: NewID, Fence: d.Fence, LastSeen: d.Chain.Last, Quotas: d.quotas,
		Now: time.Now, AnchorMaxWait: d.Config.AnchorMaxWait, BytesPerDay: d.Config.QuotaBytesPerDay,
		Texts: d.texts, Slots: d.slots, Logger: d.Logger, DamagedMemories: &d.damaged,
	}
	if destroys {
		cfg.DestroyKey = func(ctx context.Context, owner events.Owner, before int) error {
			return d.Keys.Destroy(ctx, d.js, owner, before)
		}
	}
	return memory.New(cfg)
}

// finishForgetting destroys the keys that the log says are destroyed, at the start and every
// minute, until ctx ends.
func (d *APIServer) finishForgetting(memories *memory.Service) func(context.Context) {
	return func(ctx context.Context) {
		for after := uint64(0); ; {
			var err error
			if after, err = memories.FinishForgetting(ctx, after); err != nil && ctx.Err() == nil {
				d.Logger.Error("memories were forgotten whose keys are not destroyed yet; next attempt in a minute", "err", err)
			}
			if !eventlog.Pause(ctx, time.Minute) {
				return
			}
		}
	}
}

func (d *APIServer) probes() []httpapi.Probe {
	scrub := &scrub{log: d.Stream, keys: d.Keys, pool: d.Pool}
	probes := []httpapi.Probe{
		{Name: "log", Check: func(ctx context.Context) error {
			_, err := d.Log.Head(ctx)
			return err
		}},
		// Advisory: the rest of the log can still be served. A projector that needs a
		// lost message stops.
		{Name: "log content", Advisory: true, Check: scrub.checkLog},
		{Name: "data keys", Advisory: true, Check: scrub.checkKeys},
		{Name: "replicas", Check: d.checkReplicas, Advisory: true},
		{Name: "database", Check: d.Pool.Ping},
		{Name: "projection", Check: d.Fence.WaitAll},
	}
	for name, ready := range d.neighbors.Workers {
		probes = append(probes, httpapi.Probe{Name: name, Advisory: true, Check: func(context.Context) error { return ready() }})
	}
	return probes
}
