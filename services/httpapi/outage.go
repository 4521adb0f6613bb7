package httpapi

import (
	"errors"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/memory"
)

// outageEvery is how often requests that are answered with 503 get a line in the log.
const outageEvery = time.Second

// outages thins out the lines about 503s. Whatever makes one makes thousands: of
// those with the same cause, one in a while gets a line, which says how many had none.
type outages struct {
	mu     sync.Mutex
	causes map[error]*outage // by the error of the table's row, nil for a database that is down
}

type outage struct {
	told   time.Time
	untold int
}

// tell reports whether err is to get a line, and how many before it had none.
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

// isLoad tells what was refused because there is too much to do from what failed.
func isLoad(err error) bool {
	return errors.Is(err, command.ErrOverloaded) || errors.Is(err, errBodies) || errors.Is(err, memory.ErrBusy)
}
