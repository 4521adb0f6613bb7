package assembly

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
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

// gauge and counter export a value that each scrape reads. labels may be nil.
func (b *Base) gauge(name, help string, labels prometheus.Labels, value func() float64) {
	b.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

func (b *Base) counter(name, help string, labels prometheus.Labels, value func() float64) {
	b.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// registerPool exports the state of the database connections.
func (b *Base) registerPool() {
	of := func(value func(*pgxpool.Stat) float64) func() float64 {
		return func() float64 { return value(b.Pool.Stat()) }
	}
	b.gauge("ledger_pool_in_use", "Database connections in use.", nil, of(func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) }))
	b.gauge("ledger_pool_open", "Database connections that are open.", nil, of(func(s *pgxpool.Stat) float64 { return float64(s.TotalConns()) }))
	b.gauge("ledger_pool_limit", "Database connections that may be open.", nil, of(func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) }))
	b.counter("ledger_pool_waits_total", "Times that a connection had to be waited for.", nil, of(func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) }))
	b.counter("ledger_pool_wait_seconds_total", "Time spent waiting for a connection.", nil, of(func(s *pgxpool.Stat) float64 { return s.EmptyAcquireWaitTime().Seconds() }))
}

// registerHits exports the hits and misses of a cache.
func (b *Base) registerHits(name string, counter *cachestats.Counter) {
	for result, n := range map[string]*atomic.Uint64{"hit": &counter.Hits, "miss": &counter.Misses} {
		b.counter("ledger_cache_lookups_total", "Lookups in caches, by cache and whether it had what was wanted.",
			prometheus.Labels{"cache": name, "result": result}, func() float64 { return float64(n.Load()) })
	}
}

// registerOwners shows how full a cache of owners is.
func (b *Base) registerOwners(name string, size func() int) {
	b.gauge("ledger_cached_owners", "Owners kept in memory, by what is kept of them.", prometheus.Labels{"cache": name}, func() float64 { return float64(size()) })
}

// registerCertificates exports when the certificates of the log's and the database's
// servers expire. An operator who has to renew them sees these times nowhere else.
func (b *Base) registerCertificates() {
	register := func(of string, expiry func() float64) {
		b.gauge("ledger_certificate_expiry_timestamp_seconds", "When the certificate of the other end expires; 0 where the connection has none.",
			prometheus.Labels{"of": of}, expiry)
	}
	register("log", func() float64 {
		state, err := b.NATS.TLSConnectionState()
		if err != nil {
			return 0
		}
		return expiry(state)
	})
	register("database", b.databaseExpiry)
}

// databaseExpiry borrows a connection. It returns 0 if none is free soon.
func (b *Base) databaseExpiry() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := b.Pool.Acquire(ctx)
	if err != nil {
		return 0
	}
	defer conn.Release()
	secured, is := conn.Conn().PgConn().Conn().(*tls.Conn)
	if !is {
		return 0
	}
	return expiry(secured.ConnectionState())
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
	listener, err := listen("OPS_ADDR", b.Config.OpsAddr)
	if err != nil {
		return err
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

// checkReplicas is a probe. It ignores a log that does not answer, because another probe
// reports that.
func (b *Base) checkReplicas(ctx context.Context) error {
	is, err := b.Stream.Replication(ctx)
	if err != nil {
		return nil
	}
	return is.Err()
}

// registerReplicas exports how large the log is, and how many copies of it are missing.
// Nothing else shows the second number, because the service goes on without the missing
// copies.
func (b *Base) registerReplicas() {
	gauge := func(name, help string, of func(eventlog.Replication) float64) {
		b.gauge(name, help+"; NaN while the log does not say.", nil, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			is, err := b.Stream.Replication(ctx)
			if err != nil {
				return math.NaN()
			}
			return of(is)
		})
	}
	gauge("ledger_log_replicas_missing", "Replicas of the log that should be there and are away, or far behind",
		func(is eventlog.Replication) float64 { return float64(is.Wanted - is.Current()) })
	gauge("ledger_log_bytes", "Size of the log on each of its nodes", func(is eventlog.Replication) float64 { return float64(is.Bytes) })
}

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
