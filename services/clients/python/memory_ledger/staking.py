"""Staking, if the service offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .receipt import check_answer, is_text
from .schema import StakingStatus, UnsignedTransaction
from .transaction import check_transaction

if TYPE_CHECKING:
    from .client import MemoryLedger


class Staking:
    """The calls need a session, and moves need the client's `staking_program`. Amounts are decimal strings of base units."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def status(self, *, timeout: float | None = None) -> StakingStatus:
        status: StakingStatus = self._ledger.core("GET", "/staking/status", timeout=timeout).body
        return status

    def stake(self, amount: str, *, timeout: float | None = None) -> UnsignedTransaction:
        """Returns a transaction for the wallet to sign and send. It does only that: see `check_transaction`."""
        return self._move("stake", amount, timeout)

    def unstake(self, amount: str, *, timeout: float | None = None) -> UnsignedTransaction:
        """Returns a transaction for the wallet to sign and send. It does only that: see `check_transaction`."""
        return self._move("unstake", amount, timeout)

    def _move(self, move: Literal["stake", "unstake"], amount: str, timeout: float | None) -> UnsignedTransaction:
        ledger = self._ledger
        if ledger.verify and ledger.staking_program is None:
            raise TypeError("staking needs the option staking_program, to check what the wallet would sign")
        made: UnsignedTransaction = ledger.core("POST", f"/staking/{move}", body={"amount": amount}, timeout=timeout).body
        if ledger.verify and ledger.staking_program:
            check_answer(made, {"transaction": is_text})
            owner = ledger.owner or ledger.log.head(timeout=timeout)["owner"]
            check_transaction(made["transaction"], ledger.staking_program, owner, move, amount)
        return made
