export {
  AnchorError, ApiError, CantCompleteError, ChainUnreachableError, ChallengeError, ConflictError, ConnectionError, ConsistencyError, ContentMismatchError, CorsError, ForbiddenError, GoneError,
  IdempotencyError, IncompleteExportError, IncompleteListError, InclusionError, InvalidRequestError, LeafMismatchError, LedgerError, LogForkedError,
  LogShrankError, MalformedError, NoCorrectionError, NotAnchoredError, NotFoundError, OwnerMismatchError, RateLimitedError, RootMismatchError, StaleProofError, TimeoutError,
  TransactionError, UnauthorizedError, UnavailableError, VerificationError, WrongMemoryError,
} from "./errors.js";
export { fromBase58, toBase58 } from "./bytes.js";
export { canonicalize } from "./canonical.js";
export { checkIssuer, checkOnchain, commitmentAddress } from "./chain.js";
export type { Anchored, ChainOptions, Issuer, Onchain } from "./chain.js";
export { completeOnchain, completeReceipt, verifyCorrection } from "./complete.js";
export { consistencyRoots, directionsOf, emptyRoot, fold, isConsistent, leafHash, nodeHash, RootOfLeaves } from "./merkle.js";
export { entryHash, parseReceipt, verifyReceipt } from "./receipt.js";
export type { Anchor, ConsistencyProof, CreatedKey, CreatedMemory, Entry, Event, FoundMemory, ImportResult, InclusionProof, Key, LiveSession, LogHead, Memory, Metadata, NewKey, NewMemory, Receipt, Scope, SearchFilter, Session, StakingStatus, UnsignedTransaction, Via } from "./schema/core.js";
export { MemoryLedger } from "./client.js";
export type { FoundPage, ListOptions, Options, SearchOptions, SearchPageOptions, WriteOptions, Written } from "./client.js";
export { verifyExport } from "./export.js";
export type { ExportedLeaf, ExportHeader } from "./export.js";
export type { EventsPage, FollowOptions, PagesOptions } from "./feed.js";
export type { Head, HeadStore } from "./heads.js";
export type { CallOptions } from "./http.js";
export type { Case, CaseStatus, Drop, DropStatus, DroppedMemory, FilledDrop, NewCase, NewDrop, Revoked } from "./schema/extension.js";
export { checkTransaction } from "./transaction.js";
export type { StakingMove, StakingProgram } from "./transaction.js";
export { keypairWallet, standardWallet } from "./wallet.js";
export type { StandardAccount, StandardWallet, Wallet } from "./wallet.js";
