"""Exports: a whole log, checked offline."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, TypedDict, cast

from .encoding import from_base58, is_count, is_hash, parse_json
from .errors import AnchorError, IncompleteExportError, LeafMismatchError, MalformedError, OwnerMismatchError, RootMismatchError
from .merkle import RootOfLeaves
from .receipt import ANCHOR_MEMBERS, ENTRY_MEMBERS, Check, check_anchor_form, check_members, entry_hash, is_object, is_text, or_none
from .schema import Anchor, Entry, Via
from .streams import lines_of


class ExportHeader(TypedDict):
    """The first line of an export."""

    format: Literal["memory-ledger/export/1"]
    owner: str
    treeSize: int
    root: str
    #: The newest commitment on the chain, of the first `committedSize` leaves.
    anchor: Anchor | None


class _ExportedLeaf(TypedDict):
    index: int
    id: str
    createdAt: str
    via: Via | None
    leafHash: str
    #: None if the memory was retracted, erased or damaged: only its hash stays.
    entry: Entry | None


class ExportedLeaf(_ExportedLeaf, total=False):
    """A leaf of an export. No hash covers `id`, `createdAt` and `via`."""

    #: The service's stored copy does not match the leaf.
    damaged: Literal[True]


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)", value, re.ASCII):
        return False
    try:
        datetime.fromisoformat(re.sub("^0000", "2000", value[:19]))  # datetime has no year 0, which is a leap year too
    except ValueError:
        return False
    return True


_format = "memory-ledger/export/1"
_header: dict[str, Check] = {"format": lambda v: v == _format, "owner": is_text, "treeSize": is_count, "root": is_hash, "anchor": or_none(is_object)}
_leaf: dict[str, Check] = {
    "index": is_count, "id": is_text, "createdAt": _is_time, "via": or_none(is_object), "leafHash": is_hash, "entry": or_none(is_object),
}
_damaged: dict[str, Check] = {**_leaf, "entry": lambda v: v is None, "damaged": lambda v: v is True}
_via: dict[str, Check] = {"kind": is_text, "id": is_text}
_end: dict[str, Check] = {"complete": lambda v: v is True, "leaves": is_count}


def verify_export(file: Iterable[bytes], begin: Callable[[ExportHeader], None] | None = None) -> Generator[ExportedLeaf, None, ExportHeader]:
    """Checks an export offline, and yields its leaves while it reads them.

    `file` is a file opened in binary mode, or any parts of one. Each entry is checked before it is
    yielded. The root and completeness are checked only at the end: trust no leaf before the loop
    has ended without a VerificationError. Returns the header, and passes it to `begin` before the
    first leaf.
    """
    lines = _Lines(lines_of(file))
    header = _check_header(lines.next(_header))
    if begin:
        begin(header)
    log, anchor = RootOfLeaves(), header["anchor"]
    for index in range(header["treeSize"]):
        leaf = cast(ExportedLeaf, lines.next(_leaf, index))
        if leaf["entry"] is not None:
            _check_entry(leaf["entry"], leaf["leafHash"], header["owner"], lines.at)
        log.add(leaf["leafHash"])
        if anchor and anchor["committedSize"] == log.size:
            _check_root(log, anchor["committedRoot"], "anchor.committedRoot")
        yield leaf
    end = lines.next(_end)
    if end["leaves"] != header["treeSize"]:
        raise IncompleteExportError("leaves", f"{lines.at} says {end['leaves']}, treeSize is {header['treeSize']}")
    lines.end()
    _check_root(log, header["root"], "root")
    return header


class _Lines:
    """Reads lines that are JSON objects with certain members."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._line = lines, 0

    @property
    def at(self) -> str:
        return f"line {self._line}"

    def next(self, members: dict[str, Check], index: int | None = None) -> dict[str, Any]:
        """Returns the next line. If `index` is given, the line must hold that leaf."""
        text = next(self._lines, None)
        self._line += 1
        if text is None:
            raise IncompleteExportError("export", f"{self.at} is missing")
        if not text.endswith("\n"):
            raise IncompleteExportError("export", f"{self.at} breaks off")
        value = self._parse(text)
        if index is not None and is_count(value.get("index")) and value["index"] != index:
            raise IncompleteExportError("index", f"{self.at} has leaf {value['index']}, and {index} comes next")
        # The last line in place of a leaf means that leaves are missing. A leaf in place of the
        # last line means that there are too many.
        if members is _leaf and "complete" in value or members is _end and "index" in value:
            raise IncompleteExportError("treeSize", f"{self.at} is not what comes after {self._line - 2} leaves")
        try:
            check_members(value, _damaged if members is _leaf and "damaged" in value else members)
            if value.get("entry") is not None:
                check_members(value["entry"], ENTRY_MEMBERS, "entry.")
            if value.get("via") is not None:
                check_members(value["via"], _via, "via.")
            if value.get("anchor") is not None:
                check_members(value["anchor"], ANCHOR_MEMBERS, "anchor.")
        except MalformedError as err:
            raise MalformedError(err.field, f"{self.at}: {err.problem}") from None
        return value

    def _parse(self, text: str) -> dict[str, Any]:
        try:
            value = parse_json(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise MalformedError("export", f"{self.at} is not a JSON object")
        return value

    def end(self) -> None:
        if next(self._lines, None) is not None:
            raise MalformedError("export", f"there is more after {self.at}")


def _check_header(value: dict[str, Any]) -> ExportHeader:
    header = cast(ExportHeader, value)
    if from_base58(header["owner"], 32) is None:
        raise MalformedError("owner", "it is not a public key in base58")
    if header["anchor"] is not None:
        check_anchor_form(header["anchor"])
        size = header["anchor"]["committedSize"]
        if size == 0 or size > header["treeSize"]:
            raise AnchorError("anchor.committedSize", f"it is {size} of treeSize {header['treeSize']}")
    return header


def _check_entry(entry: Entry, leaf_hash: str, owner: str, at: str) -> None:
    if entry["owner"] != owner:
        raise OwnerMismatchError("entry.owner", f"in {at} it is {entry['owner']}, the export is {owner}'s")
    digest = entry_hash(entry)
    if digest != leaf_hash:
        raise LeafMismatchError("leafHash", f"in {at} it is {leaf_hash}, the entry hashes to {digest}")


def _check_root(log: RootOfLeaves, root: str, field: str) -> None:
    found = log.root()
    if found != root:
        raise RootMismatchError(field, f"it is {root}, the first {log.size} leaves have the root {found}")
