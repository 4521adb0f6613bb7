/** The base of every error of this package. */
export class LedgerError extends Error {
  // Each class names itself: a minifier renames classes, and programs log or compare `name`.
  override name = "LedgerError";

  constructor(message: string, options?: ErrorOptions) {
    super(printable(message), options);
  }
}

/** Escapes what a terminal would act on: errors quote the service and its files. */
const printable = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);

/** An answer other than success. `requestId` finds the request in the service's log. */
export class ApiError extends LedgerError {
  override name = "ApiError";

  constructor(readonly status: number, message: string, readonly requestId: string | undefined) {
    super(message);
  }
}
/** 400, 413, 415, 416: the request must be changed. */
export class InvalidRequestError extends ApiError { override name = "InvalidRequestError"; }
/** 401: the credential is missing or not valid. */
export class UnauthorizedError extends ApiError { override name = "UnauthorizedError"; }
/** 403: an API key where a session is needed. */
export class ForbiddenError extends ApiError { override name = "ForbiddenError"; }
/** 404: it does not exist, or it is another owner's. */
export class NotFoundError extends ApiError { override name = "NotFoundError"; }
/** 409: too many API keys. */
export class ConflictError extends ApiError { override name = "ConflictError"; }
/** 410: the text is gone; its proof still exists. */
export class GoneError extends ApiError { override name = "GoneError"; }
/** 422: the Idempotency-Key was used with another body, or by a write that was erased since. */
export class IdempotencyError extends ApiError { override name = "IdempotencyError"; }
/** 429, after all attempts. */
export class RateLimitedError extends ApiError { override name = "RateLimitedError"; }
/** 408 and 5xx, after all attempts. A write may have been stored: repeat it with the same key. */
export class UnavailableError extends ApiError { override name = "UnavailableError"; }

const byStatus: Record<number, typeof ApiError> = {
  401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 408: UnavailableError,
  409: ConflictError, 410: GoneError, 422: IdempotencyError, 429: RateLimitedError,
};

export function apiError(status: number, message: string, requestId: string | undefined): ApiError {
  const kind = byStatus[status] ?? (status >= 500 ? UnavailableError : status >= 400 ? InvalidRequestError : ApiError);
  return new kind(status, message, requestId);
}

/** The connection failed or the answer broke off, after all attempts. */
export class ConnectionError extends LedgerError { override name = "ConnectionError"; }
/** The service answers, but not to pages of this origin. It is not called again. */
export class CorsError extends ConnectionError { override name = "CorsError"; }
/** No complete answer in `timeoutMs`, after all attempts. */
export class TimeoutError extends LedgerError { override name = "TimeoutError"; }

/**
 * A proof that does not hold. `liar` names the source of the false statement: "service" for
 * an answer of the API, "issuer" for the maker of a receipt or an export. `field` names the member
 * that is wrong, as far as can be told.
 */
export class VerificationError extends LedgerError {
  override name = "VerificationError";

  constructor(readonly field: string, readonly problem: string, readonly liar: "service" | "issuer" = "issuer") {
    super(`${field}: ${problem}`);
  }
}
/** A receipt, or another answer that is checked, is malformed. */
export class MalformedError extends VerificationError { override name = "MalformedError"; }
/** The text or metadata differ from what the leaf commits to, or from what was written. */
export class ContentMismatchError extends VerificationError { override name = "ContentMismatchError"; }
/** The leaf hash is not the hash of the entry. */
export class LeafMismatchError extends VerificationError { override name = "LeafMismatchError"; }
/** The path does not lead from the leaf to the root. */
export class InclusionError extends VerificationError { override name = "InclusionError"; }
/** The root is not the log's root at that size. */
export class RootMismatchError extends VerificationError { override name = "RootMismatchError"; }
/** The answer is about another owner's log. */
export class OwnerMismatchError extends VerificationError { override name = "OwnerMismatchError"; }
/** A consistency proof does not show that one tree is a prefix of the other. */
export class ConsistencyError extends VerificationError { override name = "ConsistencyError"; }
/** The log, or its anchored part, is shorter than this client has seen. */
export class LogShrankError extends VerificationError { override name = "LogShrankError"; }
/** The log is not an extension of the log that this client has seen. */
export class LogForkedError extends VerificationError { override name = "LogForkedError"; }
/** A list lacks a memory that it must have, or is out of order. */
export class IncompleteListError extends VerificationError { override name = "IncompleteListError"; }
/** An export is incomplete, has a leaf twice, or is out of order. */
export class IncompleteExportError extends VerificationError { override name = "IncompleteExportError"; }
/** The proof is good, but for another memory. */
export class WrongMemoryError extends VerificationError { override name = "WrongMemoryError"; }
/** The proof is good but out of date: the log or the chain had moved on before the request. */
export class StaleProofError extends VerificationError { override name = "StaleProofError"; }
/** The text to sign is not the one of this service, this purpose and this account. Nothing was signed. */
export class ChallengeError extends VerificationError { override name = "ChallengeError"; }
/** A staking transaction does something else than was asked for. */
export class TransactionError extends VerificationError { override name = "TransactionError"; }
/** The anchor is malformed, or not what the chain holds. */
export class AnchorError extends VerificationError { override name = "AnchorError"; }
/** A receipt does not name the other one's leaf among those that it supersedes. This is no lie. */
export class NoCorrectionError extends LedgerError { override name = "NoCorrectionError"; }
/** The receipt or export was made before its anchor. This is no lie: get it again, or complete it. */
export class NotAnchoredError extends LedgerError {
  override name = "NotAnchoredError";

  constructor() {
    super("not anchored yet: it was made before its anchor; get it again, or complete it");
  }
}
/** The later receipt is of another memory and another tree, so nothing links it to this one. */
export class CantCompleteError extends LedgerError { override name = "CantCompleteError"; }
/** The Solana node gave no usable answer. This says nothing about the receipt. */
export class ChainUnreachableError extends LedgerError { override name = "ChainUnreachableError"; }

/** Blames the service for a failed check of a fresh answer. */
export function serviceLied(err: unknown): unknown {
  if (!(err instanceof VerificationError) || err.liar === "service") return err;
  return new (err.constructor as typeof VerificationError)(err.field, err.problem, "service");
}
