// Package rebuild makes the read models again from the log, beside the live ones, and
// then replaces the live ones. Reads and writes continue meanwhile.
//
//	lock ─> discard leftovers ─> create ─> replay ─> compare, index
//	                                                     │      │
//	                                                     │      └ a difference ─> stop, unless forced
//	                                                     v
//	                      drop old <─ swap <─ catch up <─┘
//
// # The replay
//
// One connection fills the new schema, slice after slice, as a projector does. Indexes that
// no projection needs are made at the end.
//
// # The swap
//
// One transaction first locks the live checkpoint. The lock waits for the slices that
// projectors are writing, and then holds the projectors back. Now the live position can't
// move. The rebuild brings the new tables to exactly that position, renames the schemas, and commits. The
// transaction takes a few hundredths of a second.
//
//   - Projectors: a projector's waiting transaction finds a checkpoint of another
//     generation and fails as a whole, as if a second projector had overtaken it. The
//     projector starts again from the new checkpoint. In a transaction that begins later,
//     all names mean the new tables. No transaction can write to both.
//   - Readers: a query reads the tables that its names meant when it began. Both the old
//     and the new tables hold everything up to the position, so a fence that was passed
//     before is still passed. PostgreSQL plans prepared statements again, because
//     search_path now names another schema. The columns have the same types, so no client
//     notices.
//   - Transactions of several queries use schema.Snapshot, which begins again if names
//     change their meaning in between.
//   - Fences are notified, find another generation in the checkpoint, and let caches drop
//     their data from the old tables. Each fence shares a lock of the generation that it
//     trusts. The rebuild reports the new tables as live once no fence holds the lock of
//     the old generation.
//   - The notification channel is named after the schema's name, which stays the same.
//
// # Interruptions
//
// The new schema is called <live>_rebuild until the swap, and the old one <live>_old after
// it. A comment on each marks it as made by a rebuild. An interrupted rebuild leaves one of
// them behind. The next rebuild discards that schema, because an unknown build filled it up
// to an unknown point. Nothing else is left, and the live tables are always one complete
// set.
package rebuild
