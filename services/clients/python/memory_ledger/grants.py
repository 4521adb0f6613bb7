"""Keys, sessions, and one-time links."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from .encoding import is_count
from .receipt import DONE, is_flag, is_text
from .schema import Case, CaseStatus, CreatedKey, Drop, DroppedMemory, DropStatus, FilledDrop, Key, LiveGrant, LiveSession, Revoked

if TYPE_CHECKING:
    from .client import MemoryLedger

Scope = Literal["read", "write", "retract", "share"]

_LINK = {"id": is_text, "url": is_text}


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


class Keys:
    """API keys. The calls need a session."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def create(
        self, label: str, *, scopes: Sequence[Scope] | None = None, namespaces: Sequence[str] | None = None, expires_at: str | None = None,
        timeout: float | None = None,
    ) -> CreatedKey:
        """Makes a key. Only this answer shows it.

        The call is not retried after a lost answer, because a retry could make a second key. A key
        may read and write unless `scopes` says otherwise. It lives until it is revoked, or until
        `expires_at`, an RFC 3339 time. With `namespaces` it sees and writes no others.
        """
        body = _given(label=label, scopes=scopes, namespaces=namespaces, expiresAt=expires_at)
        key: CreatedKey = self._ledger.core("POST", "/keys", body=body, repeatable=False, timeout=timeout, says={"id": is_text, "key": is_text}).body
        return key

    def list(self, *, timeout: float | None = None) -> list[Key]:
        keys: list[Key] = self._ledger.core("GET", "/keys", timeout=timeout, lists={"id": is_text}).body
        return keys

    def revoke(self, id: str, *, timeout: float | None = None) -> None:
        self._ledger.core("DELETE", f"/keys/{quote(id, safe='')}", timeout=timeout, says=DONE)


class Sessions:
    """Sessions of both APIs. The calls need a session."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def list(self, *, timeout: float | None = None) -> list[LiveSession]:
        """Lists the live sessions, oldest first."""
        sessions: list[LiveSession] = self._ledger.core("GET", "/auth/sessions", timeout=timeout, lists={"id": is_text}).body
        return sessions

    def end(self, id: str, *, timeout: float | None = None) -> None:
        self._ledger.core("DELETE", f"/auth/sessions/{quote(id, safe='')}", timeout=timeout, says=DONE)

    def end_others(self, *, timeout: float | None = None) -> int:
        """Ends all sessions except the caller's, and returns how many it ended."""
        ended: int = self._ledger.core("DELETE", "/auth/sessions", timeout=timeout, says={"ended": is_count}).body["ended"]
        return ended


class Grants:
    """One-time links. The calls need a session of the extension API unless they say otherwise."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def list(self, *, timeout: float | None = None) -> list[LiveGrant]:
        """Lists the live links of both kinds. Needs a session of the core API."""
        grants: list[LiveGrant] = self._ledger.core("GET", "/grants", timeout=timeout, lists={"id": is_text}).body
        return grants

    def end(self, id: str, *, timeout: float | None = None) -> None:
        """Ends a link of either kind. Needs a session of the core API."""
        self._ledger.core("DELETE", f"/grants/{quote(id, safe='')}", timeout=timeout, says=DONE)

    def create_drop(
        self, *, max_writes: int | None = None, expires_in_minutes: int | None = None, namespace: str | None = None, timeout: float | None = None,
    ) -> Drop:
        """Makes a link that adds memories. It revokes the owner's previous drop."""
        body = _given(maxWrites=max_writes, expiresInMinutes=expires_in_minutes, namespace=namespace)
        drop: Drop = self._ledger.extension("POST", "/memory-drops", body=body, timeout=timeout, says=_LINK)
        return drop

    def drop_status(self, id: str, *, timeout: float | None = None) -> DropStatus:
        status: DropStatus = self._ledger.extension(
            "GET", f"/memory-drops/{quote(id, safe='')}/status", timeout=timeout, says={"expired": is_flag, "remainingWrites": is_count, "revoked": is_flag})
        return status

    def revoke_drop(self, id: str, *, timeout: float | None = None) -> Revoked:
        revoked: Revoked = self._ledger.extension("POST", f"/memory-drops/{quote(id, safe='')}/revoke", timeout=timeout, says={"revoked": is_flag})
        return revoked

    def fill_drop(self, url: str, memory: DroppedMemory, *, idempotency_key: str | None = None, timeout: float | None = None) -> FilledDrop:
        """Adds a memory through a drop's URL. Needs no session."""
        key = idempotency_key or str(uuid.uuid4())
        filled: FilledDrop = self._ledger.fill(url, body=memory, idempotency_key=key, timeout=timeout, says={"memoryId": is_text})
        return filled

    def create_case(
        self, *, max_reads: int | None = None, expires_in_minutes: int | None = None, namespace: str | None = None, timeout: float | None = None,
    ) -> Case:
        """Makes a link that reads all memories, or those of a namespace. It revokes the owner's previous case."""
        body = _given(maxReads=max_reads, expiresInMinutes=expires_in_minutes, namespace=namespace)
        case: Case = self._ledger.extension("POST", "/agent-cases", body=body, timeout=timeout, says=_LINK)
        return case

    def case_status(self, id: str, *, timeout: float | None = None) -> CaseStatus:
        status: CaseStatus = self._ledger.extension(
            "GET", f"/agent-cases/{quote(id, safe='')}/status", timeout=timeout, says={"expired": is_flag, "remainingReads": is_count, "revoked": is_flag})
        return status

    def revoke_case(self, id: str, *, timeout: float | None = None) -> Revoked:
        revoked: Revoked = self._ledger.extension("POST", f"/agent-cases/{quote(id, safe='')}/revoke", timeout=timeout, says={"revoked": is_flag})
        return revoked

    def read_case(self, url: str, *, timeout: float | None = None) -> str:
        """Reads a case by its URL, as markdown. The call spends a read, so it is not retried after a lost answer."""
        return self._ledger.read(url, repeatable=False, timeout=timeout)
