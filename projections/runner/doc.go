// Package runner is the projector: it follows the log and keeps the read
// models up to date.
//
//	starting ──> standby ──> replaying ──> live
//	   ^            another      behind       │
//	   │            projector    the head     │
//	   │            is active                 │
//	   └────── failed <── any error ──────────┘        stopped: ctx ended
//
// The log arrives in slices, contiguous runs of up to some thousand messages,
// through a watermill Router over [SliceSubscriber]. What all projections make
// of a slice, and the checkpoint, are committed in one transaction, so every
// message takes effect exactly once: after a crash at any point the rows and
// the checkpoint agree, and the log is followed from the checkpoint on.
//
// There is one way out of every failure, and it is the way in: the connection
// is dropped (and with it the lock and the open transaction), and after a
// pause the projector starts again from the checkpoint. A slice that can't be
// applied is tried again for ever, with [Runner.Ready] saying why; nothing is
// skipped. Because the lock is released meanwhile, a standby of a newer build
// gets its chance at what this one can't read.
package runner
