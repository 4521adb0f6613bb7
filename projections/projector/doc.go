// Package projector follows the log and keeps the read
// models up to date.
//
//	starting ──> standby ──> replaying ──> live
//	   ^            another      behind       │
//	   │            projector    the head     │
//	   │            is active                 │
//	   └────── failed <── any error ──────────┘        stopped: ctx ended
//
// Several projectors may share the owners by partition: each takes the locks of
// a run of partitions, and stands by while another has any of them. The
// checkpoint has a row for each run, which is cut and joined as the division
// changes from one start to the next; until the rows that a projector took over
// have caught up with each other, each message is applied where it is missing,
// see [Vector].
//
// The log arrives in slices, contiguous runs of up to some thousand messages,
// through a watermill Router over [SliceSubscriber]. What all projections make
// of a slice, and the checkpoint, are committed in one transaction, so every
// message takes effect exactly once: after a crash at any point the rows and
// the checkpoint agree, and the log is followed from the checkpoint on.
//
// There is one way out of every failure, and it is the way in: the connection
// is dropped (and with it the locks and the open transaction), and after a
// pause the projector starts again from the checkpoint. A slice that can't be
// applied is tried again for ever, with [Runner.Ready] saying why; nothing is
// skipped. Because the locks are released meanwhile, a standby of a newer build
// gets its chance at what this one can't read. Tables that the log does not fit are
// tried again for ever, too: a restored log, or a rebuild, mends them. Tables that are
// gone are made again.
package projector
