"""Memories: writing, reading, proving."""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode

from .chain import check_issuer
from .complete import complete_receipt
from .encoding import is_count, is_hash
from .errors import (
    AnchorError, CantCompleteError, ContentMismatchError, IncompleteListError, InclusionError, LeafMismatchError, MalformedError, OwnerMismatchError,
    RootMismatchError, StaleProofError, VerificationError, WrongMemoryError, service_lied,
)
from .listed import check_limited, check_whole
from .merkle import directions_of, fold
from .receipt import DONE, check_answer, is_object, is_text, list_of, or_none, parse_receipt, verify_receipt
from .schema import CreatedMemory, FoundMemory, InclusionProof, LogHead, Memory, NewMemory, Receipt, SearchFilter
from .streams import objects_of
from .written import CREATED, Writes, digest

if TYPE_CHECKING:
    from .client import MemoryLedger

Mode = Literal["substring", "ranked"]
Order = Literal["oldest", "newest"]
SearchOrder = Literal["oldest", "newest", "occurred", "relevance"]

_FOUND = {"id": is_text, "content": is_text, "metadata": is_object, "createdAt": is_text, "via": or_none(is_object)}


@dataclass(frozen=True)
class FoundPage:
    memories: list[FoundMemory]
    #: The `cursor` of the next page. None on the last page.
    next: str | None


class Memories:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._writes = Writes(ledger)

    def write(
        self, content: str, metadata: Mapping[str, Any] | None = None, *, source: str | None = None, occurred_at: str | None = None,
        tags: Sequence[str] | None = None, namespace: str | None = None, supersedes: Sequence[str] | None = None,
        idempotency_key: str | None = None, timeout: float | None = None,
    ) -> CreatedMemory:
        """Stores a memory. Retries never store it twice, whatever happens to the connection.

        After an UnavailableError, ConnectionError or TimeoutError, the memory may be stored or not:
        call again with the same idempotency_key. source, occurred_at, tags and namespace become
        metadata of the same name, and supersedes, the ids of the memories that this one corrects, as
        leaf hashes, so the receipt proves them.
        """
        members = {
            "metadata": metadata, "source": source, "occurredAt": occurred_at, "tags": tags, "namespace": namespace, "supersedes": supersedes,
        }
        return self.store(_new(content, members), idempotency_key=idempotency_key, timeout=timeout)

    def store(self, memory: NewMemory, *, idempotency_key: str | None = None, timeout: float | None = None) -> CreatedMemory:
        """Stores a memory as `write` does, with its members as the API names them."""
        expected = self._writes.expect(memory)
        key = idempotency_key or str(uuid.uuid4())
        written: CreatedMemory = self._ledger.core("POST", "/memories", body=memory, idempotency_key=key, timeout=timeout, says=CREATED).body
        self._writes.remember(written, expected)
        return written

    def write_batch(self, memories: Sequence[NewMemory], *, idempotency_key: str | None = None, timeout: float | None = None) -> list[CreatedMemory]:
        """Stores 1 to 256 memories at once, all or none, as consecutive leaves of the log.

        Use it to import many memories. Call it again after a failure as you would a `write`.
        """
        expected = [self._writes.expect(memory) for memory in memories]
        key, body = idempotency_key or str(uuid.uuid4()), {"memories": list(memories)}
        written: list[CreatedMemory] = self._ledger.core("POST", "/memories/batch", body=body, idempotency_key=key, timeout=timeout, lists=CREATED).body
        if not self._ledger.verify:
            return written
        if len(written) != len(memories):
            raise IncompleteListError("length", f"the answer is not one for each of {len(memories)} memories", "service")
        for one, its in zip(written, expected):
            self._writes.remember(one, its)
        for n, one in enumerate(written):
            if one["leafIndex"] != written[0]["leafIndex"] + n:
                raise IncompleteListError("leafIndex", f"memory {n} is leaf {one['leafIndex']}, the first is {written[0]['leafIndex']}", "service")
        return written

    def get(self, id: str, *, timeout: float | None = None) -> Memory:
        """Returns one memory, checked against its receipt.

        Its text and metadata are those of the leaf, and the leaf is in the owner's log. The check
        takes three to five more requests.
        """
        memory: Memory = self._ledger.core("GET", _path(id), timeout=timeout).body
        if not self._ledger.verify:
            return memory
        check_answer(memory, {"id": is_text, "content": is_text, "metadata": is_object, "leafHash": is_hash, "leafIndex": is_count})
        imported = memory.get("imported")
        check_answer({"imported": imported}, {"imported": or_none(is_object)})
        if memory["id"] != id and not (imported and imported.get("id") == id):
            raise WrongMemoryError("id", f"it is {memory['id']}, not {id}", "service")
        receipt = self.receipt(id, timeout=timeout)
        if memory["leafHash"] != receipt["leafHash"]:
            raise LeafMismatchError("leafHash", f"it is {memory['leafHash']}, the receipt has {receipt['leafHash']}", "service")
        if memory["leafIndex"] != receipt["leafIndex"]:
            raise WrongMemoryError("leafIndex", f"it is {memory['leafIndex']}, the receipt has {receipt['leafIndex']}", "service")
        if _digest_shown(memory["content"], memory["metadata"]) != digest(receipt["entry"]["content"], receipt["entry"]["metadata"]):
            raise ContentMismatchError("content", "text or metadata are not those of the leaf", "service")
        return memory

    def page(self, first: int, limit: int, *, timeout: float | None = None) -> list[Memory]:
        """Returns the memories of `limit` leaves, starting with leaf `first`, oldest first.

        Retracted memories are left out. A page is not checked: `list` checks that nothing is
        missing.
        """
        page: list[Memory] = self._ledger.core("GET", f"/memories?cursor={first}&limit={limit}", timeout=timeout, lists={}).body
        return page

    def list(self, *, order: Order = "oldest", page_size: int = 500, stream: bool = False, timeout: float | None = None) -> Generator[Memory, None, None]:
        """Yields all memories.

        A list that is read to its end is checked: only retracted leaves are missing, and, if the
        order is from the oldest, the leaves give a root of the log. Texts are not checked: `get`
        checks one. For a key that is limited to namespaces, see `namespaces` of the client; without
        it the call raises a ForbiddenError. `stream` requests the whole list as one streamed
        answer, which can't be resumed if it breaks off.
        """
        ledger = self._ledger
        if not ledger.verify:
            yield from self._listed(order, page_size, stream, timeout)
        elif ledger.namespaces is not None:
            yield from check_limited(self._listed(order, page_size, stream, timeout), ledger.namespaces, order, self._writes)
        else:
            head = ledger.log.head(timeout=timeout)
            yield from check_whole(self._listed(order, page_size, stream, timeout), head, order, ledger.log, timeout)

    def _listed(self, order: str, page_size: int, stream: bool, timeout: float | None) -> Generator[Memory, None, None]:
        if stream:
            yield from objects_of(self._ledger.core_stream(f"/memories?order={order}", timeout=timeout))
            return
        path: str | None = f"/memories?{urlencode({'limit': page_size, 'order': order})}"
        while path:
            answer = self._ledger.core("GET", path, timeout=timeout, lists={})
            yield from answer.body
            # Only the query is used: the URL may name another host.
            found = re.search(r'<([^>]*)>\s*;\s*rel="?next"?', answer.headers.get("link", ""))
            path = "/memories" + "".join(found.group(1).partition("#")[0].partition("?")[1:]) if found else None

    def search(
        self, query: str, *, mode: Mode = "substring", order: SearchOrder | None = None, filter: SearchFilter | None = None,
        page_size: int = 100, timeout: float | None = None,
    ) -> Generator[FoundMemory, None, None]:
        """Yields the results of a search, in its order, to the last page.

        mode="ranked" takes a question in words. Results are not checked: no proof shows that a
        search is complete.
        """
        cursor: str | None = None
        while True:
            page = self.search_page(query, mode=mode, order=order, filter=filter, limit=page_size, cursor=cursor, timeout=timeout)
            yield from page.memories
            cursor = page.next
            if cursor is None:
                return

    def search_page(
        self, query: str, *, mode: Mode = "substring", order: SearchOrder | None = None, filter: SearchFilter | None = None,
        limit: int | None = None, cursor: str | None = None, timeout: float | None = None,
    ) -> FoundPage:
        """Returns one page of search results, for callers who page themselves."""
        body = _given({"query": query, "mode": mode, "order": order, "filter": filter, "limit": limit, "cursor": cursor})
        answer = self._ledger.core("POST", "/memories/search", body=body, timeout=timeout, lists=_FOUND)
        return FoundPage(answer.body, answer.headers.get("next-cursor"))

    def retract(self, id: str, *, timeout: float | None = None) -> None:
        """Retracts a memory: lists, searches and cases no longer contain it. Its leaf stays.

        The call needs a session, or a key with the scope `retract`.
        """
        self._ledger.core("DELETE", _path(id), timeout=timeout, says=DONE)

    def forget(self, id: str, *, timeout: float | None = None) -> None:
        """Makes the text of a memory unreadable for good, at once and everywhere.

        Its leaf, proof, times and metadata stay. The call needs a session.
        """
        self._ledger.core("POST", f"{_path(id)}/forget", timeout=timeout, says=DONE)

    def prove(self, id: str, *, timeout: float | None = None) -> InclusionProof:
        """Returns a memory's inclusion proof. Its path and its root are checked against the log's head.

        A receipt says more: the text, and the anchor.
        """
        log = self._ledger.log
        head = log.head(timeout=timeout) if self._ledger.verify else None
        proof: InclusionProof = self._ledger.core("GET", f"{_path(id)}/proof", timeout=timeout).body
        if head is None:
            return proof
        _check_path(proof, head)
        self._writes.check(id, proof["proof"]["leaf"], proof["proof"]["leafIndex"])
        # The log may have grown between the two answers.
        if proof["treeSize"] > head["treeSize"]:
            head = log.head(timeout=timeout)
        try:
            log.check_growth((proof["treeSize"], proof["batchRoot"]), head, timeout)
        except VerificationError as err:
            raise RootMismatchError("batchRoot", f"the log of {proof['treeSize']} leaves has another root: {err}", "service") from err
        return proof

    def receipt(self, memory: str | CreatedMemory, *, timeout: float | None = None) -> Receipt:
        """Returns the receipt of a memory, or of an id.

        It is checked by itself, against the log's head, against this client's writes, and, if
        rpc_url is set, against the chain.
        """
        ledger = self._ledger
        id = memory if isinstance(memory, str) else memory["id"]
        head = ledger.log.head(timeout=timeout) if ledger.verify else None
        r: Receipt = ledger.core("GET", f"{_path(id)}/receipt", timeout=timeout).body
        if head is None:
            return r
        check_answer(r, {})  # parse_receipt takes its text, too
        try:
            self._check_receipt(parse_receipt(r), head, timeout)
        except VerificationError as err:
            raise service_lied(err) from None
        expected = self._writes.check(id, r["leafHash"], r["leafIndex"])
        if not isinstance(memory, str) and (memory["leafHash"] != r["leafHash"] or memory["leafIndex"] != r["leafIndex"]):
            raise WrongMemoryError("leafIndex", f"it is {r['leafIndex']}, the memory is leaf {memory['leafIndex']}", "service")
        if expected:
            expected.check(r["entry"]["content"], r["entry"]["metadata"])
        if r["anchor"]:
            try:
                ledger.check_anchor(r["anchor"], r["entry"]["owner"])
            except VerificationError as err:
                raise service_lied(err) from None
        return r

    def complete(self, saved: Receipt, *, timeout: float | None = None) -> Receipt:
        """Returns a receipt of the same memory with its anchor.

        It is for one that was saved before it, or that another than the client's issuer anchored,
        before the owner moved. Also checks that the log still contains the receipt's tree. Raises a
        NotAnchoredError while the memory is not anchored.
        """
        r, issuer = verify_receipt(saved), self._ledger.issuer
        with suppress(AnchorError):
            if r["anchor"] and issuer:
                check_issuer(r, issuer)
            if r["anchor"]:
                return r
        page = self.page(r["leafIndex"], 1, timeout=timeout)
        for memory in page:
            check_answer(memory, {"id": is_text, "leafIndex": is_count})
        ids = [memory["id"] for memory in page if memory["leafIndex"] == r["leafIndex"]]
        if not ids:
            raise CantCompleteError(f"leaf {r['leafIndex']} is not in the list: it was retracted")
        later, head = self.receipt(ids[0], timeout=timeout), self._ledger.log.head(timeout=timeout)
        self._ledger.log.check_growth((r["treeSize"], r["batchRoot"]), head, timeout)
        return complete_receipt(r, later)

    def _check_receipt(self, r: Receipt, head: LogHead, timeout: float | None) -> None:
        log, a = self._ledger.log, r["anchor"]
        if r["entry"]["owner"] != head["owner"]:
            raise OwnerMismatchError("entry.owner", f"it is {r['entry']['owner']}, the log is {head['owner']}'s")
        if a is None and r["leafIndex"] < head["anchoredSize"]:
            raise StaleProofError("anchor", f"it is null, {head['anchoredSize']} leaves are anchored")
        if a is None and r["treeSize"] < head["treeSize"]:
            raise StaleProofError("treeSize", f"it is {r['treeSize']}, the log has {head['treeSize']} leaves")
        if a and a["committedSize"] < head["anchoredSize"]:
            raise StaleProofError("anchor.committedSize", f"it is {a['committedSize']}, {head['anchoredSize']} leaves are anchored")
        if r["treeSize"] < 1:
            raise InclusionError("treeSize", "a tree without leaves has no proof")
        anchored = head["anchoredSize"], head["anchoredRoot"]
        # If the log grew, remember a head that extends the receipt's trees. Otherwise the log could
        # go on without the leaf.
        if max(r["treeSize"], a["committedSize"] if a else 0) > head["treeSize"]:
            head = log.head(timeout=timeout)
            anchored = head["anchoredSize"], head["anchoredRoot"]
        try:
            log.check_growth((r["treeSize"], r["batchRoot"]), head, timeout)
        except VerificationError as err:
            verify_receipt(r)  # raises a more exact error if the receipt itself is bad
            raise RootMismatchError("batchRoot", f"the log of {r['treeSize']} leaves has another root: {err}") from err
        verify_receipt(r)
        if a is None or (a["committedSize"], a["committedRoot"]) == anchored:
            return
        # The receipt's tree may be a prefix of a committed log that is not this one.
        try:
            log.check_growth((a["committedSize"], a["committedRoot"]), head, timeout)
        except VerificationError as err:
            raise AnchorError("anchor.committedRoot", f"the log does not extend the committed one: {err}") from err


def _new(content: str, members: Mapping[str, Any]) -> NewMemory:
    memory: NewMemory = {"content": content}
    memory.update(_given(members))  # type: ignore[typeddict-item]
    return memory


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _digest_shown(content: str, metadata: Mapping[str, Any]) -> str | None:
    try:
        return digest(content, metadata)
    except TypeError:
        return None  # what no leaf can hold


def _path(id: str) -> str:
    return f"/memories/{quote(id, safe='')}"


def _check_path(answer: InclusionProof, head: LogHead) -> None:
    """Checks that a proof's path leads to its root. `head` is the log's head from before the request."""
    check_answer(answer, {"proof": is_object, "batchRoot": is_hash, "treeSize": is_count, "txSignature": or_none(is_text)})
    proof, root, size = answer["proof"], answer["batchRoot"], answer["treeSize"]
    form = {"leaf": is_hash, "leafIndex": is_count, "siblings": list_of(is_hash), "directions": list_of(lambda v: isinstance(v, bool))}
    check_answer(proof, form)
    index, siblings, directions = proof["leafIndex"], proof["siblings"], proof["directions"]
    if len(siblings) != len(directions):
        raise MalformedError("proof", "it has not the form of one", "service")
    if index >= size:
        raise InclusionError("leafIndex", f"{index} is outside a tree of treeSize {size}", "service")
    folded = fold(proof["leaf"], siblings, directions)
    if folded != root and folded == head["root"]:
        raise RootMismatchError("batchRoot", f"it is {root}, leaf and siblings fold to {folded}, which is the log's", "service")
    if folded != root:
        raise InclusionError("siblings", f"they fold to {folded}, batchRoot is {root}", "service")
    if directions != directions_of(index, size):
        raise InclusionError("directions", f"leafIndex {index} in treeSize {size} takes others", "service")
    if answer["txSignature"] is not None:
        return
    if index < head["anchoredSize"]:
        raise StaleProofError("txSignature", f"it is null, {head['anchoredSize']} leaves are anchored", "service")
    if size < head["treeSize"]:
        raise StaleProofError("treeSize", f"it is {size}, the log has {head['treeSize']} leaves", "service")
