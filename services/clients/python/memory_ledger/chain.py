"""What the chain holds."""

import base64
import binascii
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from .connection import Connections, Fetch, Request
from .encoding import from_base58, parse_json, to_base58
from .errors import AnchorError, ChainUnreachableError, LedgerError, NotAnchoredError
from .schema import Anchor, Receipt


@dataclass(frozen=True)
class Onchain:
    """The state of a receipt's anchor account, as a Solana node reports it."""

    #: The key that commits. Compare it with the authority that the operator publishes.
    authority: str
    #: How many leaves the account commits to now. It may have grown since the receipt.
    size: int
    root: str


@dataclass(frozen=True)
class Issuer:
    """The issuer that must have anchored a receipt. Take both from a source other than the receipt."""

    program_id: str
    #: None means any. Another program can write anything to its own accounts, so it is no use alone.
    authority: str | None = None


def check_onchain(rpc_url: str, receipt: Receipt, fetch: Fetch | None = None) -> Onchain:
    """Asks a Solana node whether the chain holds what a receipt's anchor claims.

    Verify the receipt first. An AnchorError says what is wrong. A ChainUnreachableError or a
    NotAnchoredError says nothing about the receipt.
    """
    if receipt["anchor"] is None:
        raise NotAnchoredError()
    return check_anchor_onchain(rpc_url, receipt["anchor"], receipt["entry"]["owner"], fetch)


def check_issuer(receipt: Receipt, by: Issuer) -> None:
    """Checks that a receipt's anchor names the given issuer. It does not ask the chain."""
    if receipt["anchor"] is None:
        raise NotAnchoredError()
    check_anchor_issuer(receipt["anchor"], receipt["entry"]["owner"], by)


def check_anchor_onchain(rpc_url: str, a: Anchor, owner: str, fetch: Fetch | None) -> Onchain:
    node = Node(rpc_url, fetch)
    genesis = node.genesis_hash()
    if genesis != a["cluster"]:
        raise AnchorError("anchor.cluster", f"it is {a['cluster']}, the node is on the chain {genesis}")
    account = node.call("getAccountInfo", a["account"], {"encoding": "base64", "commitment": "finalized"})
    if not isinstance(account, dict) or "value" not in account:
        raise ChainUnreachableError("getAccountInfo: malformed reply")
    context = account.get("context")
    reached = context.get("slot") if isinstance(context, dict) else None
    held = _check_account(a, account["value"], reached if isinstance(reached, int) else a["slot"], owner)
    _check_transaction(a, node.transaction(a["txSignature"]), owner)
    return held


def check_anchor_issuer(a: Anchor, owner: str, by: Issuer) -> None:
    if by.program_id != a["programId"]:
        raise AnchorError("anchor.programId", f"it is {a['programId']}, not {by.program_id}")
    if by.authority is None:
        return
    authority = from_base58(by.authority, 32)
    if authority is None:
        raise TypeError("issuer: the authority is not a public key in base58")
    at = commitment_address(a["programId"], authority, from_base58(owner, 32) or b"")
    if at != a["account"]:
        raise AnchorError("anchor.account", f"it is {a['account']}, the authority commits to this owner's log at {at}")


def _check_account(a: Anchor, account: Any, reached: int, owner: str) -> Onchain:
    """Compares the account's 128 bytes (docs/audit.md has the layout) with the anchor."""
    def unless_behind(wrong: AnchorError) -> LedgerError:
        """What a node held before the anchor's slot says nothing against the anchor."""
        behind = ChainUnreachableError(f"the node has reached slot {reached}, the anchor is of slot {a['slot']}")
        return behind if reached < a["slot"] else wrong

    if not account:
        raise unless_behind(AnchorError("anchor.account", f"there is no account {a['account']} on the chain"))
    try:
        program, data = account["owner"], base64.b64decode(account["data"][0], validate=True)
    except (binascii.Error, ValueError, TypeError, LookupError):
        raise ChainUnreachableError("getAccountInfo: malformed account") from None
    if program != a["programId"]:
        raise AnchorError("anchor.programId", f"it is {a['programId']}, the account belongs to {program}")
    if len(data) != 128 or data[:8] != b"MLCOMMT1":
        raise AnchorError("anchor.account", f"{a['account']} holds no commitment")
    authority, key = data[8:40], data[40:72]
    if to_base58(key) != owner:
        raise AnchorError("anchor.account", f"{a['account']} commits to the log of {to_base58(key)}")
    derived = commitment_address(a["programId"], authority, key)
    if derived != a["account"]:
        raise AnchorError("anchor.account", f"the program keeps this owner's commitment at {derived}")
    held = Onchain(to_base58(authority), int.from_bytes(data[72:80], "little"), data[80:112].hex())
    slot = int.from_bytes(data[112:120], "little")
    if held.size < a["committedSize"]:
        raise unless_behind(AnchorError("anchor.committedSize", f"it is {a['committedSize']}, the account holds {held.size} leaves"))
    if held.size > a["committedSize"]:
        return held
    if held.root != a["committedRoot"]:
        raise AnchorError("anchor.committedRoot", f"it is {a['committedRoot']}, the account holds {held.root}")
    if slot != a["slot"]:
        raise AnchorError("anchor.slot", f"it is {a['slot']}, the account was last written in slot {slot}")
    return held


def _check_transaction(a: Anchor, tx: Mapping[str, Any] | None, owner: str) -> None:
    """Checks that the anchor's transaction committed the anchor's root.

    Once the account holds a larger size, only this check shows that.
    """
    if tx is None or not tx.get("meta"):
        raise AnchorError("anchor.txSignature", "the node knows no such transaction; if it keeps no long history, ask one that does")
    if tx["meta"].get("err"):
        raise AnchorError("anchor.txSignature", "that transaction failed")
    if (a["committedSize"], a["committedRoot"]) not in commitments(a["programId"], a["account"], tx, owner):
        raise AnchorError("anchor.txSignature", "that transaction does not commit anchor.committedRoot at anchor.committedSize to anchor.account")
    if tx["slot"] != a["slot"]:
        raise AnchorError("anchor.slot", f"it is {a['slot']}, the transaction landed in slot {tx['slot']}")


def commitments(program_id: str, account: str, tx: Mapping[str, Any], owner: str) -> list[tuple[int, str]]:
    """Returns the sizes and roots that a transaction committed to an account."""
    found = []
    try:
        keys = tx["transaction"]["message"]["accountKeys"]
        for i in tx["transaction"]["message"]["instructions"]:
            accounts = i["accounts"] or []
            if keys[i["programIdIndex"]] != program_id or len(accounts) < 2 or keys[accounts[1]] != account:
                continue
            # A tag of 8 bytes, the owner, the size, and the root.
            data = from_base58(i["data"], 80)
            if data and data[:8] == b"\1".ljust(8, b"\0") and to_base58(data[8:40]) == owner:
                found.append((int.from_bytes(data[40:48], "little"), data[48:].hex()))
    except (LookupError, TypeError):
        raise ChainUnreachableError("getTransaction: malformed transaction") from None
    return found


class Node:
    """A Solana node."""

    def __init__(self, url: str, fetch: Fetch | None) -> None:
        self._url, self._fetch = url, fetch or Connections()

    def call(self, method: str, *params: object) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = Request("POST", self._url, {"Content-Type": "application/json"}, body, timeout=15)
        try:
            reply = parse_json(b"".join(self._fetch(request).parts))
            if reply.get("error"):
                raise ValueError(reply["error"]["message"])
            return reply["result"]
        except http.client.InvalidURL:  # quotes a part of the URL
            raise ChainUnreachableError(f"{method}: the node's URL is malformed, or has a user name or a password") from None
        except Exception as err:
            # The URL may hold a key, so report only the reason.
            raise ChainUnreachableError(f"{method}: {err or type(err).__name__}") from None

    def genesis_hash(self) -> str:
        found = self.call("getGenesisHash")
        if not isinstance(found, str):
            raise ChainUnreachableError("getGenesisHash: malformed reply")
        return found

    def transaction(self, signature: str) -> Mapping[str, Any] | None:
        found = self.call("getTransaction", signature, {"encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 1})
        return found if isinstance(found, dict) else None


def commitment_address(program_id: str, authority: bytes, owner: bytes) -> str | None:
    """The canonical program-derived address of ["commitment", authority, owner]."""
    return program_address(program_id, b"commitment", authority, owner)


def program_address(program_id: str, *seeds: bytes) -> str | None:
    """A program's canonical derived address."""
    program = from_base58(program_id, 32)
    if program is None:
        return None
    for bump in range(255, -1, -1):
        found = sha256(b"".join(seeds) + bytes([bump]) + program + b"ProgramDerivedAddress").digest()
        if not _on_curve(found):
            return to_base58(found)
    return None


_p = 2**255 - 19
_d = 37095705934669439343138083508754565189542113879843219016388785533085940283555


def _on_curve(point: bytes) -> bool:
    """Whether 32 bytes are a point of ed25519: whether (y² - 1) / (dy² + 1) is a square."""
    y = int.from_bytes(point, "little") & (1 << 255) - 1  # without the sign of x
    y2 = y * y % _p
    x2 = (y2 - 1) * pow(_d * y2 + 1, _p - 2, _p) % _p
    return x2 == 0 or pow(x2, (_p - 1) // 2, _p) == 1
