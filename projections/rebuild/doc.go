// Package rebuild makes the read models again from the log, beside the live
// ones, and puts them in their place. Reads and writes go on meanwhile.
//
//	lock ─> discard leftovers ─> create ─> replay ─> compare, index
//	                                                     │      │
//	                                                     │      └ a difference ─> stop, unless forced
//	                                                     v
//	                      drop old <─ swap <─ catch up <─┘
//
// # The replay
//
// Two connections fill the new schema, slice after slice: one writes the memories,
// which are half of the work, the other what all other projections make of the
// slice before, and the checkpoint. Rows and checkpoint do not commit together
// here. That does no harm: what an interrupted replay leaves is discarded. From
// then on, to catch up and under the swap's locks, one connection does it all in
// one transaction a slice, as a projector does.
//
// # The swap
//
// One transaction first locks the live checkpoint. That waits for the slices that
// projectors are writing, and from then on holds them back. Now the live position
// can't move; the new tables are brought to exactly that position, which is a
// sequence for each run of partitions (see [projector.Vector]); the schemas are
// renamed; the transaction commits. It takes some hundredths of a second.
//
//   - Projectors: a transaction of theirs that waited finds a checkpoint of another
//     generation and fails as a whole, as if a second projector had overtaken it;
//     they start again from the new checkpoint. One that begins later finds every
//     name meaning the new tables. None can write to both.
//   - Readers: a query reads the tables that its names meant when it began. The
//     old ones hold everything up to the position, the new ones too, so a fence
//     that was passed before is still passed. Prepared statements are planned
//     again by PostgreSQL because the schema that search_path names is another
//     one; their columns have the same types, so no client notices.
//   - Transactions of several queries use schema.Snapshot, which begins again
//     when names change their meaning in between.
//   - Fences are notified, find another generation in the checkpoint, and have what
//     was kept of the old tables dropped. Each shares a lock of the generation that it
//     believes in: the rebuild says that the new tables are live once no fence has that
//     of the old ones.
//   - The notification channel is named after the schema's name, which stays.
//
// # One projection
//
// With a projection named, only its tables are made again and exchanged, under a
// short exclusive lock. The checkpoint stays, and gets another generation. What
// the projection reads of others (the tree reads leaf hashes from the memories,
// the pages read their bodies) it reads from the live tables. If those are damaged,
// rebuild everything.
//
// # Interruptions
//
// The new schema is called <live>_rebuild until the swap, the old one <live>_old
// after it; both carry a comment that says whose they are. A rebuild that was
// interrupted leaves one of them behind, which the next one discards: what it
// holds was made by an unknown build up to an unknown point. Nothing else is
// left, and the live tables are always one complete set.
package rebuild
