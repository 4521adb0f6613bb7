"""The checks of a list while it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .encoding import is_count, is_hash
from .errors import IncompleteListError, RootMismatchError, VerificationError, WrongMemoryError
from .merkle import RootOfLeaves
from .receipt import check_answer, is_object, is_text
from .schema import LogHead, Memory
from .written import Writes

if TYPE_CHECKING:
    from .log import Log


class _Missing:
    """Leaves that are not in the list. They must be retracted ones: an export lists them without an entry."""

    def __init__(self, log: Log, timeout: float | None) -> None:
        self._log, self._timeout = log, timeout
        self._retracted: dict[int, str] = {}

    def hashes(self, first: int, end: int) -> Iterator[str]:
        for leaf in range(first, end):
            if leaf not in self._retracted:  # it may have been retracted since the last export
                self._retracted = {one["index"]: one["leafHash"] for one in self._log.export(timeout=self._timeout) if one["entry"] is None}
            found = self._retracted.get(leaf)
            if found is None:
                raise IncompleteListError("leafIndex", f"leaf {leaf} is not in the list, and was not retracted", "service")
            yield found


def check_whole(listed: Iterator[Memory], head: LogHead, order: str, log: Log, timeout: float | None) -> Iterator[Memory]:
    missing = _Missing(log, timeout)
    if order == "oldest":
        return _oldest_first(listed, head, log, missing, timeout)
    return _newest_first(listed, head, missing)


def _oldest_first(listed: Iterator[Memory], head: LogHead, log: Log, missing: _Missing, timeout: float | None) -> Iterator[Memory]:
    tree = RootOfLeaves()
    for memory in listed:
        check_answer(memory, {"leafIndex": is_count, "leafHash": is_hash})
        if memory["leafIndex"] < tree.size:
            raise IncompleteListError("leafIndex", f"{memory['leafIndex']} comes where {tree.size} should", "service")
        for leaf in missing.hashes(tree.size, memory["leafIndex"]):
            tree.add(leaf)
        tree.add(memory["leafHash"])
        yield memory
    for leaf in missing.hashes(tree.size, head["treeSize"]):
        tree.add(leaf)
    # If the log grew, remember a head that extends the list. Otherwise the service could show a
    # fork to this call only.
    now = log.head(timeout=timeout) if tree.size > head["treeSize"] else head
    try:
        log.check_growth((tree.size, tree.root()), now, timeout)
    except VerificationError as err:
        raise RootMismatchError("leafHash", f"the leaves of the list give no root of the log: {err}", "service") from err


def _newest_first(listed: Iterator[Memory], head: LogHead, missing: _Missing) -> Iterator[Memory]:
    end: int | None = None  # all leaves from here on are accounted for
    for memory in listed:
        check_answer(memory, {"leafIndex": is_count})
        index = memory["leafIndex"]
        end = max(head["treeSize"], index + 1) if end is None else end
        if index >= end:
            raise IncompleteListError("leafIndex", f"{index} comes where {end - 1} should", "service")
        for _ in missing.hashes(index + 1, end):
            pass
        end = index
        yield memory
    for _ in missing.hashes(0, head["treeSize"] if end is None else end):
        pass


def check_limited(listed: Iterator[Memory], namespaces: Sequence[str], order: str, writes: Writes) -> Iterator[Memory]:
    """Checks the list of a key that sees only some namespaces."""
    previous: int | None = None
    for memory in listed:
        check_answer(memory, {"id": is_text, "content": is_text, "metadata": is_object, "leafHash": is_hash, "leafIndex": is_count})
        index = memory["leafIndex"]
        if previous is not None and (index <= previous if order == "oldest" else index >= previous):
            raise IncompleteListError("leafIndex", f"after {previous} comes {index}", "service")
        previous = index
        expected = writes.check(memory["id"], memory["leafHash"], index)
        if not memory.get("damaged"):
            if memory["metadata"].get("namespace") not in namespaces:
                raise WrongMemoryError("metadata.namespace", "the key is not for it", "service")
            if expected:
                expected.check(memory["content"], memory["metadata"])
        yield memory
