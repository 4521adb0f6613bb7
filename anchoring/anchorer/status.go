package anchorer

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/memory-ledger/ledger/anchoring/chain"
)

var ErrNotReady = errors.New("anchorer not ready")

// status is the anchorer's own state, for Ready, the metrics, and the logs.
type status struct {
	mu     sync.Mutex
	chain  error
	looked time.Time // when the chain was last read
	funds  error
	alarm  error
	cache  error // the tree cache has long lacked leaves
	counts counts

	toldChain, toldFunds, toldCache error // class of the last logged trouble; nil: none
}

func (s *status) set(change func(*status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// clear forgets what a session knew about owners, chain and funds. Another anchorer may
// work for them now, and an alert on the last state of this anchorer would never end.
func (s *status) clear() {
	s.set(func(s *status) {
		s.counts, s.looked = counts{}, time.Time{}
		s.chain, s.funds, s.alarm = nil, nil, nil
		s.cache, s.toldCache = nil, nil // a new session measures the lag again
	})
}

func (s *status) setChain(err error, now time.Time) {
	s.set(func(s *status) { s.chain, s.looked = err, now })
}
func (s *status) setFunds(err error) { s.set(func(s *status) { s.funds = err }) }
func (s *status) setAlarm(err error) { s.set(func(s *status) { s.alarm = err }) }
func (s *status) setCache(err error) { s.set(func(s *status) { s.cache = err }) }

// tell logs one line when the chain, the funds or the tree cache go bad, when the class
// of the trouble changes, and when they recover. It is called at the end of a step:
// within a step, the state changes back and forth.
func (s *status) tell(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range []struct {
		is        error
		told      *error
		bad, good string
	}{
		{s.chain, &s.toldChain, "the chain can't be anchored on; memories stay unanchored until it can", "the chain can be anchored on again"},
		{s.funds, &s.toldFunds, "owners can't be paid for; their memories stay unanchored until they can", "all owners can be paid for again"},
		{s.cache, &s.toldCache, "owners can't be compared with the tree cache; their memories stay unanchored until they can", "all owners can be compared with the tree cache again"},
	} {
		class := trouble(t.is)
		if class == *t.told {
			continue
		}
		switch *t.told = class; class {
		case nil:
			log.Info(t.good)
		case errReset: // this does not recover without an operator
			log.Error("memories stay unanchored: " + t.is.Error())
		default:
			log.Warn(t.bad, "err", t.is)
		}
	}
}

// trouble returns the class of an error: the error text has numbers that change.
func trouble(err error) error {
	for _, class := range []error{errReset, errUnfunded, errBound, errLagging} {
		if errors.Is(err, class) {
			return class
		}
	}
	if err != nil {
		return chain.ErrUnreachable
	}
	return nil
}

func (s *status) probeDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// This is how often an idle anchorer checks that the chain is reachable.
	return s.looked.IsZero() || s.chain != nil || now.Sub(s.looked) >= 15*time.Second
}

// Ready returns nil while leaves are being anchored, by this anchorer or, if this
// anchorer is a standby, by another one.
func (a *Anchorer) Ready() error {
	s := &a.status
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(a.folding.Ready(), s.chain, s.funds, s.alarm, s.cache); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return nil
}

type metrics struct {
	alarms, spent prometheus.Counter
	balance       prometheus.Gauge
	latency       prometheus.Histogram
}

func newMetrics(a *Anchorer) *metrics {
	const prefix = "ledger_anchor_"
	register := promauto.With(a.cfg.Registerer)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string, labels prometheus.Labels, value func(*status) float64) {
		opts := prometheus.GaugeOpts{Name: prefix + name, Help: help, ConstLabels: labels}
		register.NewGaugeFunc(opts, func() (v float64) {
			a.status.set(func(s *status) { v = value(s) })
			return v
		})
	}
	state := func(name string) prometheus.Labels { return prometheus.Labels{"state": name} }
	const owners = "Owners by what their newest leaves wait for."
	gauge("owners", owners, state("waiting"), func(s *status) float64 { return float64(s.counts.Waiting) })
	gauge("owners", owners, state("cut"), func(s *status) float64 { return float64(s.counts.Cut) })
	gauge("owners", owners, state("submitted"), func(s *status) float64 { return float64(s.counts.Submitted) })
	gauge("oldest_unanchored_seconds", "Age of the oldest leaf that is not anchored.", nil, func(s *status) float64 {
		if s.counts.Oldest.IsZero() {
			return 0
		}
		return a.cfg.Now().Sub(s.counts.Oldest).Seconds()
	})
	gauge("active", "1 where this anchorer works, 0 where it stands by or failed.", nil, func(*status) float64 {
		if a.folding.Status().Works() {
			return 1
		}
		return 0
	})
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "ready", Help: "1 while leaves are being anchored."}, func() float64 {
		if a.Ready() != nil {
			return 0
		}
		return 1
	})
	return &metrics{
		alarms:  counter("alarms_total", "Times that anchoring of an owner was stopped: the tree cache or the chain contradicts the log, or the anchorer's own rows were altered."),
		spent:   counter("lamports_spent_total", "Lamports paid for confirmed commits, at most."),
		balance: register.NewGauge(prometheus.GaugeOpts{Name: prefix + "authority_balance_lamports", Help: "Balance of the authority when last read."}),
		latency: register.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "latency_seconds", Help: "From a batch's oldest leaf to its confirmation.", Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
	}
}
