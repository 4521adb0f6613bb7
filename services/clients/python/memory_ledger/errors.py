"""The errors of this package."""

import builtins
import unicodedata
from typing import Literal

Liar = Literal["service", "issuer"]


def _printable(text: str) -> str:
    """Escapes what a terminal would act on: errors quote the service and its files."""
    return "".join(f"\\u{{{ord(c):x}}}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


class LedgerError(Exception):
    """The base of every error of this package."""

    def __init__(self, message: str) -> None:
        super().__init__(_printable(message))


class ApiError(LedgerError):
    """An answer other than success. `request_id` finds the request in the service's log."""

    def __init__(self, status: int, message: str, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status, self.request_id = status, request_id


class InvalidRequestError(ApiError):
    """400, 413, 415, 416: the request must be changed."""


class UnauthorizedError(ApiError):
    """401: the credential is missing or not valid."""


class ForbiddenError(ApiError):
    """403: an API key where a session is needed, or without the scope."""


class NotFoundError(ApiError):
    """404: it does not exist, or it is another owner's."""


class ConflictError(ApiError):
    """409: too many API keys, for example."""


class GoneError(ApiError):
    """410: the text is gone; its proof still exists."""


class IdempotencyError(ApiError):
    """422: the Idempotency-Key was used with another body, or by a write that was erased since."""


class RateLimitedError(ApiError):
    """429, after all attempts."""


class UnavailableError(ApiError):
    """408 and 5xx, after all attempts. A write may have been stored: repeat it with the same key."""


_by_status: dict[int, type[ApiError]] = {
    401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 408: UnavailableError,
    409: ConflictError, 410: GoneError, 422: IdempotencyError, 429: RateLimitedError,
}


def api_error(status: int, message: str, request_id: str | None) -> ApiError:
    other = UnavailableError if status >= 500 else InvalidRequestError if status >= 400 else ApiError
    return _by_status.get(status, other)(status, message, request_id)


class ConnectionError(LedgerError, builtins.ConnectionError):
    """The connection failed or the answer broke off, after all attempts."""


class TimeoutError(LedgerError, builtins.TimeoutError):
    """No complete answer in `timeout`, after all attempts."""


class VerificationError(LedgerError):
    """A proof that does not hold.

    `liar` names the source of the false statement: "service" for an answer of the API, "issuer"
    for the maker of a receipt or an export. `field` names the member that is wrong, as far as can
    be told.
    """

    def __init__(self, field: str, problem: str, liar: Liar = "issuer") -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem, self.liar = field, problem, liar


class MalformedError(VerificationError):
    """A receipt, or another answer that is checked, is malformed."""


class ContentMismatchError(VerificationError):
    """The text or metadata differ from what the leaf commits to, or from what was written."""


class LeafMismatchError(VerificationError):
    """The leaf hash is not the hash of the entry."""


class InclusionError(VerificationError):
    """The path does not lead from the leaf to the root."""


class RootMismatchError(VerificationError):
    """The root is not the log's root at that size."""


class OwnerMismatchError(VerificationError):
    """The answer is about another owner's log."""


class ConsistencyError(VerificationError):
    """A consistency proof does not show that one tree is a prefix of the other."""


class LogShrankError(VerificationError):
    """The log, or its anchored part, is shorter than this client has seen."""


class LogForkedError(VerificationError):
    """The log is not an extension of the log that this client has seen."""


class IncompleteListError(VerificationError):
    """A list lacks a memory that it must have, or is out of order."""


class IncompleteExportError(VerificationError):
    """An export is incomplete, has a leaf twice, or is out of order."""


class WrongMemoryError(VerificationError):
    """The proof is good, but for another memory."""


class StaleProofError(VerificationError):
    """The proof is good but out of date: the log or the chain had moved on before the request."""


class ChallengeError(VerificationError):
    """The text to sign is not the one of this service, this purpose and this account. Nothing was signed."""


class TransactionError(VerificationError):
    """A staking transaction does something else than was asked for."""


class AnchorError(VerificationError):
    """The anchor is malformed, or not what the chain holds."""


class NoCorrectionError(LedgerError):
    """A receipt does not name the other one's leaf among those that it supersedes. This is no lie."""


class NotAnchoredError(LedgerError):
    """The receipt or export was made before its anchor. This is no lie: get it again, or complete it."""

    def __init__(self) -> None:
        super().__init__("not anchored yet: it was made before its anchor; get it again, or complete it")


class CantCompleteError(LedgerError):
    """The later receipt is of another memory and another tree, so nothing links it to this one."""


class ChainUnreachableError(LedgerError):
    """The Solana node gave no usable answer. This says nothing about the receipt."""


def service_lied(error: VerificationError) -> VerificationError:
    """Blames the service for a failed check of a fresh answer."""
    return error if error.liar == "service" else type(error)(error.field, error.problem, "service")
