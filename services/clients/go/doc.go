// Package memoryledger is a client of Memory Ledger that works without trust in the service.
//
// A [Client] checks the answers of the service: that leaves are the hashes of the texts
// that were written, that proofs lead to the log's root, that the log only grew since the
// last head that this client saw, and, with [WithRPC], that the root is on Solana. A
// failed check is a [*VerificationError]. It names the party that lies, and [errors.Is]
// tells the kinds of lies apart.
//
// [ParseReceipt] and [ReadExport] check files without a service.
package memoryledger
