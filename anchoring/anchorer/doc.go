// Package anchorer commits the roots of owners' logs to the chain.
//
// It folds the log (leaves, and its own chain events) into one compact range
// and at most one open batch per owner, and drives each batch through
//
//	leaves wait
//	    │  due: ANCHOR_MAX_WAIT or ANCHOR_MAX_LEAVES; own root = tree cache's root
//	    ▼
//	   cut ───────────────────────────┐
//	    │  packed with up to seven    │
//	    │  others, signed, recorded   │
//	    ▼  before the first byte is   │
//	submitted ──────────────────┐     │
//	    │  sent until it lands, │     │
//	    │  account read back    │     │
//	    ▼                       ▼     │
//	confirmed                failed ──┘ cut again: new batch, fresh blockhash
//
// Every arrow is one appended event, decided on the owner's chain version. The log is the
// only source of truth. The rows that this package keeps in PostgreSQL are a cache of the
// fold, and its in-process state can be lost at any moment. There is no recovery code. At
// startup an anchorer finds the open batches in the fold and continues each from its
// current state, with the same functions that it uses for batches it cut itself.
//
// What a crash leaves behind, by the last step before the crash:
//
//	BatchCut appended          a cut batch; the next anchorer submits it
//	some BatchSubmitted of a   the next anchorer records the transaction for
//	packed transaction           the other owners in it too, then sends it
//	sent                       its status on the chain decides
//	landed                     the account is read back and the batch confirmed
//	some BatchConfirmed        the others follow in the same way
//
// The anchorer gives up a transaction only when the transaction can no longer land. It
// checks three things in this order, each read no older than the one before: the
// finalized block height is past the transaction's last valid one, no status is known,
// and the finalized account lacks the commit. Two cases need no waiting: the transaction
// landed and failed, or preflight refused it. A refused transaction does no harm if
// another process sends it later: the program accepts no commit that shrinks or forks a
// log.
//
// Two anchorers do no harm. Package projector runs the fold as a projection in the schema
// ledger_anchor. Its lock lets one anchorer work while others stand by. Its checkpoint fences
// rows and position, and its proofs detect a different log. If two anchorers share no
// database, the owner's expected chain version lets only one of two decisions into the
// log.
package anchorer
