"""Memory Ledger for Python: a client that checks every proof itself."""

from . import schema
from .aio import AsyncMemoryLedger
from .chain import Issuer, Onchain, check_issuer, check_onchain, commitment_address
from .client import MemoryLedger
from .complete import complete_onchain, complete_receipt, verify_correction
from .connection import Connections, Fetch, Request, Response
from .encoding import canonicalize, from_base58, to_base58
from .errors import (
    AnchorError, ApiError, CantCompleteError, ChainUnreachableError, ChallengeError, ConflictError, ConnectionError, ConsistencyError,
    ContentMismatchError, ForbiddenError, GoneError, IdempotencyError, InclusionError, IncompleteExportError, IncompleteListError,
    InvalidRequestError, LeafMismatchError, LedgerError, LogForkedError, LogShrankError, MalformedError, NoCorrectionError, NotAnchoredError,
    NotFoundError, OwnerMismatchError, RateLimitedError, RootMismatchError, StaleProofError, TimeoutError, TransactionError, UnauthorizedError,
    UnavailableError, VerificationError, WrongMemoryError,
)
from .export import ExportedLeaf, ExportHeader, verify_export
from .heads import FileHeads, Head, HeadStore
from .memories import FoundPage
from .merkle import EMPTY_ROOT, RootOfLeaves, consistency_roots, directions_of, fold, is_consistent, leaf_hash, node_hash
from .receipt import entry_hash, parse_receipt, verify_receipt
from .schema import *
from .tools import memory_tools
from .transaction import StakingProgram, check_transaction
from .wallet import KeypairWallet, Wallet

__all__ = [
    "AnchorError", "ApiError", "AsyncMemoryLedger", "CantCompleteError", "ChainUnreachableError", "ChallengeError", "ConflictError",
    "ConnectionError", "Connections", "ConsistencyError", "ContentMismatchError", "EMPTY_ROOT", "ExportHeader", "ExportedLeaf", "Fetch", "FileHeads",
    "ForbiddenError", "FoundPage", "GoneError", "Head", "HeadStore", "IdempotencyError", "InclusionError", "IncompleteExportError",
    "IncompleteListError", "InvalidRequestError", "Issuer", "KeypairWallet", "LeafMismatchError", "LedgerError", "LogForkedError", "LogShrankError",
    "MalformedError", "MemoryLedger", "NoCorrectionError", "NotAnchoredError", "NotFoundError", "Onchain", "OwnerMismatchError", "RateLimitedError",
    "Request", "Response", "RootMismatchError", "RootOfLeaves", "StakingProgram", "StaleProofError", "TimeoutError", "TransactionError",
    "UnauthorizedError", "UnavailableError", "VerificationError", "Wallet", "WrongMemoryError", "canonicalize", "check_issuer", "check_onchain",
    "check_transaction", "commitment_address", "complete_onchain", "complete_receipt", "consistency_roots", "directions_of", "entry_hash", "fold",
    "from_base58", "is_consistent", "leaf_hash", "memory_tools", "node_hash", "parse_receipt", "to_base58", "verify_correction", "verify_export",
    "verify_receipt",
]
__all__ += schema.__all__
