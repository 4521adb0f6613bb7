"""The golden vectors that every verifier of this repository must agree with."""

import base64
import json
import re
import unittest
from collections.abc import Iterable
from typing import Any

import memory_ledger as ledger

from .support import ROOT, answer, in_parts, load, node, read

RECEIPTS, EXPORTS = "events/verify/testdata/receipt/", "events/verify/testdata/export/"

# The error for each altered receipt. For a malformed member it is a MalformedError that names the
# member; the test takes that name from the file's name.
BAD_RECEIPTS = {
    "version-unknown": ("MalformedError", "version"),
    "entry-content-altered": ("ContentMismatchError", "entry"),
    "entry-metadata-altered": ("ContentMismatchError", "entry"),
    "entry-owner-of-somebody-else": ("ContentMismatchError", "entry"),
    "entry-owner-no-key": ("MalformedError", "entry.owner"),
    "entry-salt-altered": ("ContentMismatchError", "entry"),
    "entry-v-unknown": ("MalformedError", "entry.v"),
    "entry-salt-in-capitals": ("MalformedError", "entry.salt"),
    "leafhash-altered": ("LeafMismatchError", "leafHash"),
    "leafindex-of-another-leaf": ("InclusionError", "leafIndex"),
    "leafindex-outside-the-tree": ("InclusionError", "leafIndex"),
    "leafindex-outside-a-tree-of-one": ("InclusionError", "leafIndex"),
    "treesize-larger": ("InclusionError", "treeSize"),
    "treesize-smaller": ("InclusionError", "treeSize"),
    "siblings-one-altered": ("InclusionError", "siblings"),
    "siblings-one-missing": ("InclusionError", "siblings"),
    "directions-one-altered": ("InclusionError", "directions"),
    "directions-one-missing": ("InclusionError", "directions"),
    "batchroot-altered": ("RootMismatchError", "batchRoot"),
    "consistency-one-altered": ("ConsistencyError", "consistency"),
    "consistency-one-missing": ("ConsistencyError", "consistency"),
    "consistency-without-anchor": ("ConsistencyError", "consistency"),
    "consistency-where-nothing-is-to-prove": ("ConsistencyError", "consistency"),
    "anchor-committedroot-is-not-batchroot": ("AnchorError", "anchor.committedRoot"),
    "anchor-committedroot-altered": ("AnchorError", "anchor.committedRoot"),
    "anchor-committedsize-larger": ("ConsistencyError", "consistency"),
    "anchor-committedsize-smaller-than-treesize": ("AnchorError", "anchor.committedSize"),
    "anchor-slot-zero": ("AnchorError", "anchor.slot"),
    "anchor-cluster-no-hash": ("AnchorError", "anchor.cluster"),
    "anchor-programid-no-address": ("AnchorError", "anchor.programId"),
    "anchor-account-no-address": ("AnchorError", "anchor.account"),
    "anchor-txsignature-no-signature": ("AnchorError", "anchor.txSignature"),
    "onchain-cluster-another": ("AnchorError", "anchor.cluster"),
    "onchain-programid-another": ("AnchorError", "anchor.programId"),
    "onchain-account-not-there": ("AnchorError", "anchor.account"),
    "onchain-txsignature-not-there": ("AnchorError", "anchor.txSignature"),
    "onchain-slot-another": ("AnchorError", "anchor.slot"),
}

BAD_EXPORTS = {
    "empty": ("IncompleteExportError", "export"),
    "no-json": ("MalformedError", "export"),
    "format-unknown": ("MalformedError", "format"),
    "header-with-another-member": ("MalformedError", "more"),
    "anchor-missing": ("MalformedError", "anchor"),
    "owner-no-key": ("MalformedError", "owner"),
    "owner-another": ("OwnerMismatchError", "entry.owner"),
    "root-altered": ("RootMismatchError", "root"),
    "treesize-smaller": ("IncompleteExportError", "treeSize"),
    "treesize-larger": ("IncompleteExportError", "treeSize"),
    "anchor-cluster-no-hash": ("AnchorError", "anchor.cluster"),
    "anchor-slot-zero": ("AnchorError", "anchor.slot"),
    "anchor-committedsize-zero": ("AnchorError", "anchor.committedSize"),
    "anchor-committedsize-beyond": ("AnchorError", "anchor.committedSize"),
    "anchor-committedsize-another": ("RootMismatchError", "anchor.committedRoot"),
    "anchor-committedroot-altered": ("RootMismatchError", "anchor.committedRoot"),
    "content-altered": ("LeafMismatchError", "leafHash"),
    "metadata-altered": ("LeafMismatchError", "leafHash"),
    "metadata-an-array": ("MalformedError", "entry.metadata"),
    "salt-altered": ("LeafMismatchError", "leafHash"),
    "salt-no-hex": ("MalformedError", "entry.salt"),
    "entry-of-another-owner": ("OwnerMismatchError", "entry.owner"),
    "entry-v-unknown": ("MalformedError", "entry.v"),
    "entry-of-another-leaf": ("LeafMismatchError", "leafHash"),
    "leafhash-altered": ("LeafMismatchError", "leafHash"),
    "leafhash-of-an-erased-one-altered": ("RootMismatchError", "anchor.committedRoot"),
    "leaf-forged-whole": ("RootMismatchError", "anchor.committedRoot"),
    "leaf-forged-after-the-anchor": ("RootMismatchError", "root"),
    "leaves-swapped": ("IncompleteExportError", "index"),
    "leaf-twice": ("IncompleteExportError", "index"),
    "leaf-missing": ("IncompleteExportError", "index"),
    "entry-missing": ("MalformedError", "entry"),
    "leaf-with-another-member": ("MalformedError", "more"),
    "content-twice": ("MalformedError", "export"),
    "createdat-no-time": ("MalformedError", "createdAt"),
    "createdat-no-day": ("MalformedError", "createdAt"),
    "via-with-another-member": ("MalformedError", "via.more"),
    "last-line-missing": ("IncompleteExportError", "export"),
    "breaks-off": ("IncompleteExportError", "export"),
    "breaks-off-before-the-last-line-end": ("IncompleteExportError", "export"),
    "end-not-complete": ("MalformedError", "complete"),
    "end-counts-otherwise": ("IncompleteExportError", "leaves"),
    "more-after-the-end": ("MalformedError", "export"),
}


def u64(n: int) -> bytes:
    return n.to_bytes(8, "little")


def commits(authority: str, account: str, program: str, instruction: bytes, slot: int) -> dict[str, Any]:
    """A transaction that commits."""
    message = {
        "accountKeys": [authority, account, program],
        "instructions": [{"programIdIndex": 2, "accounts": [0, 1], "data": ledger.to_base58(instruction)}],
    }
    return {"slot": slot, "meta": {"err": None}, "transaction": {"message": message}}


def holding(genesis: str, program: str, account: str, signature: str, data: bytes, tx: dict[str, Any]) -> ledger.Fetch:
    """A Solana node that holds one commitment."""
    def methods(method: str, params: list[Any]) -> object:
        if method == "getGenesisHash":
            return genesis
        if method == "getAccountInfo":
            return {"value": {"owner": program, "data": [base64.b64encode(data).decode(), "base64"]} if params[0] == account else None}
        assert params[1]["maxSupportedTransactionVersion"] == 1, "a node does not show transactions of version 1"
        return tx if params[0] == signature else None

    return node(methods)


def vector_chain(size: int) -> ledger.Fetch:
    """The chain of the receipt vectors."""
    good = load(RECEIPTS + "good.json")
    a, authority = good["anchor"], bytes(range(0x21, 0x41))
    owner = ledger.from_base58(good["entry"]["owner"], 32) or b""
    now = size == a["committedSize"]
    root = bytes.fromhex(a["committedRoot"])
    data = b"MLCOMMT1" + authority + owner + u64(size) + (root if now else b"\1" * 32) + u64(a["slot"] if now else a["slot"] + 100) + u64(1)
    tx = commits(ledger.to_base58(authority), a["account"], a["programId"], u64(1) + owner + u64(a["committedSize"]) + root, a["slot"])
    return holding(a["cluster"], a["programId"], a["account"], a["txSignature"], data, tx)


def named(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).iterdir())


class Leaves(unittest.TestCase):
    def test_leaves(self) -> None:
        for v in load("events/verify/leaf/testdata/vectors.json"):
            with self.subTest(v["name"]):
                entry: ledger.Entry = {"content": v["content"], "metadata": json.loads(v["metadata"]), "owner": v["owner"], "salt": v["salt"], "v": 1}
                self.assertEqual(ledger.canonicalize(entry), v["entry"])
                self.assertEqual(ledger.entry_hash(entry), v["leafHash"])

    def test_numbers(self) -> None:
        for n, want in [
            (0, "0"), (-0.0, "0"), (1.0, "1"), (100, "100"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (10**21, "1e+21"), (123456789012345678901, "123456789012345680000"),
            (9007199254740993, "9007199254740992"), (0.000001, "0.000001"), (1e-7, "1e-7"), (1.5e-7, "1.5e-7"), (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
            (-1.25, "-1.25"), (0.1, "0.1"), (4.35, "4.35"), (123.456, "123.456"),
        ]:
            self.assertEqual(ledger.canonicalize(n), want)

    def test_values_that_are_not_json(self) -> None:
        for value in [float("nan"), float("inf"), 10**400, "\ud800", {"\udc00": 1}, {1: 2}, b"x", object(), {1, 2}]:
            with self.assertRaises(TypeError):
                ledger.canonicalize(value)
        ledger.canonicalize(json.loads('{"a":' * 64 + "1" + "}" * 64))
        with self.assertRaises(TypeError):
            ledger.canonicalize(json.loads('{"a":' * 65 + "1" + "}" * 65))

    def test_base58(self) -> None:
        for data in [bytes(32), bytes(range(32)), b"\xff" * 32]:
            self.assertEqual(ledger.from_base58(ledger.to_base58(data), 32), data)
        for text in ["", "1", "l0O", "1" * 33, "z" * 44, "1" * 10**6, 5]:
            self.assertIsNone(ledger.from_base58(text, 32))

    def test_journey(self) -> None:
        leaf, tree, chain, receipt = (load(f"docs/journey/{name}.json") for name in ("leaf", "tree", "commitment", "receipt"))
        self.assertEqual(ledger.canonicalize(receipt["entry"]), leaf["entry"])
        self.assertEqual(ledger.leaf_hash(leaf["entry"]), leaf["leafHash"])
        log = ledger.RootOfLeaves()
        for one in tree["leaves"]:
            log.add(one)
            self.assertEqual(log.root(), tree["roots"][str(log.size)] if isinstance(tree["roots"], dict) else tree["roots"][log.size])
        ledger.verify_receipt(read("docs/journey/receipt.json"))
        authority, owner = ledger.from_base58(chain["authority"], 32) or b"", ledger.from_base58(chain["owner"], 32) or b""
        self.assertEqual(ledger.commitment_address(chain["programId"], authority, owner), chain["account"])
        ledger.check_issuer(receipt, ledger.Issuer(chain["programId"], chain["authority"]))
        with self.assertRaises(ledger.AnchorError):
            ledger.check_issuer(receipt, ledger.Issuer(chain["programId"], chain["owner"]))
        with self.assertRaises(ledger.AnchorError):
            ledger.check_issuer(receipt, ledger.Issuer(chain["owner"]))
        commit = chain["commits"][-1]
        tx = commits(chain["authority"], chain["account"], chain["programId"], bytes.fromhex(commit["instruction"]), commit["slot"])
        fetch = holding(chain["cluster"], chain["programId"], chain["account"], commit["txSignature"], bytes.fromhex(commit["accountData"]), tx)
        self.assertEqual(ledger.check_onchain("http://rpc", receipt, fetch), ledger.Onchain(chain["authority"], commit["size"], commit["root"]))

    def test_every_proof_between_every_two_sizes(self) -> None:
        leaves = [ledger.leaf_hash(str(n)) for n in range(20)]

        def split(part: list[str]) -> int:
            return 1 << (len(part) - 1).bit_length() - 1

        def root(part: list[str]) -> str:
            if len(part) < 2:
                return part[0] if part else ledger.EMPTY_ROOT
            return ledger.node_hash(root(part[:split(part)]), root(part[split(part):]))

        def proof_of(m: int, part: list[str], whole: bool) -> list[str]:
            """Makes a proof by the definition of RFC 9162, section 2.1.4.1."""
            if m == len(part):
                return [] if whole else [root(part)]
            k = split(part)
            if m <= k:
                return [*proof_of(m, part[:k], whole), root(part[k:])]
            return [*proof_of(m - k, part[k:], False), root(part[:k])]

        for new in range(1, len(leaves) + 1):
            for old in range(1, new + 1):
                proof, roots = proof_of(old, leaves[:new], True), (root(leaves[:old]), root(leaves[:new]))
                self.assertTrue(ledger.is_consistent(old, new, *roots, proof), f"{old} to {new}")
                altered = [[*proof[:i], ledger.EMPTY_ROOT, *proof[i + 1:]] for i in range(len(proof))] + [[*proof, roots[1]], *([proof[1:]] if proof else [])]
                for bad in altered:
                    self.assertFalse(ledger.is_consistent(old, new, *roots, bad), f"{old} to {new}")


class Receipts(unittest.TestCase):
    def test_good(self) -> None:
        ledger.verify_receipt(read(RECEIPTS + "good-not-anchored.json"))
        receipt = ledger.verify_receipt(read(RECEIPTS + "good.json"))
        for size in (11, 16):
            self.assertEqual(ledger.check_onchain("http://rpc", receipt, vector_chain(size)).size, size)
        with self.assertRaises(ledger.AnchorError) as caught:
            ledger.check_onchain("http://rpc", receipt, vector_chain(10))
        self.assertEqual(caught.exception.field, "anchor.committedSize")
        for body in (b"<html>", [], {"error": {"message": "no"}}, {}, {"result": None}):
            with self.assertRaises(ledger.ChainUnreachableError):
                ledger.check_onchain("http://rpc", receipt, lambda _: answer(body))
        for account in ({}, None, {"context": {"slot": 4241}, "value": None}):
            without = node(lambda method, _, account=account: receipt["anchor"]["cluster"] if method == "getGenesisHash" else account)
            with self.assertRaises(ledger.ChainUnreachableError):
                ledger.check_onchain("http://rpc", receipt, without)
        for url in ("https://user:secret@127.0.0.1", "http://127.0.0.1:1/?key=secret x"):
            with self.assertRaisesRegex(ledger.ChainUnreachableError, "^((?!secret).)*$"):
                ledger.check_onchain(url, receipt)

    def test_bad(self) -> None:
        names = named(RECEIPTS + "bad")
        self.assertEqual([name for name in BAD_RECEIPTS if name not in names], [])
        for name in names:
            with self.subTest(name), self.assertRaises(ledger.VerificationError) as caught:
                receipt = ledger.verify_receipt(read(f"{RECEIPTS}bad/{name}.json"))
                self.assertTrue(name.startswith("onchain-"), "it passed offline")
                ledger.check_onchain("http://rpc", receipt, vector_chain(11))
            with self.subTest(name):
                err = caught.exception
                self.assertEqual(err.liar, "issuer")
                if name in BAD_RECEIPTS:
                    self.assertEqual((type(err).__name__, err.field), BAD_RECEIPTS[name])
                    continue
                self.assertEqual(type(err), ledger.MalformedError)
                field = err.field.lower().split(".")
                self.assertEqual(name.split("-")[:len(field)], field)

    def test_what_is_no_receipt(self) -> None:
        good = read(RECEIPTS + "good.json")
        for text in [
            "", "receipt", "[]", "null", '{"a":1}', good + "{}", good.replace('"treeSize": 5,', ""), good.replace('"version"', '"extra": 1, "version"'),
            good.replace('"leafHash": "', '"leafHash": "AB'), good.replace('"treeSize": 5', '"treeSize": 5.5'), good.replace('"treeSize": 5', '"treeSize": 1e30'),
            good.replace('"treeSize": 5', '"treeSize": NaN'), good.replace('"treeSize": 5', '"treeSize": true'), "[" * 10**5,
            good.replace('"content"', '"content": "shown by other readers", "content"'), good.encode("utf-16"), b"\xff" + good.encode(),
        ]:
            with self.assertRaises(ledger.MalformedError):
                ledger.verify_receipt(text)

    def test_errors_are_printable(self) -> None:
        bad, good = "\x1b[2J\x9b31m\u202e\r\n\ud800", read(RECEIPTS + "good.json")
        client = ledger.MemoryLedger("http://service", fetch=lambda _: answer({"error": f"{bad}good"}, 400))
        with self.assertRaises(ledger.MalformedError) as member:
            ledger.verify_receipt(good.replace('"version"', f"{json.dumps(bad)}: 1, \"version\""))
        with self.assertRaises(ledger.InvalidRequestError) as refused:
            client.keys.list()
        for message in (str(member.exception), str(refused.exception)):
            self.assertTrue(message.isprintable(), message)

    def test_a_receipt_from_before_its_anchor_is_not_wrong_and_can_be_completed(self) -> None:
        later = load(RECEIPTS + "good.json")
        early: Any = {**later, "anchor": None, "consistency": []}
        with self.assertRaises(ledger.NotAnchoredError):
            ledger.check_onchain("http://rpc", early)
        with self.assertRaises(ledger.NotAnchoredError):
            ledger.check_issuer(early, ledger.Issuer(later["anchor"]["programId"]))
        anchor = ledger.complete_receipt(early, later)["anchor"]
        self.assertEqual(anchor and anchor["committedSize"], 11)
        self.assertEqual(ledger.complete_receipt(later, early), later)
        with self.assertRaises(ledger.NotAnchoredError):
            ledger.complete_receipt(early, early)
        with self.assertRaises(ledger.OwnerMismatchError):
            ledger.complete_receipt(early, load("docs/journey/receipt.json"))

    def test_a_receipt_can_be_completed_from_the_chain(self) -> None:
        # Another leaf of the same tree, as the chain's first commitment has it.
        journey, chain = load("docs/journey/receipt.json"), load("docs/journey/commitment.json")
        before: Any = {**journey, "anchor": None, "consistency": []}
        by = ledger.Issuer(chain["programId"], chain["authority"])

        def holds(made: list[dict[str, Any]]) -> ledger.Fetch:
            def methods(method: str, params: list[Any]) -> object:
                if method == "getGenesisHash":
                    return chain["cluster"]
                if method == "getSignaturesForAddress":
                    first = params[0] == chain["account"] and "before" not in params[1]
                    return [{"signature": "failed", "err": "why"}, *({"signature": c["txSignature"], "err": None} for c in reversed(made))] if first else []
                commit = next(c for c in made if c["txSignature"] == params[0])
                return commits(chain["authority"], chain["account"], chain["programId"], bytes.fromhex(commit["instruction"]), commit["slot"])

            return node(methods)

        done = ledger.complete_onchain("http://rpc", before, by, holds(chain["commits"]))
        anchor = done["anchor"]
        assert anchor
        self.assertEqual((anchor["committedSize"], anchor["slot"], anchor["txSignature"]), (5, 4100, chain["commits"][0]["txSignature"]))
        ledger.check_issuer(done, by)
        with self.assertRaises(ledger.NotAnchoredError):
            ledger.complete_onchain("http://rpc", before, by, holds(chain["commits"][1:]))
        first, *rest = chain["commits"]
        forked = {**first, "instruction": first["instruction"][:-1] + ("1" if first["instruction"][-1] == "0" else "0")}
        with self.assertRaises(ledger.RootMismatchError):
            ledger.complete_onchain("http://rpc", before, by, holds([forked, *rest]))
        with self.assertRaises(TypeError):
            ledger.complete_onchain("http://rpc", before, ledger.Issuer(chain["programId"], "x"))
        # From before its owner moved, with another operator's anchor of the same tree.
        moved: Any = {**journey, "anchor": {**journey["anchor"], "account": journey["anchor"]["programId"]}}
        for made in (chain["commits"], rest):
            there = ledger.complete_onchain("http://rpc", moved, by, holds(made))
            self.assertEqual((there["anchor"] or anchor)["committedSize"], 7)
            ledger.check_issuer(there, by)
        ledger.check_issuer(ledger.complete_receipt(moved, journey), by)


class Exports(unittest.TestCase):
    def read(self, parts: Iterable[bytes]) -> tuple[ledger.ExportHeader, list[str | None]]:
        headers: list[ledger.ExportHeader] = []
        contents = [leaf["entry"]["content"] if leaf["entry"] else None for leaf in ledger.verify_export(parts, headers.append)]
        return headers[0], contents

    def test_good(self) -> None:
        good = read(EXPORTS + "good.ndjson").encode()
        for size in (1, 7, len(good)):
            header, contents = self.read(in_parts(good, size))
            self.assertEqual((header["treeSize"], header["anchor"] and header["anchor"]["committedSize"]), (7, 5))
            self.assertEqual(contents, [None if n == 3 else f"memory {n} ☂" for n in range(7)])
        with open(ROOT / EXPORTS / "good-not-anchored.ndjson", "rb") as file:
            self.assertIsNone(self.read(file)[0]["anchor"])
        self.assertEqual(self.read([read(EXPORTS + "good-empty.ndjson").encode()])[1], [])
        self.assertIsNone(self.read([read(EXPORTS + "good-damaged.ndjson").encode()])[1][2])

    def test_bad(self) -> None:
        self.assertEqual(named(EXPORTS + "bad"), sorted(BAD_EXPORTS))
        for name, want in BAD_EXPORTS.items():
            with self.subTest(name), self.assertRaises(ledger.VerificationError) as caught:
                self.read([read(f"{EXPORTS}bad/{name}.ndjson").encode()])
            with self.subTest(name):
                self.assertEqual((type(caught.exception).__name__, caught.exception.field, caught.exception.liar), (*want, "issuer"))

    def test_an_export_that_is_not_utf_8(self) -> None:
        bad = read(EXPORTS + "good.ndjson").encode().replace(b"memory 2", b"memory \xff")
        for size in (1, 7, len(bad)):
            with self.assertRaises(ledger.MalformedError) as caught:
                self.read(in_parts(bad, size))
            self.assertEqual(caught.exception.field, "line")

    def test_an_export_that_ends_anywhere_is_not_whole(self) -> None:
        good = read(EXPORTS + "good.ndjson").encode()
        for size in [*range(0, len(good), 13), len(good) - 1]:
            with self.assertRaises(ledger.IncompleteExportError):
                self.read([good[:size]])

    def test_an_empty_entry_is_not_a_missing_one(self) -> None:
        good = read(EXPORTS + "good.ndjson")
        for member in ("entry", "anchor"):
            altered = re.sub(rf'"{member}":(null|{{)', f'"{member}":{{}}, "x":\\1', good, count=1)
            with self.assertRaises(ledger.MalformedError):
                self.read([altered.encode()])


class StakingTransactions(unittest.TestCase):
    def test_transactions(self) -> None:
        vectors = load("anchoring/staking/testdata/transactions.json")
        program, owner = ledger.StakingProgram(vectors["Program"], vectors["Mint"]), vectors["Owner"]
        for v in vectors["Transactions"]:
            with self.subTest(v["Name"]):
                move: Any = "stake" if v["Kind"] == 2 else "unstake"
                if not v.get("Wrong"):
                    ledger.check_transaction(v["Transaction"], program, owner, move, v["Amount"])
                    continue
                with self.assertRaises(ledger.TransactionError) as caught:
                    ledger.check_transaction(v["Transaction"], program, owner, move, v["Amount"])
                self.assertEqual((caught.exception.field, caught.exception.liar), (v["Wrong"], "service"))
        first = vectors["Transactions"][0]
        for other in [
            ledger.StakingProgram("x", program.mint), ledger.StakingProgram(program.mint, program.mint), ledger.StakingProgram(program.program_id, owner),
            ledger.StakingProgram(program.program_id, ""),
        ]:
            with self.assertRaises(ledger.TransactionError):
                ledger.check_transaction(first["Transaction"], other, owner, "stake", first["Amount"])
        for amount in ["", "1.5", "-1", str(2**64 + int(first["Amount"]))]:
            with self.assertRaises(TypeError):
                ledger.check_transaction(first["Transaction"], program, owner, "stake", amount)
