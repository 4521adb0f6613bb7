"""What a client wrote, to check the service's later answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .encoding import canonicalize, is_count, is_hash
from .errors import ContentMismatchError, LeafMismatchError, WrongMemoryError
from .receipt import Check, is_text
from .schema import CreatedMemory, NewMemory

if TYPE_CHECKING:
    from .client import MemoryLedger

#: How many writes the client remembers.
_REMEMBERED = 1000

#: The characters that Unicode calls White_Space, and the service trims. str.strip takes others, too.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

CREATED: dict[str, Check] = {"id": is_text, "leafHash": is_hash, "leafIndex": is_count}


def digest(content: str, metadata: Mapping[str, Any]) -> str:
    return sha256(canonicalize({"content": content, "metadata": metadata}, 0).encode()).hexdigest()


@dataclass(frozen=True)
class Expected:
    """What the entry of a memory must be."""

    digest: str
    #: Leaf hashes of superseded memories that this client knows, and how many it does not know.
    supersedes: set[str]
    unknown: int
    #: A key that is limited to a namespace adds it, and the client can't know.
    any_namespace: bool

    def check(self, content: str, metadata: Mapping[str, Any]) -> None:
        """Checks a text and its metadata against what this client wrote."""
        shown = dict(metadata)
        most = len(self.supersedes) + self.unknown
        if most > 0:
            hashes = shown.pop("supersedes", None)
            if not (isinstance(hashes, list) and all(map(is_hash, hashes)) and 0 < len(hashes) <= most
                    and len(set(hashes)) == len(hashes) and self.supersedes <= set(hashes)):
                raise ContentMismatchError("metadata.supersedes", "it has not the leaves of the memories that were superseded", "service")
        if self.any_namespace and isinstance(shown.get("namespace"), str):
            del shown["namespace"]
        if self.digest != digest(content, shown):
            raise ContentMismatchError("entry", "text or metadata are not those that were written", "service")


@dataclass(frozen=True)
class Fingerprint:
    leaf_hash: str
    leaf_index: int
    expected: Expected


class Writes:
    """The latest writes of a client."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._known: dict[str, Fingerprint] = {}

    def expect(self, memory: NewMemory) -> Expected:
        """Returns what the entry of a memory must be. Refuses metadata that JSON can't hold."""
        members: dict[str, Any] = dict(memory.get("metadata") or {})
        if "source" in memory:
            members["source"] = memory["source"].strip(_SPACE)
        members.update({name: value for name, value in memory.items() if name in ("occurredAt", "tags", "namespace")})
        namespaces = self._ledger.namespaces
        any_namespace = self._ledger.may_be_limited and "namespace" not in members
        if namespaces is not None and len(namespaces) == 1:
            members.setdefault("namespace", namespaces[0])
        ids = set(memory.get("supersedes") or ())
        if ids:
            members.pop("supersedes", None)
        with self._lock:
            known = [self._known[id].leaf_hash for id in ids if id in self._known]
        return Expected(digest(memory["content"], members), set(known), len(ids) - len(known), any_namespace)

    def remember(self, written: CreatedMemory, expected: Expected) -> None:
        if not self._ledger.verify:
            return
        with self._lock:
            self._known[written["id"]] = Fingerprint(written["leafHash"], written["leafIndex"], expected)
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]

    def check(self, id: str, leaf_hash: str, leaf_index: int) -> Expected | None:
        """Checks that a memory that this client wrote is still the same leaf."""
        with self._lock:
            known = self._known.get(id)
        if known is None:
            return None
        if known.leaf_index != leaf_index:
            raise WrongMemoryError("leafIndex", f"it is {leaf_index}, the memory was written as leaf {known.leaf_index}", "service")
        if known.leaf_hash != leaf_hash:
            raise LeafMismatchError("leafHash", f"it is {leaf_hash}, the memory was written as {known.leaf_hash}", "service")
        return known.expected
