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
// Every arrow is one appended event, decided on the owner's chain version. The
// log is the only memory that counts: what this package keeps in PostgreSQL is
// a cache of the fold, and what it keeps in the process can be lost at any
// moment. There is no recovery code. An anchorer that starts finds the open
// batches in the fold and goes on with each from the state that it is in,
// through the functions that a batch of its own making goes through.
//
// What a crash leaves behind, by the step that it comes after:
//
//	BatchCut appended          a cut batch; the next anchorer submits it
//	some BatchSubmitted of a   the next anchorer records the transaction for
//	packed transaction           the other owners in it too, then sends it
//	sent                       its status on the chain decides
//	landed                     the account is read back and the batch confirmed
//	some BatchConfirmed        the others follow in the same way
//
// A transaction is given up only when it can't land any more: the finalized
// block height is past its last valid one, no status is known, and the
// finalized account lacks the commit, in this order, each read no older than
// the one before. Two exceptions need no waiting: it landed and failed, or
// preflight refused it. A refused transaction does no harm if another process
// sends it later: the program accepts no commit that shrinks or forks a log.
//
// Two anchorers do no harm. Each works for a run of partitions, all by default.
// The fold is a projection that package projector runs, in the schema ledger_anchor:
// its locks let one anchorer work on a partition while others stand by, its checkpoint
// fences rows and position, and its proofs notice another log. Where two anchorers
// share no database, the owner's expected chain version lets only one of two decisions
// into the log.
package anchorer
