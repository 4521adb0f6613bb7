package httpapi

import (
	"errors"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/memory"
)

// outageEvery is the least time between two log lines about 503s with the same cause.
const outageEvery = time.Second

// outages thins out the log lines about 503s. One cause makes thousands of them. For each
// cause, at most one request per outageEvery gets a line, and the line says how many
// requests before it got none.
type outages struct {
	mu     sync.Mutex
	causes map[error]*outage // by the error of the table's row; nil for a database that is down
}

type outage struct {
	told   time.Time
	untold int
}

// tell reports whether err gets a line, and how many errors before it got none.
func (o *outages) tell(err error, now time.Time) (untold int, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.causes == nil {
		o.causes = map[error]*outage{}
	}
	row, _ := rowOf(err)
	cause := o.causes[row.err]
	if cause == nil {
		cause = &outage{}
		o.causes[row.err] = cause
	}
	if now.Sub(cause.told) < outageEvery {
		cause.untold++
		return 0, false
	}
	untold, *cause = cause.untold, outage{told: now}
	return untold, true
}

// isLoad distinguishes a request refused under load from a failure.
func isLoad(err error) bool {
	return errors.Is(err, command.ErrOverloaded) || errors.Is(err, errBodies) || errors.Is(err, memory.ErrBusy)
}
