"""Receipts that were saved before their anchor, and corrections."""

from typing import Any, cast

from .chain import Issuer, Node, commitment_address, commitments
from .connection import Fetch
from .encoding import from_base58
from .errors import CantCompleteError, LeafMismatchError, LogForkedError, NoCorrectionError, NotAnchoredError, OwnerMismatchError, RootMismatchError
from .receipt import verify_receipt
from .schema import Anchor, Receipt


def complete_receipt(receipt: object, later: object) -> Receipt:
    """Returns a receipt with the anchor of a later one, which must be of the same memory or lead from or to the same tree.

    A receipt that has an anchor keeps it, unless the later one's is in another account: its owner
    has moved to another operator. Raises a NotAnchoredError if neither has an anchor.
    """
    r, l = verify_receipt(receipt), verify_receipt(later)
    a = l["anchor"]
    if r["anchor"] and (a is None or (a["account"], a["cluster"]) == (r["anchor"]["account"], r["anchor"]["cluster"])):
        return r
    if l["entry"]["owner"] != r["entry"]["owner"]:
        raise OwnerMismatchError("entry.owner", f"it is {r['entry']['owner']}, the later receipt is of {l['entry']['owner']}")
    same_leaf, same_tree = l["leafIndex"] == r["leafIndex"], l["treeSize"] == r["treeSize"]
    if same_leaf and l["leafHash"] != r["leafHash"]:
        raise LeafMismatchError("leafHash", f"it is {r['leafHash']}, the later receipt has {l['leafHash']} as leaf {r['leafIndex']}")
    if same_tree and l["batchRoot"] != r["batchRoot"]:
        raise RootMismatchError("batchRoot", f"it is {r['batchRoot']}, the later receipt has {l['batchRoot']} for {r['treeSize']} leaves")
    if a is None:
        raise NotAnchoredError()
    if same_leaf:
        return l
    if same_tree:
        return _anchored(r, a, l["consistency"])
    if a["committedSize"] in _trees(r):
        return _anchored(r, a, _trees(r)[a["committedSize"]][2])
    raise CantCompleteError("only a later receipt of the same memory, or of the same tree, completes a receipt")


def _anchored(r: Receipt, anchor: Anchor, consistency: list[str]) -> Receipt:
    return verify_receipt({**cast("dict[str, Any]", r), "anchor": anchor, "consistency": consistency})


def _trees(r: Receipt) -> dict[int, tuple[str, str, list[str]]]:
    """The trees that a receipt leads to, by their sizes: its own, and the one that it is anchored with."""
    a = r["anchor"]
    anchored = {a["committedSize"]: ("anchor.committedRoot", a["committedRoot"], r["consistency"])} if a else {}
    return {**anchored, r["treeSize"]: ("batchRoot", r["batchRoot"], [])}


def complete_onchain(rpc_url: str, receipt: object, by: Issuer, fetch: Fetch | None = None) -> Receipt:
    """Returns a receipt with an issuer's anchor that it finds on the chain, without the service.

    The chain must have a commitment to exactly the receipt's tree, or to the one that another
    operator, from whom the owner moved, has anchored it with: from a larger one only the service
    can prove the link. Raises a NotAnchoredError if there is none.
    """
    r = verify_receipt(receipt)
    owner = r["entry"]["owner"]
    authority = from_base58(by.authority, 32)
    account = commitment_address(by.program_id, authority, from_base58(owner, 32) or b"") if authority else None
    if account is None:
        raise TypeError("issuer: program and authority must be public keys in base58")
    if r["anchor"] and r["anchor"]["account"] == account:
        return r
    node = Node(rpc_url, fetch)
    cluster = node.genesis_hash()
    before: dict[str, Any] = {}
    while True:
        page = node.call("getSignaturesForAddress", account, {"commitment": "finalized", **before})
        if not page:
            raise NotAnchoredError()
        for one in page:  # the newest first
            before = {"before": one["signature"]}
            tx = None if one["err"] else node.transaction(one["signature"])
            if not tx or not tx.get("meta") or tx["meta"].get("err"):
                continue
            committed = dict(reversed(commitments(by.program_id, account, tx, owner)))
            for size, (field, root, consistency) in _trees(r).items():
                if size not in committed:
                    continue
                if committed[size] != root:
                    raise RootMismatchError(field, f"it is {root}, the chain has {committed[size]} for {size} leaves")
                return _anchored(r, {
                    "cluster": cluster, "programId": by.program_id, "account": account, "txSignature": one["signature"],
                    "slot": tx["slot"], "committedSize": size, "committedRoot": root,
                }, consistency)
            if any(smaller < r["treeSize"] for smaller in committed):
                raise NotAnchoredError()


def verify_correction(newer: object, older: object) -> None:
    """Checks both receipts, and that the newer one's metadata names the older one's leaf among those that it supersedes.

    Both must be of one owner. Raises a NoCorrectionError if it does not.
    """
    n, o = verify_receipt(newer), verify_receipt(older)
    named = n["entry"]["metadata"].get("supersedes")
    if n["entry"]["owner"] != o["entry"]["owner"]:
        raise OwnerMismatchError("entry.owner", f"they are {n['entry']['owner']} and {o['entry']['owner']}")
    if n["treeSize"] == o["treeSize"] and n["batchRoot"] != o["batchRoot"]:
        raise LogForkedError("batchRoot", f"the receipts have different roots for {n['treeSize']} leaves")
    if not isinstance(named, list) or o["leafHash"] not in named or o["leafIndex"] >= n["leafIndex"]:
        raise NoCorrectionError("the memory does not supersede the other one")
