"""The log as a whole."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from .encoding import is_hash
from .errors import OwnerMismatchError, StaleProofError, VerificationError, service_lied
from .export import ExportedLeaf, ExportHeader, verify_export
from .heads import check_growth, check_proof
from .receipt import check_answer, is_text
from .schema import ConsistencyProof, LogHead

if TYPE_CHECKING:
    from .client import MemoryLedger


class Log:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def head(self, *, timeout: float | None = None) -> LogHead:
        """Returns the log's head, and checks that it extends the last head that this client saw.

        If not, it raises a LogShrankError or a LogForkedError: the service lies, or its operator
        restored an older backup. `accept` goes on after a restore.
        """
        ledger = self._ledger
        if not ledger.verify:
            return self._fetch(timeout)
        head = ledger.known_heads.check(lambda: self._fetch(timeout), lambda old, new: self._ask(old, new, timeout), ledger.owner)
        ledger.owner = ledger.owner or head["owner"]
        return head

    def accept(self, *, timeout: float | None = None) -> LogHead:
        """Forgets the head that this client saw, and starts from the log that the service shows now.

        Call it only if the operator said, by a channel other than the service, that a backup was
        restored. Later memories than that backup are gone.
        """
        owner = self._ledger.owner
        if owner is None:
            head = self._fetch(timeout)
            check_answer(head, {"owner": is_text})
            owner = head["owner"]
        self._ledger.known_heads.forget(owner)
        return self.head(timeout=timeout)

    def consistency(self, old: int, new: int, *, timeout: float | None = None) -> ConsistencyProof:
        """Returns a consistency proof between two sizes, checked against the two roots that it names."""
        proof = self._ask(old, new, timeout)
        if self._ledger.verify:
            check_answer(proof, {"fromRoot": is_hash, "toRoot": is_hash})
            check_proof((old, proof["fromRoot"]), (new, proof["toRoot"]), proof)
        return proof

    def export(self, *, timeout: float | None = None) -> Generator[ExportedLeaf, None, ExportHeader]:
        """Yields all leaves of the log, and returns the header.

        The leaves, the root and completeness are always checked, as in `verify_export`. Unless
        `verify` is false, the export must also be this owner's, extend the log that this client saw,
        and, if rpc_url is set, match the chain. An export that breaks off can't be resumed: the
        loop raises an IncompleteExportError or a ConnectionError.
        """
        head = self.head(timeout=timeout) if self._ledger.verify else None

        def begin(header: ExportHeader) -> None:
            if head:
                self._check_export(header, head, timeout)

        try:
            return (yield from verify_export(self.export_file(timeout=timeout), begin))
        except VerificationError as err:
            raise service_lied(err) from None

    def export_file(self, *, timeout: float | None = None) -> Generator[bytes, None, None]:
        """Yields the bytes of an export as they arrive, for storage. They are not checked: `verify_export` does that."""
        yield from self._ledger.core_stream("/export", timeout=timeout)

    def check_growth(self, old: tuple[int, str], head: LogHead, timeout: float | None) -> None:
        """Checks that the log of a size and root is a prefix of the log of a head. For the parts of this package."""
        check_growth(old, (head["treeSize"], head["root"]), lambda a, b: self._ask(a, b, timeout))

    def _check_export(self, header: ExportHeader, head: LogHead, timeout: float | None) -> None:
        size, anchor = header["treeSize"], header["anchor"]
        if header["owner"] != head["owner"]:
            raise OwnerMismatchError("owner", f"it is {header['owner']}, the log is {head['owner']}'s")
        if size < head["treeSize"]:
            raise StaleProofError("treeSize", f"it is {size}, the log has {head['treeSize']} leaves")
        # If the log grew, remember a head that extends the export. Otherwise the service could show
        # a fork to this call only.
        self.check_growth((size, header["root"]), self.head(timeout=timeout) if size > head["treeSize"] else head, timeout)
        committed = anchor["committedSize"] if anchor else 0
        if committed < head["anchoredSize"]:
            raise StaleProofError("anchor.committedSize", f"it is {committed}, {head['anchoredSize']} leaves are anchored")
        if anchor:
            self._ledger.check_anchor(anchor, header["owner"])

    def _fetch(self, timeout: float | None) -> LogHead:
        head: LogHead = self._ledger.core("GET", "/log", timeout=timeout).body
        return head

    def _ask(self, old: int, new: int, timeout: float | None) -> ConsistencyProof:
        proof: ConsistencyProof = self._ledger.core("GET", f"/log/consistency?from={old}&to={new}", timeout=timeout).body
        return proof
