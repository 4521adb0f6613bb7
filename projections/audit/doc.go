// Package audit checks that the service kept its word: it replays the log once, with
// rules of its own, and compares the result with the read models, the tree cache, the
// recorded batches and the chain.
//
// It shares the events and the tree's arithmetic with what it checks, and nothing
// else: it works out by itself what a row should be, without the projections. It
// reports what it cannot check, and never counts that as good.
//
// # How it reads
//
// The read models are read in one snapshot of the database. The log is read up to the
// position of that snapshot, which is one for each partition, so traffic may go on and
// projectors that share the partitions need not agree. The log is read once. The
// memories are read at the same time, in the order of the log, and each row is compared
// with its event. The other tables are compared afterwards. A root that lies too far
// back costs another read of that owner's messages.
//
// # Memory
//
// Kept for each owner: about 2 kB, and the newest 64 leaf hashes (2 kB). Kept for each
// session, API key, grant, batch and stake movement: about 300 bytes. For each 256
// leaves of an owner a tile and a page are kept as hashes, 1 kB. Ids that must be
// unique (commands, events, memories, idempotency keys) go to temporary files, 25
// bytes each, and are read back a 64th at a time.
package audit
