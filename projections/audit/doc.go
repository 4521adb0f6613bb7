// Package audit checks the service's records: it replays the log once, with its own
// rules, and compares the result with the read models, the tree cache, the recorded
// batches and the chain.
//
// It shares only the events and the tree's arithmetic with the code that it checks. It
// computes each expected row itself, without the projections. If it cannot check
// something, it reports that, and does not count it as good.
//
// # How it reads
//
// The read models are read in one snapshot of the database. The log is read up to the
// position of that snapshot. Each partition has its own position, so traffic can
// continue, and projectors that share the partitions can be at different positions. The
// log is read once. The memories are read at the same time, in log order, and each row
// is compared with its event. The other tables are compared afterwards. A root that is
// too far back costs another read of that owner's messages.
//
// # Memory
//
// The audit keeps about 2 kB for each owner, plus the newest 64 leaf hashes (2 kB). It
// keeps about 300 bytes for each session, API key, grant, batch and stake movement. For
// each 256 leaves of an owner it keeps hashes of a tile and a page, 1 kB. Of ids
// that must be unique (commands, events, memories, idempotency keys) it keeps some 130 bytes
// for each memory (an estimate).
package audit
