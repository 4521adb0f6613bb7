// Package memoryledger is a client of Memory Ledger that need not trust the service.
//
// A [Client] checks what the service says: that leaves are made of the texts that were
// written, that proofs lead to the log's root, that the log only grew since the last head
// that this client saw, and, with [WithRPC], that the root is on Solana. What fails is a
// [*VerificationError]. It says who lies, and [errors.Is] tells which lie it is.
//
// [ParseReceipt] and [ReadExport] check files without a service.
package memoryledger
