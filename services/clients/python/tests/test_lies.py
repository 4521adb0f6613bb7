"""A service whose answers contradict each other. Its honest log has the memories a to d."""

import itertools
import json
import os
import tempfile
import threading
import unittest
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import memory_ledger as ledger
from memory_ledger.heads import Heads, MemoryHeads

from .support import OWNER, TestWallet, answer, load, service

HASH = "ab" * 32
node_hash = ledger.node_hash


def entry(content: str, metadata: dict[str, Any] | None = None) -> ledger.Entry:
    return {"content": content, "metadata": metadata or {}, "owner": OWNER, "salt": HASH, "v": 1}


def leaf(content: str, metadata: dict[str, Any] | None = None) -> str:
    return ledger.entry_hash(entry(content, metadata))


A, B, C, D, NEVER = map(leaf, ["a", "b", "c", "d", "never written"])
AB, CD = node_hash(A, B), node_hash(C, D)
HONEST = {2: AB, 3: node_hash(AB, C), 4: node_hash(AB, CD)}
FORK = node_hash(AB, NEVER)  # three leaves, which the log never has


def head(size: int, anchored: int = 0, root: str | None = None) -> dict[str, Any]:
    return {"owner": OWNER, "treeSize": size, "root": root or HONEST[size], "anchoredSize": anchored, "anchoredRoot": HONEST.get(anchored)}


def proof(old: int, new: int, *hashes: str) -> dict[str, Any]:
    return {"from": old, "to": new, "fromRoot": HASH, "toRoot": HASH, "proof": list(hashes)}


def receipt_of(content: str, **more: Any) -> dict[str, Any]:
    return {"version": 1, "entry": entry(content), "anchor": None, "consistency": [], **more}


def alone(leaf_hash: str) -> dict[str, Any]:
    """The place of the only leaf of a log."""
    return {"leafHash": leaf_hash, "leafIndex": 0, "treeSize": 1, "siblings": [], "directions": [], "batchRoot": leaf_hash}


def anchor_of(size: int, root: str) -> dict[str, Any]:
    signature = ledger.to_base58(b"\x09" * 64)
    return {"cluster": OWNER, "programId": OWNER, "account": OWNER, "txSignature": signature, "slot": 7, "committedSize": size, "committedRoot": root}


def memory(index: object, leaf_hash: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": f"m{index}", "content": "x", "metadata": metadata or {}, "leafHash": leaf_hash, "leafIndex": index}


def exported(root: str, third: tuple[str, str], *gone: int) -> bytes:
    """An export of three leaves, without the texts of some."""
    lines: list[Any] = [{"format": "memory-ledger/export/1", "owner": OWNER, "treeSize": 3, "root": root, "anchor": None}]
    for index, (content, leaf_hash) in enumerate([("a", A), ("b", B), third]):
        text = None if index in gone else entry(content)
        lines.append({"index": index, "id": f"m{index}", "createdAt": "0000-02-29T00:00:00Z", "via": None, "leafHash": leaf_hash, "entry": text})
    return "".join(json.dumps(line) + "\n" for line in [*lines, {"complete": True, "leaves": 3}]).encode()


class Lies(unittest.TestCase):
    def test_a_leaf_index_that_is_no_number_hides_no_memory(self) -> None:
        for index in ("x", None, 1.5, -1, True):
            client = service({"/log": [head(3)], "order=newest": [[memory(index, HASH)]]})
            with self.assertRaises(ledger.MalformedError):
                list(client.memories.list(order="newest"))

    def test_an_answer_without_its_members_is_malformed(self) -> None:
        whole = {"/log": [head(3)], "/m": [memory(0, A)], "/receipt": [{}], "/proof": [{}], "from=2&to=3": [{}], "/memories": [{}], "/memories/batch": [[{}]]}
        for path, call in {
            "/log": lambda c: c.log.head(), "/m": lambda c: c.memories.get("m"), "/receipt": lambda c: c.memories.receipt("m"),
            "/proof": lambda c: c.memories.prove("m"), "from=2&to=3": lambda c: c.log.consistency(2, 3), "/memories": lambda c: c.memories.write("x"),
            "/memories/batch": lambda c: c.memories.write_batch([{"content": "x"}]), "after=0&limit=100": lambda c: list(c.events.pages()),
        }.items():
            for lie in ({}, None, 5, []):
                answers: dict[str, list[Any]] = {**whole, path: [[lie] if path.endswith("batch") else lie]}
                with self.subTest(path=path, lie=lie), self.assertRaises(ledger.MalformedError) as caught:
                    call(service(answers))
                self.assertEqual(caught.exception.liar, "service")
        calls = [lambda c: list(c.memories.list()), lambda c: list(c.memories.search("x")), lambda c: c.memories.page(0, 1), lambda c: c.log.head()]
        for lie, call in itertools.product((None, 5, {}, [None]), calls):
            rootless = {name: value for name, value in head(3).items() if call is not calls[3] or name != "anchoredRoot"}
            with self.assertRaises(ledger.MalformedError):
                call(service({"/log": [rootless], "order=oldest": [lie], "/search": [lie], "limit=1": [lie]}))

    def test_a_stream_of_events_does_not_go_back(self) -> None:
        page = b'id: 8\ndata: {"events":[],"cursor":"8"}\n\n'
        events = service({"/events": [b"id: 7\n\n" + page + b"id: 0\n\n" + page]}).events.follow()
        self.assertEqual(next(events)["cursor"], "8")
        with self.assertRaises(ledger.MalformedError):
            next(events)

    def test_an_imported_memory_is_found_by_its_id_of_before(self) -> None:
        imported = {"id": "before", "createdAt": "2026-01-01T00:00:00.000Z", "via": {"kind": "session", "id": "s"}}
        read = {**memory(0, A), "content": "a", "imported": imported}
        answers: dict[str, list[Any]] = {"/log": [head(1, root=A)], "/receipt": [receipt_of("a", **alone(A))]}
        self.assertEqual(service({**answers, "/before": [read]}).memories.get("before")["id"], "m0")
        with self.assertRaises(ledger.WrongMemoryError):
            service({**answers, "/other": [read]}).memories.get("other")
        for lie in ("before", ["before"], 5):
            with self.assertRaises(ledger.MalformedError):
                service({**answers, "/before": [{**read, "imported": lie}]}).memories.get("before")

    def test_a_receipt_of_an_anchored_leaf_has_its_anchor(self) -> None:
        receipt = receipt_of("a", leafHash=A, leafIndex=0, treeSize=4, siblings=[B, CD], directions=[True, True], batchRoot=HONEST[4])
        service({"/log": [head(4)], "/receipt": [receipt]}).memories.receipt("m")
        with self.assertRaises(ledger.StaleProofError) as caught:
            service({"/log": [head(4, 4)], "/receipt": [receipt]}).memories.receipt("m")
        self.assertEqual(caught.exception.field, "anchor")
        with self.assertRaises(ledger.MalformedError):  # no check of its anchor may be left out
            service({"/log": [head(4)], "/receipt": [json.dumps(receipt)]}).memories.receipt("m")

    def test_the_committed_log_of_a_receipt_is_this_one(self) -> None:
        other = node_hash(NEVER, D)

        def serving(root: str) -> ledger.MemoryLedger:
            receipt = receipt_of(
                "a", leafHash=A, leafIndex=0, treeSize=2, siblings=[B], directions=[True], batchRoot=AB,
                consistency=[CD if root == HONEST[4] else other], anchor=anchor_of(4, root))
            return service({"/log": [head(4, 4)], "/receipt": [receipt], "from=2&to=4": [proof(2, 4, CD)]})

        serving(HONEST[4]).memories.receipt("m")
        with self.assertRaises(ledger.AnchorError) as caught:
            serving(node_hash(AB, other)).memories.receipt("m")
        self.assertEqual((caught.exception.field, caught.exception.liar), ("anchor.committedRoot", "service"))

    def forking(self, answers: dict[str, list[Any]], later: dict[str, Any]) -> ledger.MemoryLedger:
        """Makes a client that has seen two leaves, and is then shown a log of three that ends with the leaf that was never written.

        Any later head is of the honest log.
        """
        return service({
            **answers, "/log": [head(2), later], "from=2&to=3": [lambda given: proof(2, 3, C if given["/log"] > 1 else NEVER)],
            "from=2&to=4": [proof(2, 4, CD)], "from=3&to=4": [proof(3, 4, C, D, AB)],
        })

    def test_a_fork(self) -> None:
        receipt = receipt_of("never written", leafHash=NEVER, leafIndex=2, treeSize=3, siblings=[AB], directions=[False], batchRoot=FORK)
        for later in (head(2), head(3), head(4)):
            with self.assertRaises(ledger.RootMismatchError):
                self.forking({"/receipt": [receipt]}, later).memories.receipt("m")
        listed = [memory(0, A), memory(1, B), memory(2, NEVER)]
        with self.assertRaises(ledger.RootMismatchError):
            list(self.forking({"order=oldest": [listed]}, head(3)).memories.list())
        with self.assertRaises(ledger.LogForkedError):
            list(self.forking({"/export": [exported(FORK, ("never written", NEVER))]}, head(3)).log.export())

    def test_a_memory_that_is_retracted_while_it_is_listed(self) -> None:
        for order, first in {"oldest": 0, "newest": 2}.items():
            exports = [exported(HONEST[3], ("c", C), *gone) for gone in ([first], [0, 2])]
            client = service({"/log": [head(3)], f"order={order}": [[memory(1, B)]], "/export": exports})
            self.assertEqual([m["id"] for m in client.memories.list(order=order)], ["m1"])  # type: ignore[arg-type]

    def receipt_for(self, members: Any, metadata: dict[str, Any], **options: Any) -> None:
        """Writes a memory, and gets a receipt with some metadata for it, after memories a and b."""
        leaf_hash = leaf("x", metadata)
        client = service({
            "/memories/batch": [[{"id": "a", "leafHash": A, "leafIndex": 5}, {"id": "b", "leafHash": B, "leafIndex": 6}]],
            "/memories": [{"id": "m", "leafHash": leaf_hash, "leafIndex": 0}],
            "/log": [head(1, root=leaf_hash)], "/receipt": [receipt_of("x", entry=entry("x", metadata), **alone(leaf_hash))],
        }, **options)
        client.memories.write_batch([{"content": "a"}, {"content": "b"}])
        client.memories.receipt(client.memories.store({"content": "x", **members}))

    def test_members_count_as_metadata_and_nothing_else_does(self) -> None:
        members: dict[str, Any] = {"occurredAt": "1999-05-01", "tags": ["t"], "namespace": "home"}
        key: dict[str, Any] = {"api_key": "svc_x"}
        honest: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
            ({**members, "source": "\x85diary\u3000", "metadata": {"n": 1, "source": "another"}}, {**members, "source": "diary", "n": 1}, {}),
            ({"source": "\x1cdiary"}, {"source": "\x1cdiary"}, {}), ({"supersedes": ["a"]}, {"supersedes": [A]}, {}),
            ({"supersedes": ["a", "b"]}, {"supersedes": [A, B]}, {}), ({"supersedes": ["a", "?"]}, {"supersedes": [A, C]}, {}),
            ({}, {"namespace": "work"}, key), ({}, {}, key), ({}, {"namespace": "work"}, {**key, "namespaces": ["work"]}),
            ({"metadata": {"pair": (1, 2.0)}}, {"pair": [1, 2]}, {}),
        ]
        for given, metadata, options in honest:
            with self.subTest(given=given, metadata=metadata):
                self.receipt_for(given, metadata, **options)
        lies: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
            (members, {**members, "tags": ["u"]}, {}), (members, {**members, "occurredAt": "1999-05-02"}, {}), (members, {**members, "namespace": "work"}, key),
            (members, {**members, "supersedes": [A]}, {}), ({"supersedes": ["a"]}, {"supersedes": [B]}, {}), ({"supersedes": ["a", "b"]}, {"supersedes": [A]}, {}),
            ({"supersedes": ["a"]}, {"supersedes": [A, C]}, {}), ({"supersedes": ["?"]}, {}, {}), ({}, {"namespace": "work"}, {}),
            ({}, {"namespace": "home"}, {**key, "namespaces": ["work"]}), ({}, {}, {**key, "namespaces": ["work"]}),
        ]
        for given, metadata, options in lies:
            with self.subTest(given=given, metadata=metadata), self.assertRaises(ledger.ContentMismatchError):
                self.receipt_for(given, metadata, **options)

    def test_metadata_that_json_lacks_is_not_sent(self) -> None:
        for lost in (float("nan"), {1, 2}, object(), b"x", {1: 2}, "\ud800"):
            with self.assertRaises(TypeError):
                service({}).memories.write("x", {"lost": lost})

    def test_a_correction_is_proven_by_two_receipts(self) -> None:
        corrected = leaf("new", {"supersedes": [A]})
        root = node_hash(A, corrected)
        older = receipt_of("a", leafHash=A, leafIndex=0, treeSize=2, siblings=[corrected], directions=[True], batchRoot=root)
        newer = receipt_of("new", leafHash=corrected, leafIndex=1, treeSize=2, siblings=[A], directions=[False], batchRoot=root)
        newer["entry"] = entry("new", {"supersedes": [A]})
        ledger.verify_correction(newer, older)
        for kind, pair in [
            (ledger.NoCorrectionError, (older, newer)), (ledger.LogForkedError, (newer, {**older, "siblings": [B], "batchRoot": AB})),
            (ledger.ContentMismatchError, (newer, {**older, "entry": entry("b")})),
            (ledger.ContentMismatchError, ({**newer, "entry": entry("new", {"supersedes": [B]})}, older)),
        ]:
            with self.assertRaises(kind):
                ledger.verify_correction(*pair)

    def test_a_list_of_a_limited_key(self) -> None:
        def listed(*indexes: int, namespace: str | None = "work") -> int:
            memories = [memory(index, HASH, {"namespace": namespace} if namespace else {}) for index in indexes]
            return len(list(service({"order=oldest": [memories]}, namespaces=["work"]).memories.list()))

        self.assertEqual(listed(2, 7), 2)
        for indexes, namespace in [((7, 2), "work"), ((2, 2), "work"), ((2,), "home"), ((2,), None)]:
            with self.assertRaises(ledger.VerificationError):
                listed(*indexes, namespace=namespace)

    def test_a_consistency_proof_from_the_empty_log(self) -> None:
        def ask(**change: Any) -> None:
            service({"from=0&to=3": [{**proof(0, 3), "fromRoot": ledger.EMPTY_ROOT, **change}]}).log.consistency(0, 3)

        ask()
        changes: list[dict[str, Any]] = [{"fromRoot": HASH}, {"proof": [HASH]}, {"to": 4}]
        for change in changes:
            with self.assertRaises(ledger.VerificationError):
                ask(**change)

    def test_a_wallet_is_handed_only_the_move_that_was_asked_for(self) -> None:
        vectors = load("anchoring/staking/testdata/transactions.json")
        named = {v["Name"]: v["Transaction"] for v in vectors["Transactions"]}
        program, amount = ledger.StakingProgram(vectors["Program"], vectors["Mint"]), vectors["Transactions"][0]["Amount"]

        def serving(name: str) -> Any:
            made = {"transaction": named[name], "blockhash": "b", "lastValidBlockHeight": 1}
            return service({"/staking/stake": [made], "/staking/unstake": [made]}, owner=vectors["Owner"], staking_program=program).staking

        self.assertEqual(serving("stake").stake(amount)["transaction"], named["stake"])
        serving("unstake into a new token account").unstake(amount)
        for name in ("another amount", "another program", "a payment beside it", "the vault of somebody else"):
            with self.assertRaises(ledger.TransactionError):
                serving(name).stake(amount)
        with self.assertRaises(ledger.TransactionError):
            serving("stake").stake("1")
        with self.assertRaises(TypeError):
            service({}).staking.stake(amount)


ROOT_HASH, ANOTHER = "ab" * 32, "cd" * 32
ANCHORED: Any = {"owner": OWNER, "treeSize": 7, "root": ROOT_HASH, "anchoredSize": 7, "anchoredRoot": ROOT_HASH}
SHORTER: Any = {**ANCHORED, "treeSize": 3, "root": ANOTHER, "anchoredSize": 0, "anchoredRoot": None}


def never(old: int, new: int) -> Any:
    raise AssertionError("no proof is needed")


def shown(size: int, root: str, anchored: int = 0, anchored_root: str | None = None) -> Any:
    return {"owner": OWNER, "treeSize": size, "root": root, "anchoredSize": anchored, "anchoredRoot": anchored_root}


class HeadsOneAfterTheOther(unittest.TestCase):
    def test_another_anchored_root_of_the_same_size_is_a_fork(self) -> None:
        heads = Heads()
        heads.check(lambda: ANCHORED, never, OWNER)
        heads.check(lambda: ANCHORED, never, OWNER)
        with self.assertRaises(ledger.LogForkedError):
            heads.check(lambda: {**ANCHORED, "anchoredRoot": ANOTHER}, never, OWNER)
        with self.assertRaises(ledger.LogShrankError):
            heads.check(lambda: {**ANCHORED, "anchoredSize": 0, "anchoredRoot": None}, never, OWNER)

    def test_a_longer_anchored_part_needs_a_proof(self) -> None:
        two = node_hash(ROOT_HASH, ANOTHER)
        three, heads = node_hash(two, ROOT_HASH), Heads()

        def ask(old: int, new: int) -> Any:
            return {"from": old, "to": new, "proof": [ROOT_HASH]}

        heads.check(lambda: shown(3, three, 2, two), ask, OWNER)
        heads.check(lambda: shown(3, three, 2, two), never, OWNER)
        with self.assertRaises(ledger.LogForkedError):
            heads.check(lambda: shown(3, three, 3, two), ask, OWNER)
        heads.check(lambda: shown(3, three, 3, three), ask, OWNER)

    def test_a_slow_process_does_not_lower_the_head_of_another_one(self) -> None:
        two = node_hash(ROOT_HASH, ANOTHER)
        with tempfile.TemporaryDirectory() as folder:
            stores: list[ledger.HeadStore] = [MemoryHeads(), ledger.FileHeads(Path(folder) / "heads.json")]
            for store in stores:
                slow, quick, answers = Heads(store), Heads(store), [shown(1, ROOT_HASH), shown(2, two)]

                def ask(old: int, new: int) -> Any:
                    return {"from": old, "to": new, "proof": [ANOTHER]}

                def fetch_slowly() -> Any:
                    if len(answers) == 2:
                        quick.check(lambda: shown(2, two), ask, OWNER)
                    return answers.pop(0)

                self.assertEqual(slow.check(fetch_slowly, ask, OWNER)["treeSize"], 2)
                self.assertEqual(answers, [])
                kept = store.get(OWNER)
                self.assertEqual(kept and kept["size"], 2)
                # A fork after the first leaf is still noticed.
                with self.assertRaises(ledger.LogForkedError):
                    slow.check(lambda: shown(2, node_hash(ROOT_HASH, two)), ask, OWNER)

    def test_a_file_of_heads_takes_one_update_at_a_time(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "heads.json"
            path.write_text("{}")

            def update(n: int) -> None:
                store = ledger.FileHeads(path)  # as in another process
                with store.lock(OWNER):
                    before = store.get(OWNER)
                    store.set(OWNER, {"size": (before["size"] if before else 0) + 1, "root": HASH, "anchoredSize": 0, "anchoredRoot": None})

            threads = [threading.Thread(target=update, args=(n,)) for n in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            kept = ledger.FileHeads(path).get(OWNER)
            self.assertEqual(kept and kept["size"], 16)
            self.assertEqual(sorted(p.name for p in Path(folder).iterdir()), ["heads.json", "heads.json.lock"])

    def test_after_a_restore_the_owner_goes_on_from_the_shorter_log(self) -> None:
        client = service({"/log": [ANCHORED, SHORTER, SHORTER, {**SHORTER, "root": ROOT_HASH}]})
        client.log.head()
        with self.assertRaisesRegex(ledger.LogShrankError, "restored an older backup"):
            client.log.head()
        self.assertEqual(client.log.accept()["treeSize"], 3)
        with self.assertRaisesRegex(ledger.LogForkedError, "restored an older backup"):
            client.log.head()


SITE = "https://memory.example"
STATEMENTS = {
    "sign-in": "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.",
    "erase": "ERASE all my memories at Memory Ledger, for good. The key to their texts is destroyed and nobody can read them again. "
    "All sessions, API keys and links end. The proofs stay. There is no way back.",
}


def stamp(after: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=after)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Challenges(unittest.TestCase):
    wallet = TestWallet(b"seed")

    def signed(self, purpose: str, change: Callable[[str], str | ledger.Response], issued: str | None = None, expires: str | None = None, **options: Any) -> None:
        """Asks a wallet to sign in or to erase, with a service that sends this message."""
        wallet = self.wallet
        wallet.signed.clear()
        text = "\n".join([
            "memory.example wants you to sign in with your Solana account:", wallet.public_key, "", STATEMENTS[purpose], "", f"URI: {SITE}", "Version: 1",
            "Chain ID: mainnet", f"Nonce: {'a2' * 32}", f"Issued At: {issued or stamp(0)}", f"Expiration Time: {expires or stamp(300)}",
        ])
        given: dict[str, Any] = {"url": SITE, "retries": 0, "fetch": lambda _: said if isinstance(said := change(text), ledger.Response) else answer({"message": said, "token": "t", "erased": 1}), **options}
        client = ledger.MemoryLedger(**given)
        try:
            client.erase(wallet) if purpose == "erase" else client.sign_in(wallet)
        except ledger.ChallengeError as err:
            self.assertEqual((err.liar, wallet.signed), ("service", []))
            raise
        self.assertEqual(len(wallet.signed), 1)

    def test_a_wallet_signs_no_other_text(self) -> None:
        for purpose, other in (("sign-in", "erase"), ("erase", "sign-in")):
            for name, old, new in [
                ("another site", "memory.example wants", "bank.example wants"), ("another address", f"URI: {SITE}", f"URI: {SITE}:8443"),
                ("another account", self.wallet.public_key, "1" * 32), ("another statement", STATEMENTS[purpose], "I give you everything."),
                ("the other purpose", STATEMENTS[purpose], STATEMENTS[other]), ("another version", "Version: 1", "Version: 2"),
                ("no chain", "Chain ID: mainnet", "Chain ID: "), ("a nonce that is a text", "Nonce: a2", "Nonce: pay me "), ("a short nonce", "a2" * 32, "a2"),
                ("one line more", "\nExpiration", "\nRequest ID: 1\nExpiration"), ("another line end", "\n\nURI", "\r\n\nURI"), ("other digits", "a2a2", "a٢a2"),
            ]:
                with self.subTest(purpose=purpose, name=name), self.assertRaises(ledger.ChallengeError):
                    self.signed(purpose, lambda text: text.replace(old, new))
            day = 86400
            for issued, expires in [
                (stamp(0), stamp(day)), (stamp(0), stamp(-1)), (stamp(day), stamp(day + 1)), ("today", stamp(1)), (stamp(0), "never"), ("2026-02-30T00:00:00Z", stamp(1)),
            ]:
                with self.subTest(issued=issued, expires=expires), self.assertRaises(ledger.ChallengeError):
                    self.signed(purpose, str, issued, expires)

    def test_a_wallet_signs_the_text_of_its_service(self) -> None:
        relay = "http://127.0.0.1:3001"
        for purpose in STATEMENTS:
            with self.assertRaisesRegex(ledger.ChallengeError, "public_url"):
                self.signed(purpose, str, url=relay)
            for options in ({}, {"url": f"{SITE}/"}, {"url": relay, "public_url": f"{SITE}/"}):
                self.signed(purpose, str, **options)

    def test_a_lost_answer_to_what_a_wallet_signed_is_not_reported_as_a_refusal(self) -> None:
        for purpose in STATEMENTS:
            attempts = itertools.count()

            def change(text: str) -> str | ledger.Response:
                if (n := next(attempts)) == 1:
                    raise OSError("lost")
                return text if n == 0 else answer({"error": "nonce was used"}, 401)

            with self.assertRaises(ledger.ConnectionError):
                self.signed(purpose, change, retries=1, backoff=0.0)

    def test_a_key_pair(self) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            if os.environ.get("CI"):
                raise
            self.skipTest("cryptography is not here")
        seed, message = bytes(range(32)), "service.example wants you to sign in ☂".encode()
        ours = TestWallet(seed)
        public = ledger.from_base58(ours.public_key, 32) or b""
        wallet: ledger.Wallet = ledger.KeypairWallet(seed + public)
        self.assertEqual(wallet.public_key, ours.public_key)
        self.assertEqual(wallet.sign_message(message), ours.sign_message(message))
        Ed25519PublicKey.from_public_bytes(public).verify(wallet.sign_message(message), message)
        for bad in (seed, seed + bytes(32)):
            with self.assertRaises((TypeError, ValueError)):
                ledger.KeypairWallet(bad)
