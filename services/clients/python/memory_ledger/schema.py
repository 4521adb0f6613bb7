"""The types of the service's answers, unchanged. generate.py writes this file."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

__all__ = [
    "Anchor",
    "App",
    "Case",
    "CaseStatus",
    "ConsistencyProof",
    "CreatedBy",
    "CreatedKey",
    "CreatedMemory",
    "Drop",
    "DropStatus",
    "DroppedMemory",
    "Entry",
    "Event",
    "Events",
    "FilledDrop",
    "FoundMemory",
    "FoundMemoryPassage",
    "Imported",
    "InclusionProof",
    "InclusionProofProof",
    "Key",
    "LiveGrant",
    "LiveSession",
    "LogHead",
    "Lot",
    "Memory",
    "NewCase",
    "NewDrop",
    "NewMemory",
    "Receipt",
    "Revoked",
    "SearchFilter",
    "SearchFilterVia",
    "Session",
    "StakingStatus",
    "UnsignedTransaction",
    "Via",
]


class Case(TypedDict):
    expiresAt: str
    id: str
    maxReads: int
    remainingReads: int
    revokedPreviousCount: int
    #: The URL for reading the memories, including the token.
    url: str


class CaseStatus(TypedDict):
    expired: bool
    readCount: int
    remainingReads: int
    revoked: bool


class Drop(TypedDict):
    expiresAt: str
    id: str
    maxWrites: int
    remainingWrites: int
    revokedPreviousCount: int
    #: The URL for writing memories, including the token.
    url: str


class DropStatus(TypedDict):
    expired: bool
    remainingWrites: int
    revoked: bool
    writeCount: int


class _DroppedMemory(TypedDict):
    #: The text. It is encrypted at rest.
    content: str


class DroppedMemory(_DroppedMemory, total=False):
    metadata: dict[str, Any]
    occurredAt: str
    #: Where the memory comes from. It is merged into metadata, so it must not contain noncharacters.
    source: str
    tags: list[str]


class FilledDrop(TypedDict):
    anchored: Literal[False]
    createdAt: str
    leafHash: str
    memoryId: str
    ok: Literal[True]


class NewCase(TypedDict, total=False):
    expiresInMinutes: int
    #: How often the case can be read. If left out, 1.
    maxReads: int
    #: Shows only the memories of this namespace. If left out, all.
    namespace: str


class NewDrop(TypedDict, total=False):
    expiresInMinutes: int
    #: How many memories can be written. If left out, 1.
    maxWrites: int
    #: Puts what is written into this namespace. If left out, into none.
    namespace: str


class Revoked(TypedDict):
    ok: Literal[True]
    revoked: bool


class Anchor(TypedDict):
    #: The owner's commitment account.
    account: str
    #: The chain, such as mainnet, devnet, testnet or localnet.
    cluster: str
    committedRoot: str
    committedSize: int
    programId: str
    slot: int
    txSignature: str


_ConsistencyProofWords = TypedDict("_ConsistencyProofWords", {"from": int}, total=True)


class ConsistencyProof(_ConsistencyProofWords):
    fromRoot: str
    proof: list[str]
    to: int
    toRoot: str


class App(TypedDict):
    """The app that got the key by OAuth. Null for a key that was made by hand."""
    #: What the app calls itself. Nobody has checked it.
    name: str
    #: Where the app's authorization code was sent.
    redirectHost: str


class CreatedBy(TypedDict):
    """The session or API key that made it. Null if that was not recorded."""
    id: str
    kind: Literal['session', 'key']


class CreatedKey(TypedDict):
    app: Union[App, None]
    createdAt: str
    createdBy: Union[CreatedBy, None]
    expiresAt: Union[str, None]
    id: str
    #: The secret, shown only here.
    key: str
    label: str
    lastUsedAt: Union[str, None]
    namespaces: Union[list[str], None]
    prefix: str
    revokedAt: Union[str, None]
    scopes: list[Literal['read', 'write', 'retract', 'share']]


class CreatedMemory(TypedDict):
    id: str
    leafHash: str
    leafIndex: int


class Entry(TypedDict):
    """The leaf's preimage. The leaf hash is computed from its canonical form (RFC 8785)."""
    content: str
    metadata: dict[str, Any]
    owner: str
    #: A salt, so that the text can't be guessed from the leaf's hash.
    salt: str
    v: Literal[1]


class _Event(TypedDict):
    commandid: str
    #: The data that the event's type defines. See `type` and `dataschema`.
    data: dict[str, Any]
    datacontenttype: Literal['application/json']
    dataschema: str
    id: str
    #: The number of the command among the owner's commands. Commands about the chain are counted separately.
    ownerversion: int
    source: str
    specversion: Literal['1.0']
    subject: str
    time: str
    type: str


class Event(_Event, total=False):
    """A CloudEvent of the log."""
    traceparent: str


class Events(TypedDict):
    #: The cursor of the last event. If there are no events, the requested cursor.
    cursor: str
    events: list[Event]


class Via(TypedDict):
    """How the memory was written: with a session or an API key of its owner, or through a memory drop, whose holder may be anyone. Null for memories that were written before this was recorded."""
    id: str
    kind: Literal['session', 'key', 'drop']


class _Imported(TypedDict):
    createdAt: str
    id: str


class Imported(_Imported, total=False):
    """Where the memory was imported from: its id there, by which routes find it too, how it was written, and when. createdAt above is that time."""
    via: Union[Via, None]


class FoundMemoryPassage(TypedDict):
    """The part of the content that answers the query best, if the content has more than 300 characters."""
    #: Where it begins in the content, in characters (Unicode code points).
    offset: int
    text: str


class _FoundMemory(TypedDict):
    #: Whether the batch was confirmed onchain.
    anchored: bool
    #: The id of the anchoring batch, a UUIDv7. Null until the memory is in a batch.
    batchId: Union[str, None]
    #: The decrypted text.
    content: str
    createdAt: str
    id: str
    leafHash: str
    leafIndex: int
    metadata: dict[str, Any]
    via: Union[Via, None]


class FoundMemory(_FoundMemory, total=False):
    """A memory. It has a score if the search was ranked, and a passage if its content is then long."""
    imported: Imported
    #: The part of the content that answers the query best, if the content has more than 300 characters.
    passage: FoundMemoryPassage
    #: How well the memory matches the query. Higher is better.
    score: float
    supersededBy: list[str]
    supersedes: list[str]


class InclusionProofProof(TypedDict):
    directions: list[bool]
    leaf: str
    leafIndex: int
    siblings: list[str]


class InclusionProof(TypedDict):
    batchRoot: str
    #: The root in the owner's commitment account when it was last read. Null if no account was ever seen.
    onchainRoot: Union[str, None]
    proof: InclusionProofProof
    #: The number of leaves that batchRoot is the root of.
    treeSize: int
    #: The signature of the transaction that committed batchRoot. Null while the memory is not anchored.
    txSignature: Union[str, None]


class Key(TypedDict):
    app: Union[App, None]
    createdAt: str
    createdBy: Union[CreatedBy, None]
    expiresAt: Union[str, None]
    id: str
    label: str
    lastUsedAt: Union[str, None]
    namespaces: Union[list[str], None]
    prefix: str
    revokedAt: Union[str, None]
    scopes: list[Literal['read', 'write', 'retract', 'share']]


class LiveGrant(TypedDict):
    by: Union[CreatedBy, None]
    createdAt: str
    expiresAt: str
    id: str
    kind: Literal['agent-case', 'memory-drop']
    maxUses: int
    #: What the holder may read, or where the holder's memories go. Null for no limit.
    namespace: Union[str, None]
    remainingUses: int


class LiveSession(TypedDict):
    #: The API that the session is for.
    api: Literal['core', 'extension']
    createdAt: str
    #: Whether this session made the request.
    current: bool
    expiresAt: str
    id: str


class LogHead(TypedDict):
    anchoredRoot: Union[str, None]
    #: How many leaves the newest confirmed batch committed. 0 before the first confirmed batch.
    anchoredSize: int
    #: Whether that memory has waited for more than three times the usual time. Nothing is lost.
    delayed: bool
    #: How many of the leaves have a memory that was not retracted, forgotten or erased.
    memories: int
    owner: str
    #: The root of the whole log. For an empty log, the SHA-256 of empty input.
    root: str
    treeSize: int
    txSignature: Union[str, None]
    #: When the oldest memory that is not anchored was written. Null if all are anchored.
    waitingSince: Union[str, None]


class _Memory(TypedDict):
    #: Whether the batch was confirmed onchain.
    anchored: bool
    #: The id of the anchoring batch, a UUIDv7. Null until the memory is in a batch.
    batchId: Union[str, None]
    #: The decrypted text. Empty only if the memory is damaged.
    content: str
    createdAt: str
    id: str
    leafHash: str
    leafIndex: int
    metadata: dict[str, Any]
    via: Union[Via, None]


class Memory(_Memory, total=False):
    #: The service's stored copy does not match the leaf, so content and metadata are empty. The log still has the memory: the operator can restore the copy.
    damaged: Literal[True]
    imported: Imported
    supersededBy: list[str]
    supersedes: list[str]


class _NewMemory(TypedDict):
    #: The text, at most 262144 bytes of UTF-8. It is encrypted at rest.
    content: str


class NewMemory(_NewMemory, total=False):
    metadata: dict[str, Any]
    namespace: str
    occurredAt: str
    #: Where the memory comes from. It is trimmed, must then have 1 to 80 characters, and replaces metadata.source.
    source: str
    #: The ids of the caller's memories that this one corrects. Their leaf hashes are stored in metadata.supersedes, so a receipt proves the correction. The old memories stay in lists and in substring search. Ranked search, recall and agent cases leave them out, until this memory is retracted.
    supersedes: list[str]
    tags: list[str]


class Receipt(TypedDict):
    #: The onchain commitment. Null while nothing is committed.
    anchor: Union[Anchor, None]
    batchRoot: str
    #: The consistency proof from treeSize to committedSize (RFC 9162).
    consistency: list[str]
    directions: list[bool]
    entry: Entry
    #: SHA-256(0x00 ‖ JCS of entry).
    leafHash: str
    leafIndex: int
    siblings: list[str]
    #: The size, in leaves, of the tree with the root batchRoot.
    treeSize: int
    version: Literal[1]


class _SearchFilterVia(TypedDict):
    kind: Literal['session', 'key', 'drop']


class SearchFilterVia(_SearchFilterVia, total=False):
    id: str


_SearchFilterWords = TypedDict("_SearchFilterWords", {"from": str}, total=False)


class SearchFilter(_SearchFilterWords, total=False):
    """Selects the memories to search. A memory must match every member that is given."""
    anchored: bool
    #: Members that the memory's metadata must have, with these values, or with lists that hold them.
    metadata: dict[str, Any]
    #: The string in metadata.namespace.
    namespace: str
    #: Selects memories that happened at this time or later. A date means the beginning of its day, UTC. A memory without occurredAt counts by createdAt.
    occurredFrom: str
    #: Selects memories that happened before this time. A date means the end of its day, UTC.
    occurredTo: str
    #: The string in metadata.source.
    source: str
    #: Whether to find memories that others supersede. By default, substring search does, and ranked search does not.
    superseded: bool
    #: Tags that the memory must have, all of them.
    tags: list[str]
    #: Selects memories that were written before this time. A date means the end of its day, UTC.
    to: str
    #: How the memory was written, here or where it was imported from. A string with the kind alone may replace the object.
    via: Union[Literal['session', 'key', 'drop'], SearchFilterVia]


class Session(TypedDict):
    expiresAt: str
    publicKey: str
    #: A JSON Web Token, for the Authorization header.
    token: str


class Lot(TypedDict):
    """A deposit with its own maturity clock. Withdrawals use the youngest lots first."""
    amount: str
    depositedAt: str
    mature: bool
    maturesAt: str
    #: The signature of the deposit's transaction. Null if the deposit was not seen yet.
    txSignature: Union[str, None]


class StakingStatus(TypedDict):
    #: The part of staked that is within the maturity window.
    cooling: str
    decimals: int
    #: Whether a stake mint and program are configured.
    live: bool
    lots: list[Lot]
    #: The part of staked that is past the maturity window.
    mature: str
    maturityMs: int
    minPartialUnstake: str
    mint: Union[str, None]
    nextMatureAt: Union[str, None]
    #: Whether the deposits and withdrawals that were seen explain staked. If they do not, staked is still the vault's balance. A surplus counts as a cooling lot without a transaction. A deficit is taken from the youngest lots.
    reconciled: bool
    #: The vault's balance onchain.
    staked: str
    vault: Union[str, None]
    walletBalance: str


class UnsignedTransaction(TypedDict):
    #: The recent blockhash in the transaction, in base58. It is confirmed, so send the transaction with preflightCommitment confirmed.
    blockhash: str
    lastValidBlockHeight: int
    #: The serialized transaction, in base64.
    transaction: str
