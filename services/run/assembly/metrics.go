package assembly

import (
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

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

// registerBytes exports the size of a cache in bytes.
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

// registerDamaged counts damaged memories.
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
