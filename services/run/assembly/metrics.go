package assembly

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/events/eventlog"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// registerPool exports the state of the database connections.
func registerPool(registerer prometheus.Registerer, pool *pgxpool.Pool) {
	gauge := func(name, help string, value func(*pgxpool.Stat) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ledger_pool_" + name, Help: help},
			func() float64 { return value(pool.Stat()) })
	}
	counter := func(name, help string, value func(*pgxpool.Stat) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ledger_pool_" + name, Help: help},
			func() float64 { return value(pool.Stat()) })
	}
	registerer.MustRegister(
		gauge("in_use", "Database connections in use.", func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) }),
		gauge("open", "Database connections that are open.", func(s *pgxpool.Stat) float64 { return float64(s.TotalConns()) }),
		gauge("limit", "Database connections that may be open.", func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) }),
		counter("waits_total", "Times that a connection had to be waited for.", func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) }),
		counter("wait_seconds_total", "Time spent waiting for a connection.", func(s *pgxpool.Stat) float64 { return s.EmptyAcquireWaitTime().Seconds() }),
	)
}

func registerBytes(registerer prometheus.Registerer, name string, size func() int64) {
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledger_cached_bytes", Help: "Bytes kept in memory, by what is kept.", ConstLabels: prometheus.Labels{"cache": name},
	}, func() float64 { return float64(size()) }))
}

// registerHits exports the hits and misses of a cache.
func registerHits(registerer prometheus.Registerer, name string, counter *cachestats.Counter) {
	series := func(result string, value func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "ledger_cache_lookups_total", Help: "Lookups in caches, by cache and whether it had what was wanted.",
			ConstLabels: prometheus.Labels{"cache": name, "result": result},
		}, func() float64 { return float64(value()) })
	}
	registerer.MustRegister(
		series("hit", func() uint64 { n, _ := counter.Counts(); return n }),
		series("miss", func() uint64 { _, n := counter.Counts(); return n }))
}

// registerStreams shows how many event streams are open.
func registerStreams(registerer prometheus.Registerer, open func() int) {
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledger_event_streams", Help: "Event streams that are open.",
	}, func() float64 { return float64(open()) }))
}

func registerDamaged(registerer prometheus.Registerer, damaged *atomic.Uint64) {
	registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "ledger_damaged_memories_total",
		Help: "Memories that were read and did not match their leaves. Run ledger rebuild --force.",
	}, func() float64 { return float64(damaged.Load()) }))
}

// registerCache shows how full a cache of owners is.
func registerCache(registerer prometheus.Registerer, name string, size func() int) {
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledger_cached_owners", Help: "Owners kept in memory, by what is kept of them.", ConstLabels: prometheus.Labels{"cache": name},
	}, func() float64 { return float64(size()) }))
}

const (
	// lookEvery is how often the database's certificate is read. Each read takes a
	// connection. lookTimeout bounds the wait for the connection.
	lookEvery   = time.Hour
	lookTimeout = time.Second
)

// registerCertificates exports when the certificates of the log's and the database's
// servers expire. An operator who has to renew them sees these times nowhere else.
func (b *Base) registerCertificates() {
	gauge := func(of string, expiry func() float64) {
		b.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ledger_certificate_expiry_timestamp_seconds", ConstLabels: prometheus.Labels{"of": of},
			Help: "When the certificate of the other end expires; 0 where the connection has none.",
		}, expiry))
	}
	gauge("log", func() float64 {
		state, err := b.NATS.TLSConnectionState()
		if err != nil {
			return 0
		}
		return expiry(state)
	})
	var mu sync.Mutex
	var looked time.Time
	var last float64
	gauge("database", func() float64 {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(looked) < lookEvery {
			return last
		}
		if is, ok := b.databaseExpiry(); ok {
			last, looked = is, time.Now()
		}
		return last
	})
}

func (b *Base) databaseExpiry() (float64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	conn, err := b.Pool.Acquire(ctx)
	if err != nil {
		return 0, false
	}
	defer conn.Release()
	secured, is := conn.Conn().PgConn().Conn().(*tls.Conn)
	if !is {
		return 0, true
	}
	return expiry(secured.ConnectionState()), true
}

// expiry returns the earliest expiry time in a certificate chain, in seconds since 1970,
// or 0 if there is no certificate.
func expiry(state tls.ConnectionState) float64 {
	var earliest time.Time
	for _, c := range state.PeerCertificates {
		if earliest.IsZero() || c.NotAfter.Before(earliest) {
			earliest = c.NotAfter
		}
	}
	if earliest.IsZero() {
		return 0
	}
	return float64(earliest.Unix())
}

// withOps runs a worker. If OPS_ADDR is set, it also answers /livez, /readyz and /metrics
// while the worker runs.
func withOps(ctx context.Context, b *Base, name string, ready func() error, run func(context.Context) error) error {
	if b.Config.OpsAddr == "" {
		return run(ctx)
	}
	listener, err := net.Listen("tcp", b.Config.OpsAddr)
	if err != nil {
		return fmt.Errorf("OPS_ADDR: %w", err)
	}
	b.Logger.Info("operations", "addr", listener.Addr().String())
	server := &http.Server{Handler: opsHandler(b, name, ready), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer server.Close()
		return run(ctx)
	})
	group.Go(func() error {
		if err := server.Serve(listener); ctx.Err() == nil && err != http.ErrServerClosed {
			return fmt.Errorf("OPS_ADDR: %w", err)
		}
		return nil
	})
	return group.Wait()
}

func opsHandler(b *Base, name string, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answerProbe(w, name, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerProbe(w, name, ready()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.Registry, promhttp.HandlerOpts{}))
	return mux
}

func answerProbe(w http.ResponseWriter, name string, err error) {
	state := struct {
		OK     bool              `json:"ok"`
		Checks map[string]string `json:"checks"`
	}{err == nil, map[string]string{name: "ok"}}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		state.Checks[name] = err.Error()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state) // the client may have gone
}

const replicasTimeout = time.Second

// replicas caches the state of the log's replicas for ten seconds: probes and scrapes are
// frequent, and for each answer the log's leader must describe the stream.
type replicas struct {
	ask func(context.Context) (eventlog.Replication, error)

	mu    sync.Mutex
	asked time.Time
	last  eventlog.Replication
	err   error
}

func (r *replicas) look() (eventlog.Replication, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < 10*time.Second {
		return r.last, r.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), replicasTimeout)
	defer cancel()
	r.last, r.err = r.ask(ctx)
	r.asked = time.Now()
	return r.last, r.err
}

// check is a probe. It ignores a log that does not answer, because another probe reports
// that.
func (r *replicas) check(context.Context) error {
	is, err := r.look()
	if err != nil {
		return nil
	}
	return is.Err()
}

// registerReplicas exports how large the log is, and how many copies of it are missing.
// Nothing else shows the second number, because the service goes on without the missing
// copies.
func (b *Base) registerReplicas() {
	b.replicas = &replicas{ask: b.Stream.Replication}
	gauge := func(name, help string, of func(eventlog.Replication) float64) {
		b.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help + "; NaN while the log does not say."}, func() float64 {
			is, err := b.replicas.look()
			if err != nil {
				return math.NaN()
			}
			return of(is)
		}))
	}
	gauge("ledger_log_replicas_missing", "Replicas of the log that should be there and are away, or far behind",
		func(is eventlog.Replication) float64 { return float64(is.Wanted - is.Current()) })
	gauge("ledger_log_bytes", "Size of the log on each of its nodes", func(is eventlog.Replication) float64 { return float64(is.Bytes) })
}

// approachLeader moves the connection to the node that leads the log: elsewhere, each
// message and its acknowledgement take a way through one node more. It is for the start: a
// connection stays where it is when another node takes the lead, because moving it would
// interrupt what is under way.
func (b *Base) approachLeader(ctx context.Context) { b.moveTo(ctx, true) }

// turn keeps a projector that works near the log's leader, and its standby at another node.
// So one node that fails does not take both.
func (b *Base) turn(ctx context.Context, working bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b.moveTo(ctx, working)
}

// moveTo moves the connection to the log's leader, or away from it. It tries each address
// of NATS_URL once, and stays where it is if none fits.
func (b *Base) moveTo(ctx context.Context, leader bool) {
	if !natsconf.Clustered(b.NATS) {
		return
	}
	connected := b.NATS.StatusChanged(nats.CONNECTED)
	defer b.NATS.RemoveStatusListener(connected)
	for range b.NATS.Servers() {
		is, err := b.Stream.Replication(ctx)
		if err != nil || (is.Replicas[0].Node == b.NATS.ConnectedServerName()) == leader || b.NATS.ForceReconnect() != nil {
			return
		}
		select {
		case <-connected:
		case <-ctx.Done():
			return
		}
	}
}
