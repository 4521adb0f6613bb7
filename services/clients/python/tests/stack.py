"""Tests the client against a running product. services/test/e2e starts the product and this test.

CORE_URL, EXTENSION_URL and RPC_URL name its addresses. BAD_URL is the core API over a bad network:
connections are cut, doubled and delayed. CUT_URL cuts each event stream after some bytes. WRITES
is how many memories to write through the bad network. HEADS is a file for heads, which the Go
client reads afterwards.
"""

import asyncio
import dataclasses
import json
import os
import re
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import memory_ledger as ledger

from .support import TestWallet

URL, EXTENSION, RPC = os.environ["CORE_URL"], os.environ["EXTENSION_URL"], os.environ["RPC_URL"]


def new_client(**options: Any) -> ledger.MemoryLedger:
    client = ledger.MemoryLedger(URL, extension_url=EXTENSION, backoff=0.02, **options)
    client.sign_in(TestWallet())
    return client


def ids(memories: Any) -> list[str]:
    return [memory["id"] for memory in memories]


def event_ids(pages: Any) -> list[str]:
    return [event["id"] for page in pages for event in page["events"]]


class Product(unittest.TestCase):
    def test_write_list_search_prove(self) -> None:
        client = new_client(heads=ledger.FileHeads(os.environ["HEADS"]))
        written = [client.memories.write(f"memory {n} ☂ \U0001f600", {"n": n, "deep": [{"z": 1e21, "a": "é"}]}) for n in range(7)]
        self.assertEqual([w["leafIndex"] for w in written], list(range(7)))
        for options in ({}, {"page_size": 2}, {"stream": True}):
            self.assertEqual(ids(client.memories.list(**options)), ids(written))
            self.assertEqual(ids(client.memories.list(order="newest", **options)), ids(reversed(written)))
        self.assertEqual(len(list(client.memories.search("MEMORY", page_size=2))), 7)
        found = client.memories.search("memory", mode="ranked", filter={"metadata": {"n": 3}})
        self.assertEqual(next(found)["id"], written[3]["id"])
        self.assertEqual(client.memories.get(written[3]["id"])["metadata"], {"n": 3, "deep": [{"a": "é", "z": 1e21}]})
        for w in written:
            self.assertEqual(client.memories.receipt(w)["leafHash"], w["leafHash"])
            self.assertEqual(client.memories.prove(w["id"])["proof"]["leaf"], w["leafHash"])
        self.assertEqual(client.log.head()["treeSize"], 7)
        self.assertTrue(client.log.consistency(3, 7)["proof"])
        with self.assertRaises(ledger.NotFoundError) as caught:
            client.memories.get("nothing")
        self.assertEqual((caught.exception.status, bool(caught.exception.request_id)), (404, True))
        self.assertEqual(list(new_client().memories.list()), [])
        for n in (0, 3, 6):
            client.memories.retract(written[n]["id"])
        kept = [written[n]["id"] for n in (1, 2, 4, 5)]
        self.assertEqual(ids(client.memories.list()), kept)
        self.assertEqual(ids(client.memories.list(order="newest", page_size=2)), kept[::-1])
        client.memories.forget(written[4]["id"])
        with self.assertRaises(ledger.GoneError):
            client.memories.get(written[4]["id"])

    def test_members_and_corrections(self) -> None:
        client = new_client()
        first = client.memories.write("Ada's manager is Grace", source=" \x85diary ", occurred_at="1999-05-01", tags=["work"], namespace="job")
        second = client.memories.write("Ada's manager is Helena", namespace="job", supersedes=[first["id"]])
        newer, older = client.memories.receipt(second), client.memories.receipt(first)
        self.assertEqual(older["entry"]["metadata"], {"source": "diary", "occurredAt": "1999-05-01", "tags": ["work"], "namespace": "job"})
        ledger.verify_correction(newer, older)
        self.assertEqual(ids(client.memories.search("manager", mode="ranked")), [second["id"]])
        self.assertEqual(client.memories.get(first["id"])["supersededBy"], [second["id"]])
        key = client.keys.create("for the job", namespaces=["job"])["key"]
        limited = ledger.MemoryLedger(URL, api_key=key, namespaces=["job"])
        third = limited.memories.write("by the limited key")
        limited.memories.receipt(third)
        client.memories.write("elsewhere")
        self.assertEqual(ids(limited.memories.list()), ids([first, second, third]))

    def test_tools_for_agents(self) -> None:
        client = new_client()
        program = ledger.MemoryLedger(URL, api_key=client.keys.create("agent", scopes=["read", "write", "retract"])["key"], retries=0)
        remember, recall, correct, forget = ledger.memory_tools(program)
        cut = lambda request: dataclasses.replace(answer := program.fetch(request), parts=iter([b"".join(answer.parts)[:9]]))
        with mock.patch.object(program._transport, "_fetch", cut), self.assertRaises(ledger.ConnectionError):
            remember("Ada's manager is Grace", occurred_at="2020-05-01", tags=["work"])  # it is stored
        old = remember("Ada's manager is Grace", occurred_at="2020-05-01", tags=["work"])
        remember("Nothing new. " * 20_000 + "Ada likes tea.", tags=["food"])
        new = correct(old, "Ada's manager is Helena")
        self.assertEqual(ids(recall("who is Ada's manager?", tags=["work"])), [new])
        self.assertEqual([found["untrustedContent"] for found in recall("Ada", tags=["food"])], ["Ada likes tea."])
        with self.assertRaisesRegex(ValueError, f"correct {new}"):
            correct(old, "Ada's manager is Iris")
        forget(new)
        self.assertNotRegex(str(recall("Ada manager")), "Grace|Helena")

        async def in_asyncio() -> Any:
            remember, recall, _, _ = ledger.memory_tools(ledger.AsyncMemoryLedger(URL, session=program._credential))
            return await remember("Ada plays chess", "", []), await recall("chess")

        id, found = asyncio.run(in_asyncio())
        self.assertEqual(ids(found), [id])

        both = {"namespaces": ["home", "work"]}
        program = ledger.MemoryLedger(URL, api_key=client.keys.create("agent", scopes=["read", "write"], **both)["key"], **both)
        program.memories.write("Ada's desk is in the hall", namespace="home")
        remember, recall, correct, _ = ledger.memory_tools(program, namespace="work")
        desk = correct(remember("Ada's desk is by the door"), "Ada's desk is by the window")
        self.assertEqual(ids(recall("Ada's desk")), [desk])

    def test_batches(self) -> None:
        client = new_client()
        first = client.memories.write("alone")
        contents: list[ledger.NewMemory] = [{"content": f"of many {n}", "metadata": {"n": n}} for n in range(256)]
        written = client.memories.write_batch(contents, idempotency_key="all-at-once")
        self.assertEqual([w["leafIndex"] for w in written], [first["leafIndex"] + 1 + n for n in range(256)])
        self.assertEqual(client.memories.write_batch(contents, idempotency_key="all-at-once"), written)
        with self.assertRaises(ledger.IdempotencyError):
            client.memories.write_batch(contents[1:], idempotency_key="all-at-once")
        for bad in ([], [*contents, contents[0]]):
            with self.assertRaises(ledger.InvalidRequestError):
                client.memories.write_batch(bad)
        self.assertEqual(client.memories.receipt(written[255])["entry"]["content"], "of many 255")
        self.assertEqual(ids(client.memories.list()), ids([first, *written]))
        page = client.memories.search_page("of many", limit=200)
        last = client.memories.search_page("of many", limit=200, cursor=page.next)
        self.assertEqual((len(page.memories), len(last.memories), last.next), (200, 56, None))

    def test_exports(self) -> None:
        client = new_client()
        self.assertEqual(list(client.log.export()), [])
        contents = [f'leaf {n} ☂ " \\ \U0001f600' for n in range(400)]
        for at in range(0, 400, 200):
            client.memories.write_batch([{"content": content, "metadata": {"big": 1e21}} for content in contents[at:at + 200]])
        all_ids = ids(client.memories.list())
        client.memories.retract(all_ids[5])
        leaves = list(client.log.export())
        self.assertEqual(ids(leaves), all_ids)
        self.assertEqual([leaf["entry"] and leaf["entry"]["content"] for leaf in leaves], [*contents[:5], None, *contents[6:]])
        for leaf in client.log.export():
            break  # a caller may stop early
        self.assertEqual(len(list(ledger.verify_export(client.log.export_file()))), 400)

    def test_keys_sessions_and_grants(self) -> None:
        client = new_client()
        key = client.keys.create("a program")
        program = ledger.MemoryLedger(URL, api_key=key["key"])
        program.memories.write("by key")
        self.assertIsNone(program.owner)
        program.log.head()
        self.assertEqual(program.owner, client.owner)
        with self.assertRaises(ledger.ForbiddenError):
            program.keys.list()
        client.keys.revoke(key["id"])
        self.assertIsNotNone(client.keys.list()[0]["revokedAt"])
        with self.assertRaises(ledger.UnauthorizedError):
            program.log.head()

        drop = client.grants.create_drop(max_writes=2)
        filled = client.grants.fill_drop(drop["url"], {"content": "from a friend"}, idempotency_key="once")
        self.assertEqual(client.grants.fill_drop(drop["url"], {"content": "from a friend"}, idempotency_key="once"), filled)
        self.assertEqual(client.grants.drop_status(drop["id"])["remainingWrites"], 1)
        via = client.memories.get(filled["memoryId"])["via"]
        self.assertEqual(via and via["kind"], "drop")
        client.grants.revoke_drop(drop["id"])
        with self.assertRaises(ledger.NotFoundError):
            client.grants.fill_drop(drop["url"], {"content": "late"})
        case = client.grants.create_case()
        self.assertEqual([grant["id"] for grant in client.grants.list()], [case["id"]])
        self.assertIn("from a friend", client.grants.read_case(case["url"]))
        with self.assertRaises(ledger.NotFoundError):
            client.grants.read_case(case["url"])
        self.assertEqual(client.grants.case_status(case["id"])["readCount"], 1)
        client.grants.end(client.grants.create_case()["id"])
        self.assertEqual(client.grants.list(), [])
        self.assertEqual(sum(session["current"] for session in client.sessions.list()), 1)
        self.assertEqual(client.sessions.end_others(), 1)  # that of the extension API

    def test_erasure(self) -> None:
        client, wallet = ledger.MemoryLedger(URL), TestWallet()
        client.sign_in(wallet)
        client.memories.write("to be erased")
        client.erase(wallet)
        with self.assertRaises(ledger.UnauthorizedError):
            client.log.head()

    def test_anchored_receipts_against_the_chain(self) -> None:
        client = new_client(rpc_url=RPC)
        first = client.memories.write("to be anchored")
        early = client.memories.receipt(first)

        def anchored(written: ledger.CreatedMemory) -> ledger.Receipt:
            for _ in range(300):
                receipt = client.memories.receipt(written)
                if receipt["anchor"]:
                    return receipt
                time.sleep(0.1)
            raise AssertionError("not anchored")

        old = anchored(first)
        if not early["anchor"]:
            with self.assertRaises(ledger.NotAnchoredError):
                ledger.check_onchain(RPC, early)
            self.assertEqual(ledger.check_onchain(RPC, client.memories.complete(early)).size, 1)
        anchored(client.memories.write("later"))
        now = client.memories.receipt(first)
        anchor = now["anchor"]
        assert anchor
        self.assertEqual((anchor["committedSize"], ledger.check_onchain(RPC, old).size), (2, 2))
        with self.assertRaises(ledger.AnchorError):
            ledger.check_onchain(RPC, {**now, "anchor": {**anchor, "slot": anchor["slot"] + 1}})
        # An issuer that differs from what the service says.
        key = client.keys.create("doubts")["key"]
        doubting = ledger.MemoryLedger(URL, api_key=key, issuer=ledger.Issuer(anchor["account"]))
        for call in (lambda: doubting.memories.receipt(first), lambda: list(doubting.log.export())):
            with self.assertRaises(ledger.AnchorError) as caught:
                call()
            self.assertEqual(caught.exception.liar, "service")


def flip(digest: str) -> str:
    return f"{int(digest[0], 16) ^ 1:x}{digest[1:]}"


class Liar:
    """A service that lies: `change` changes the answers to requests whose path matches."""

    def __init__(self) -> None:
        self.path, self.method, self.change = "nothing", "GET", lambda body: body
        self._honest = ledger.Connections()

    def __call__(self, request: ledger.Request) -> ledger.Response:
        response = self._honest(request)
        path = urlsplit(request.url).path
        if request.method != self.method or not re.search(self.path, path) or response.status >= 300:
            return response
        text = b"".join(response.parts).decode()
        body = self.change(text) if path == "/export" else json.dumps(self.change(json.loads(text)))
        return ledger.Response(response.status, response.headers, iter([body.encode()]))

    def tell(self, path: str, change: Callable[[Any], Any], method: str = "GET") -> None:
        self.path, self.change, self.method = path, change, method

    def record(self, path: str, ask: Callable[[], object]) -> Any:
        """Records the service's answer to one request, so that a lie can repeat it for another."""
        kept: list[Any] = []
        self.tell(path, lambda answer: kept.append(answer) or answer)
        ask()
        self.tell("nothing", lambda answer: answer)
        return kept[0]


def on_line(n: int, change: Callable[[str], str]) -> Callable[[str], str]:
    def changed(text: str) -> str:
        lines = text.split("\n")
        lines[n] = change(lines[n])
        return "\n".join(lines)

    return changed


def without_line(n: int) -> Callable[[str], str]:
    return lambda text: "\n".join(line for at, line in enumerate(text.split("\n")) if at != n)


def of(n: int, **change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Changes members of an element of a list."""
    return lambda all: [*all[:n], with_members(**change)(all[n]), *all[n + 1:]]


def with_members(**change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda body: {**body, **{name: one(body[name]) for name, one in change.items()}}


class ALyingService(unittest.TestCase):
    def test_is_caught(self) -> None:
        service, other_service = Liar(), Liar()
        client, other = new_client(fetch=service), new_client(fetch=other_service)
        second, third = [client.memories.write(f"memory {n}") for n in range(5)][1:3]
        theirs = [other.memories.write(f"theirs {n}") for n in range(6)]
        client.log.head()
        early = service.record("^/export$", lambda: list(client.log.export()))
        their_export = other_service.record("^/export$", lambda: list(other.log.export()))
        their_events = other_service.record("^/events$", lambda: next(other.events.pages()))
        their_head, their_receipt, old = other.log.head(), other.memories.receipt(theirs[2]), client.memories.receipt(second)
        memories, log = client.memories, client.log

        def caught(name: str, kind: type[ledger.VerificationError], path: str, change: Callable[[Any], Any], ask: Callable[[], object], method: str = "GET") -> None:
            service.tell(path, change, method)
            with self.subTest(name), self.assertRaises(ledger.VerificationError) as error:
                ask()
            with self.subTest(name):
                self.assertEqual((type(error.exception), error.exception.liar), (kind, "service"), str(error.exception))

        def receipt() -> object:
            return memories.receipt(third)

        def get() -> object:
            return memories.get(third["id"])

        def prove() -> object:
            return memories.prove(third["id"])

        def export() -> object:
            return list(log.export())

        def grown() -> object:
            memories.write("the sixth")
            return log.head()

        one, listed, entry = "^/memories/[^/]+$", "^/memories$", with_members
        caught("a leaf of a receipt", ledger.LeafMismatchError, "receipt$", with_members(leafHash=flip), receipt)
        caught("a leaf of a memory", ledger.LeafMismatchError, one, with_members(leafHash=flip), get)
        caught("a leaf of a list", ledger.RootMismatchError, listed, of(2, leafHash=flip), lambda: list(memories.list()))
        caught("a leaf of a proof", ledger.InclusionError, "proof$", with_members(proof=with_members(leaf=flip)), prove)
        caught("a text of a receipt", ledger.ContentMismatchError, "receipt$", with_members(entry=entry(content=lambda _: "another")), receipt)
        caught("a text of a memory", ledger.ContentMismatchError, one, with_members(content=lambda _: "another"), get)
        caught("metadata of a memory", ledger.ContentMismatchError, one, with_members(metadata=lambda _: {"a": 1}), get)
        caught("metadata that no leaf can hold", ledger.ContentMismatchError, one, with_members(content=lambda _: "\ud800"), get)
        caught("a sibling of a receipt", ledger.InclusionError, "receipt$", with_members(siblings=lambda s: [s[0], flip(s[1]), *s[2:]]), receipt)
        caught("a sibling of a proof", ledger.InclusionError, "proof$", with_members(proof=with_members(siblings=lambda s: list(map(flip, s)))), prove)
        caught("a root of a proof", ledger.RootMismatchError, "proof$", with_members(batchRoot=flip), prove)
        caught("the head's root", ledger.LogForkedError, "^/log$", with_members(root=flip), log.head)
        for at in (0, 2, 4):
            caught(f"memory {at} is not in the list", ledger.IncompleteListError, listed, lambda l: [m for m in l if m["leafIndex"] != at], lambda: list(memories.list()))
        caught("the newest is not in the list", ledger.IncompleteListError, listed, lambda l: l[1:], lambda: list(memories.list(order="newest")))
        caught("a leaf of an export", ledger.LeafMismatchError, "^/export$", on_line(3, lambda l: l.replace(third["leafHash"], flip(third["leafHash"]))), export)
        caught("a text of an export", ledger.LeafMismatchError, "^/export$", on_line(3, lambda l: l.replace("memory 2", "memory 8")), export)
        caught("an export without a leaf", ledger.IncompleteExportError, "^/export$", without_line(3), export)
        caught("an export that ends halfway", ledger.IncompleteExportError, "^/export$", lambda text: text[:len(text) // 2], export)
        caught("an export without its last line", ledger.IncompleteExportError, "^/export$", without_line(6), export)
        caught("an export with another root", ledger.LogForkedError, "^/export$", on_line(0, lambda l: re.sub('(?<="root":").', lambda m: flip(m[0]), l)), export)
        caught("another owner's export", ledger.OwnerMismatchError, "^/export$", lambda _: their_export, export)
        caught("another owner's events", ledger.OwnerMismatchError, "^/events$", lambda _: their_events, lambda: list(client.events.pages()))
        caught("the same events again", ledger.MalformedError, "^/events$", with_members(cursor=lambda _: "5"), lambda: list(client.events.pages(after="7")))
        caught("an older head", ledger.LogShrankError, "^/log$", with_members(treeSize=lambda _: 3), log.head)
        caught("a fork that grew", ledger.LogForkedError, "^/log", lambda a: {**a, "treeSize": 6, "root": their_head["root"]} if "owner" in a else a, grown)
        caught("another owner's head", ledger.OwnerMismatchError, "^/log$", lambda _: their_head, log.head)
        caught("another owner's receipt", ledger.OwnerMismatchError, "receipt$", lambda _: their_receipt, receipt)
        caught("an old receipt", ledger.StaleProofError, "receipt$", lambda _: old, lambda: memories.receipt(second))
        caught("an old export", ledger.StaleProofError, "^/export$", lambda _: early, export)
        service.tell("nothing", lambda body: body)
        genuine = memories.receipt(second)
        caught("a receipt of another memory", ledger.WrongMemoryError, "receipt$", lambda _: genuine, receipt)
        two: list[ledger.NewMemory] = [{"content": "one"}, {"content": "two"}]

        def batch() -> Any:
            return memories.write_batch(two)

        caught("an answer too few to a batch", ledger.IncompleteListError, "batch$", lambda b: b[1:], batch, "POST")
        caught("a batch's answers in another order", ledger.IncompleteListError, "batch$", lambda b: b[::-1], batch, "POST")
        caught("a batch with another leaf", ledger.LeafMismatchError, "batch$", of(1, leafHash=flip), lambda: memories.receipt(batch()[1]["id"]), "POST")
        stranger = ledger.MemoryLedger(URL, fetch=service)
        caught("a challenge for another account", ledger.ChallengeError, "challenge$",
               lambda c: {"message": re.sub("\n.*\n", f"\n{other.owner}\n", c["message"], count=1)}, lambda: stranger.sign_in(TestWallet()), "POST")

    def test_a_relay_gets_no_signature(self) -> None:
        honest = ledger.Connections()

        def relay(request: ledger.Request) -> ledger.Response:
            return honest(dataclasses.replace(request, url=request.url.replace("http://relay", URL)))

        with self.assertRaises(ledger.ChallengeError):
            ledger.MemoryLedger("http://relay", fetch=relay).sign_in(TestWallet())
        ledger.MemoryLedger("http://relay", fetch=relay, public_url=URL).sign_in(TestWallet())


class TheFeed(unittest.TestCase):
    def test_page_by_page_and_as_it_comes(self) -> None:
        client = new_client()
        client.memories.write("before")
        followed: list[ledger.Events] = []

        def follow() -> None:
            for page in client.events.follow(after="0"):
                followed.append(page)
                if any(event["type"] == "ApiKeyCreated" for event in page["events"]):
                    return

        following = threading.Thread(target=follow)
        following.start()
        client.memories.write_batch([{"content": f"of the batch {n}"} for n in range(20)])
        client.keys.create("the last event")
        following.join(30)
        pages = list(client.events.pages(page_size=3))
        types = [event["type"] for page in pages for event in page["events"] if not event["type"].startswith("Batch")]
        self.assertEqual(types, ["OwnerRegistered", "SessionIssued", "SessionIssued", *["MemoryWritten"] * 21, "ApiKeyCreated"])
        self.assertEqual(event_ids(followed), event_ids(pages)[:len(event_ids(followed))])
        self.assertEqual(event_ids(client.events.pages(after=pages[0]["cursor"])), event_ids(pages)[len(pages[0]["events"]):])
        with self.assertRaises(ledger.InvalidRequestError):
            next(client.events.follow(after="x"))
        with self.assertRaises(ledger.UnauthorizedError):
            next(ledger.MemoryLedger(URL, api_key="svc_key_no").events.follow())

    def test_a_feed_whose_streams_are_cut(self) -> None:
        client = new_client()
        key, writes = client.keys.create("follows")["key"], 40
        writer = threading.Thread(target=lambda: [client.memories.write(str(n)) for n in range(writes)])
        writer.start()
        indexes: list[int] = []
        with mock.patch("memory_ledger.feed.pause") as waits:  # the service asks clients to wait for a second
            for page in ledger.MemoryLedger(os.environ["CUT_URL"], api_key=key, backoff=0.001).events.follow(after="0"):
                indexes.extend(event["data"]["leafIndex"] for event in page["events"] if event["type"] == "MemoryWritten")
                if len(indexes) >= writes:
                    break
        writer.join()
        self.assertEqual(indexes, list(range(writes)))
        self.assertGreater(waits.call_count, 2)


class ABadNetwork(unittest.TestCase):
    def test_each_write_is_stored_once(self) -> None:
        """Half of the writes are from threads, and half from tasks of asyncio."""
        straight, writes = new_client(), int(os.environ["WRITES"])
        options: dict[str, Any] = {
            "api_key": straight.keys.create("through the bad network")["key"], "owner": straight.owner, "timeout": 5.0, "retries": 14, "backoff": 0.002,
        }
        client, stored = ledger.MemoryLedger(os.environ["BAD_URL"], **options), {}
        numbers = iter(range(writes))
        lock = threading.Lock()

        def take() -> int | None:
            with lock:
                return next(numbers, None)

        def write() -> None:
            while (n := take()) is not None:
                stored[client.memories.write(f"write {n}")["id"]] = f"write {n}"

        async def write_async() -> None:
            again = ledger.AsyncMemoryLedger(os.environ["BAD_URL"], **options)

            async def one() -> None:
                while (n := take()) is not None:
                    stored[(await again.memories.write(f"write {n}"))["id"]] = f"write {n}"

            await asyncio.gather(*(one() for _ in range(8)))

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        asyncio.run(write_async())
        for thread in threads:
            thread.join()
        self.assertEqual(len(stored), writes)
        self.assertEqual({memory["id"]: memory["content"] for memory in straight.memories.list(page_size=1000)}, stored)
        self.assertEqual(len(list(straight.memories.list())), writes)
        for id in list(stored)[:5]:
            self.assertEqual(client.memories.receipt(id)["entry"]["content"], stored[id])
