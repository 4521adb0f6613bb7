package assembly

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
