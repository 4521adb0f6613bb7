export * from "./errors.js";
export { fromBase58, toBase58 } from "./bytes.js";
export { canonicalize } from "./canonical.js";
export { checkIssuer, checkOnchain, commitmentAddress } from "./chain.js";
export type { ChainOptions, Issuer, Onchain } from "./chain.js";
export { consistencyRoots, directionsOf, emptyRoot, fold, isConsistent, leafHash, nodeHash, RootOfLeaves } from "./merkle.js";
export { entryHash, parseReceipt, verifyReceipt } from "./receipt.js";
export type { Anchor, ConsistencyProof, CreatedKey, CreatedMemory, Entry, FoundMemory, InclusionProof, Key, LogHead, Memory, Metadata, Receipt, Session } from "./schema/core.js";
