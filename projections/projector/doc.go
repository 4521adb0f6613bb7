// Package projector follows the log and keeps tables up to date: the read models, and
// the anchorer's owners.
//
//	starting ──> standby ──> replaying ──> live
//	   ^            another      behind       │
//	   │            projector    the head     │
//	   │            is active                 │
//	   └────── failed <── any error ──────────┘        stopped: ctx ended
//
// The log arrives in slices: contiguous runs of up to a few thousand messages. A slice is
// the payload of one message of a watermill Router over [SliceSubscriber]. The router's
// middlewares recover from panics, bound the time, measure, trace, and end the session at
// an error. One transaction commits the checkpoint and the rows that all projections make
// of a slice, so every message takes effect exactly once. After a crash at any point the
// rows and the checkpoint agree, and the projector follows the log from the checkpoint
// on.
//
// Every failure is handled alike. The projector drops the connection, which releases the
// locks and ends the open transaction. After a pause it starts again from the checkpoint.
// It retries a failing slice forever, and [Runner.Ready] returns the reason. It skips no
// message. Because it releases the locks between tries, a standby of a newer build can
// take over. If the tables do not fit the log, the projector also retries forever, until
// an operator restores the log or rebuilds the tables. [Config.Renew] empties tables that
// are only a cache. The projector makes missing tables again.
package projector
