"""The newest head of each owner's log, and the check that a log only grows."""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypedDict

from .encoding import is_count, is_hash
from .errors import LogForkedError, LogShrankError, MalformedError, OwnerMismatchError
from .merkle import EMPTY_ROOT, is_consistent
from .receipt import Check, check_answer, is_text, list_of, or_none
from .schema import ConsistencyProof, LogHead


class Head(TypedDict):
    """The part of a log's head that a client remembers."""

    size: int
    root: str
    anchoredSize: int
    #: None before the first anchor.
    anchoredRoot: str | None


class HeadStore(Protocol):
    """Stores heads by owner. Keep them as long as you can: only a stored head can reveal a fork."""

    def get(self, owner: str) -> Head | None: ...

    def set(self, owner: str, head: Head) -> None: ...

    def lock(self, owner: str) -> AbstractContextManager[object]:
        """Keeps all other users of the store out, in this and other processes, from a `get` to a `set`.

        Without it a slow user could lower the head, and a fork would go unnoticed.
        """
        ...


class MemoryHeads:
    """Keeps heads until the process ends."""

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}
        self._lock = threading.Lock()

    def get(self, owner: str) -> Head | None:
        return self._heads.get(owner)

    def set(self, owner: str, head: Head) -> None:
        self._heads[owner] = head

    def lock(self, owner: str) -> AbstractContextManager[object]:
        return self._lock


class FileHeads:
    """Keeps heads in a JSON file, for programs that run repeatedly or several at a time.

    A crash during `set` leaves either the old file or the new one. A second file, with .lock after
    the name, holds the lock. The Go client's FileHeads reads and writes the same file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def _read(self) -> dict[str, Head]:
        try:
            heads: dict[str, Head] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return heads

    def get(self, owner: str) -> Head | None:
        return self._read().get(owner)

    def set(self, owner: str, head: Head) -> None:
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({**self._read(), owner: head}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)

    @contextlib.contextmanager
    def lock(self, owner: str) -> Iterator[None]:
        # The heads' file is replaced as a whole, so another file is locked.
        with open(os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b") as guard:
            if sys.platform == "win32":
                import msvcrt

                while True:
                    try:
                        msvcrt.locking(guard.fileno(), msvcrt.LK_LOCK, 1)
                        break
                    except OSError:
                        pass  # LK_LOCK gives up after ten seconds
            else:
                import fcntl

                fcntl.flock(guard, fcntl.LOCK_EX)
            yield  # closing the file ends the lock, as the end of the process does


Ask = Callable[[int, int], ConsistencyProof]


def check_growth(old: tuple[int, str], new: tuple[int, str], ask: Ask) -> None:
    """Checks that the log of one size and root extends the log of another, with a proof from the service."""
    if old[0] == new[0]:
        if old[1] != new[1]:
            raise LogForkedError("root", f"a log of {new[0]} leaves had {old[1]}, now it has {new[1]}", "service")
        return
    if old == (0, EMPTY_ROOT):
        return
    if old[0] > new[0]:
        raise LogShrankError("treeSize", f"it is {new[0]}, less than {old[0]}", "service")
    check_proof(old, new, ask(old[0], new[0]))


def check_proof(old: tuple[int, str], new: tuple[int, str], answer: ConsistencyProof) -> None:
    """Checks a consistency proof against the two roots."""
    sizes = f"from {old[0]} to {new[0]} leaves"
    check_answer(answer, {"from": is_count, "to": is_count, "proof": list_of(is_hash)})
    if answer["from"] != old[0] or answer["to"] != new[0]:
        raise MalformedError("proof", f"it is not one {sizes}", "service")
    if not is_consistent(old[0], new[0], old[1], new[1], answer["proof"]):
        raise LogForkedError("proof", f"it does not show that the log only grew {sizes}", "service")


class Heads:
    """Keeps the newest head of each owner, and refuses a head that does not extend it."""

    def __init__(self, store: HeadStore | None = None) -> None:
        self._store = store or MemoryHeads()
        # Heads are checked one after the other. If two answers arrived out of order, the log would
        # look as if it had shrunk.
        self._turn = threading.Lock()

    def check(self, fetch_head: Callable[[], LogHead], ask: Ask, owner: str | None) -> LogHead:
        """Fetches the head and checks it. If `owner` is given, the log must be that owner's."""
        with self._turn:
            # If another process stored a head meanwhile, the next one must extend that.
            while True:
                head = self._once(fetch_head, ask, owner)
                if head is not None:
                    return head

    def forget(self, owner: str) -> None:
        """Forgets an owner's head. Every log extends the empty one."""
        with self._turn, self._store.lock(owner):
            self._store.set(owner, {"size": 0, "root": EMPTY_ROOT, "anchoredSize": 0, "anchoredRoot": None})

    def _once(self, fetch_head: Callable[[], LogHead], ask: Ask, owner: str | None) -> LogHead | None:
        # Read before the request: a head that another client stores meanwhile may be newer.
        before = None if owner is None else self._store.get(owner)
        head = fetch_head()
        _check_form(head)
        if owner is not None and head["owner"] != owner:
            raise OwnerMismatchError("owner", f"it is {head['owner']}, this client is {owner}", "service")
        if owner is None:
            before = self._store.get(head["owner"])
        _check_extends(before, head, ask)
        seen: Head = {"size": head["treeSize"], "root": head["root"], "anchoredSize": head["anchoredSize"], "anchoredRoot": head["anchoredRoot"]}
        if before == seen:
            return head
        with self._store.lock(head["owner"]):
            if self._store.get(head["owner"]) != before:
                return None
            self._store.set(head["owner"], seen)
        return head


def _check_extends(before: Head | None, head: LogHead, ask: Ask) -> None:
    """Checks that a head extends the one before. The lawful reason why it may not is a restored backup."""
    now, anchored = (head["treeSize"], head["root"]), (head["anchoredSize"], head["anchoredRoot"])
    try:
        if before:
            if head["treeSize"] < before["size"]:
                raise LogShrankError("treeSize", f"it is {head['treeSize']}, it was {before['size']}", "service")
            if head["anchoredSize"] < before["anchoredSize"]:
                raise LogShrankError("anchoredSize", f"it is {head['anchoredSize']}, it was {before['anchoredSize']}", "service")
            check_growth((before["size"], before["root"]), now, ask)
    except (LogShrankError, LogForkedError) as err:
        raise type(err)(err.field, f"{err.problem}; the service lies, or its operator restored an older backup", "service") from None
    if anchored[1] is not None and (before is None or anchored != (before["anchoredSize"], before["anchoredRoot"])):
        check_growth((anchored[0], anchored[1]), now, ask)


_form: dict[str, Check] = {"owner": is_text, "treeSize": is_count, "root": is_hash, "anchoredSize": is_count, "anchoredRoot": or_none(is_hash)}


def _check_form(head: LogHead) -> None:
    check_answer(head, _form)
    if head["anchoredSize"] > head["treeSize"]:
        raise MalformedError("anchoredSize", "it is more than treeSize", "service")
    if head["treeSize"] == 0 and head["root"] != EMPTY_ROOT:
        raise MalformedError("root", "it is no root of such a log", "service")
    if head["anchoredRoot"] is None and head["anchoredSize"] > 0:
        raise MalformedError("anchoredRoot", "it does not go with anchoredSize", "service")
