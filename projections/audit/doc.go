// Package audit checks that the service kept its word: it replays the log once,
// with rules of its own, and compares what comes out with the read models, the
// tree cache, the recorded batches and the chain.
//
// It shares the events, the tree's arithmetic and nothing else with what it
// checks: what a row should be is worked out here a second time, not by the
// projections. What it cannot check it says, and never counts as good.
//
// # How it reads
//
// The read models are read in one snapshot of the database, and the log up to
// exactly the position of that snapshot, which is one for each partition, so
// traffic may go on meanwhile, and projectors that share the partitions need not
// agree. The log is read once, and the tables of the leaves meanwhile. Only an
// owner whose rows do not agree, or a root that lies
// too far back, costs another look at that one owner's messages.
//
// # Memory
//
// Kept for each owner: about 1 kB, and the newest 64 leaf hashes (2 kB). Kept
// for each session, API key, grant, batch and stake movement: about 300 bytes.
// Nothing is kept for a memory: an owner's rows are folded into one running
// hash on both sides, in leaf order. Of the owner whose rows are being read there
// are digests of tiles and pages, 64 bytes for each 256 leaves, and the bodies of
// one page, 2 MB at the most. Ids that must be unique (commands, events,
// memories, idempotency keys) go to a temporary file, 25 bytes each, once there
// are more than 262,144 of them.
package audit
