package projector

import (
	"testing"
	"time"
)

// TestNoLagIsLeftOfALogThatIsGone: the log was replaced by a shorter one, and the tables
// were made again. Nothing of the old log counts as not applied.
func TestNoLagIsLeftOfALogThatIsGone(t *testing.T) {
	t.Parallel()
	r, now := &Runner{}, time.Now().Add(-time.Minute)
	r.begin(20, 50, now) // the head of the old log
	r.begin(0, 30, now)
	if lag := r.Status().Lag; lag < time.Minute {
		t.Errorf("a lag of %s before anything is applied", lag)
	}
	r.applied(30)
	if s := r.Status(); s.Lag != 0 || s.State != Live {
		t.Errorf("%+v", s)
	}
}
