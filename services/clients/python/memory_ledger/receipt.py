"""Receipts: everything in one that can be checked without the chain."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from .encoding import canonicalize, from_base58, is_count, is_hash, parse_json
from .errors import (
    AnchorError, ConsistencyError, ContentMismatchError, InclusionError, LeafMismatchError, MalformedError, RootMismatchError,
)
from .merkle import consistency_roots, directions_of, fold, leaf_hash
from .schema import Anchor, Entry, Receipt

Check = Callable[[object], bool]


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


_members: dict[str, Check] = {
    "version": is_count, "entry": is_object, "leafHash": is_hash, "leafIndex": is_count, "treeSize": is_count,
    "siblings": list_of(is_hash), "directions": list_of(is_flag), "batchRoot": is_hash,
    "anchor": or_none(is_object), "consistency": list_of(is_hash),
}
#: What the service says when it has done what was asked for.
DONE: dict[str, Check] = {"ok": lambda v: v is True}
ENTRY_MEMBERS: dict[str, Check] = {"content": is_text, "metadata": is_object, "owner": is_text, "salt": is_text, "v": is_count}
ANCHOR_MEMBERS: dict[str, Check] = {
    "cluster": is_text, "programId": is_text, "account": is_text, "txSignature": is_text, "slot": is_count,
    "committedSize": is_count, "committedRoot": is_hash,
}


def check_members(value: Mapping[str, object], expected: Mapping[str, Check], prefix: str = "") -> None:
    for name, check in expected.items():
        if name not in value:
            raise MalformedError(prefix + name, "it is missing")
        if not check(value[name]):
            raise MalformedError(prefix + name, "malformed")
    for name in value:
        if name not in expected:
            raise MalformedError(prefix + name, "there is no such member")


def check_answer(value: object, expected: Mapping[str, Check]) -> None:
    """Checks the members of the service's answer that the client relies on. It may have others."""
    if not isinstance(value, dict):
        raise MalformedError("answer", "it is no object", "service")
    for name, check in expected.items():
        if name not in value or not check(value[name]):
            raise MalformedError(name, "it is missing or malformed", "service")


def check_list(value: object, expected: Mapping[str, Check]) -> None:
    """Checks the members of each object of the list that the service's answer must be."""
    if not isinstance(value, list):
        raise MalformedError("answer", "it is no list of objects", "service")
    for one in value:
        check_answer(one, expected)


def parse_receipt(value: object) -> Receipt:
    """Checks that a value has the form of a receipt. It also takes the JSON text of a receipt."""
    if isinstance(value, (str, bytes)):
        try:
            value = parse_json(value)
        except ValueError:
            raise MalformedError("receipt", "it is not JSON") from None
    if not isinstance(value, dict):
        raise MalformedError("receipt", "it must be an object")
    check_members(value, _members)
    check_members(value["entry"], ENTRY_MEMBERS, "entry.")
    if value["anchor"] is not None:
        check_members(value["anchor"], ANCHOR_MEMBERS, "anchor.")
    return cast(Receipt, value)


def entry_hash(entry: Entry) -> str:
    """Computes the leaf hash of an entry."""
    if entry["v"] != 1:
        raise MalformedError("entry.v", f"{entry['v']} is not a version that this client knows")
    if from_base58(entry["owner"], 32) is None:
        raise MalformedError("entry.owner", "it is not a public key in base58")
    if not is_hash(entry["salt"]):
        raise MalformedError("entry.salt", "it is not 64 lowercase hex characters")
    members: Mapping[str, Any] = entry
    try:
        text = canonicalize({name: members[name] for name in ENTRY_MEMBERS}, 0)
    except TypeError as err:
        raise MalformedError("entry", str(err)) from None
    return leaf_hash(text)


def verify_receipt(value: object) -> Receipt:
    """Checks everything in a receipt that can be checked without the chain.

    Raises a VerificationError that names the first wrong member. If one of several members must
    be wrong, it names the member that contradicts the others.
    """
    r = parse_receipt(value)
    if r["version"] != 1:
        raise MalformedError("version", f"{r['version']} is not a version that this client knows")
    digest = entry_hash(r["entry"])
    if r["leafIndex"] >= r["treeSize"]:
        raise InclusionError("leafIndex", f"{r['leafIndex']} is outside a tree of treeSize {r['treeSize']}")
    if digest != r["leafHash"]:
        if fold(digest, r["siblings"], r["directions"]) == r["batchRoot"]:
            raise LeafMismatchError("leafHash", f"it is {r['leafHash']}, but the entry, which the proof leads from, hashes to {digest}")
        raise ContentMismatchError("entry", f"content, metadata, owner, salt and v hash to {digest}, leafHash is {r['leafHash']}")
    _check_inclusion(r)
    if r["anchor"] is not None:
        check_anchor_form(r["anchor"])
        _check_prefix(r, r["anchor"])
    elif r["consistency"]:
        raise ConsistencyError("consistency", "there is no anchor that it could lead to")
    return r


def _check_inclusion(r: Receipt) -> None:
    right = directions_of(r["leafIndex"], r["treeSize"])
    given = fold(r["leafHash"], r["siblings"], r["directions"])
    place = f"leafIndex {r['leafIndex']} in treeSize {r['treeSize']} takes"
    if len(r["directions"]) != len(r["siblings"]):
        if len(r["siblings"]) == len(right):
            raise InclusionError("directions", f"{len(r['directions'])} of them; {place} {len(right)}")
        raise InclusionError("siblings", f"{len(r['siblings'])} of them; {place} {len(right)}")
    if right != r["directions"] and given == r["batchRoot"]:
        raise _misplaced(r)
    if len(r["siblings"]) != len(right):
        raise InclusionError("siblings", f"{len(r['siblings'])} of them; {place} {len(right)}")
    if right != r["directions"]:
        raise InclusionError("directions", f"{place} others")
    if given == r["batchRoot"]:
        return
    a = r["anchor"]
    roots = consistency_roots(r["treeSize"], a["committedSize"], given, r["consistency"]) if a else None
    if roots and roots[0] == given:
        raise RootMismatchError("batchRoot", f"it is {r['batchRoot']}, but leaf and siblings fold to {given}, which is what was committed")
    raise InclusionError("siblings", f"they fold to {given}, batchRoot is {r['batchRoot']}")


def _misplaced(r: Receipt) -> InclusionError:
    """Makes the error for siblings and directions that lead to the root from another place."""
    a = r["anchor"]
    if a and consistency_roots(r["treeSize"], a["committedSize"], r["batchRoot"], r["consistency"]) != (r["batchRoot"], a["committedRoot"]):
        return InclusionError("treeSize", f"it is {r['treeSize']}, which goes neither with directions nor with consistency")
    return InclusionError("leafIndex", f"it is {r['leafIndex']} of treeSize {r['treeSize']}, but siblings and directions lead to batchRoot from another place")


def check_anchor_form(a: Anchor) -> None:
    members: Mapping[str, Any] = a
    for name, size in {"cluster": 32, "programId": 32, "account": 32, "txSignature": 64}.items():
        if from_base58(members[name], size) is None:
            raise AnchorError(f"anchor.{name}", f"it is not {size} bytes in base58")
    if a["slot"] == 0:
        raise AnchorError("anchor.slot", "nothing is committed in slot 0")


def _check_prefix(r: Receipt, a: Anchor) -> None:
    """Checks that the tree of batchRoot is a prefix of the committed tree."""
    if a["committedSize"] < r["treeSize"]:
        raise AnchorError("anchor.committedSize", f"it is {a['committedSize']}, less than treeSize {r['treeSize']}")
    span = f"from treeSize {r['treeSize']} to anchor.committedSize {a['committedSize']}"
    roots = consistency_roots(r["treeSize"], a["committedSize"], r["batchRoot"], r["consistency"])
    if roots is None:
        raise ConsistencyError("consistency", f"it has another number of hashes than it takes {span}")
    if roots[0] != r["batchRoot"]:
        raise ConsistencyError("consistency", f"{span} it leads to {roots[0]}, not to batchRoot {r['batchRoot']}")
    if roots[1] != a["committedRoot"]:
        raise AnchorError("anchor.committedRoot", f"it is {a['committedRoot']}; {span} the proof leads to {roots[1]}")
