"""What a wallet would sign for staking."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Literal

from .chain import program_address
from .encoding import from_base58, to_base58
from .errors import TransactionError


@dataclass(frozen=True)
class StakingProgram:
    """The program and the mint that a staking transaction may use.

    Get both from the operator by a channel other than the service: another program could take
    everything that the wallet holds.
    """

    program_id: str
    mint: str


_system = "11111111111111111111111111111111"
_token = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
#: The program that makes a wallet's token accounts.
_wallet = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"


@dataclass(frozen=True)
class _Instruction:
    program: str
    accounts: list[str]
    data: bytes

    def difference(self, other: "_Instruction") -> str | None:
        """Names the first part in which two instructions differ."""
        if self.program != other.program:
            return "programId"
        if self.data != other.data:
            return "amount"
        return None if self.accounts == other.accounts else "accounts"


def check_transaction(transaction: str, program: StakingProgram, owner: str, move: Literal["stake", "unstake"], amount: str) -> None:
    """Checks a transaction of POST /staking/stake or /staking/unstake, in base64, before a wallet signs it.

    The owner pays and signs alone. The transaction moves the amount (base units, a decimal string)
    between the owner's own token account and the owner's vault, and does nothing else. Unstaking
    may first make the token account.
    """
    if not re.fullmatch(r"[0-9]{1,20}", amount) or int(amount) >= 1 << 64:
        raise TypeError("the amount is not a decimal string of base units")
    decoded = _decode(transaction)
    if decoded is None:
        raise TransactionError("transaction", "it is not an unsigned transaction with one signer", "service")
    keys, instructions = decoded
    if keys[0] != owner:
        raise TransactionError("payer", f"it is {keys[0]}, not {owner}", "service")
    wallet, minted, token = from_base58(owner, 32), from_base58(program.mint, 32), from_base58(_token, 32)
    vault = program_address(program.program_id, b"vault", minted, wallet) if wallet and minted else None
    if not (vault and wallet and minted and token):
        raise TransactionError("programId", "program, mint and owner must be public keys in base58", "service")
    tokens = program_address(_wallet, wallet, token, minted) or ""
    accounts = [owner, tokens, vault, program.mint, _token, *([_system] if move == "stake" else [])]
    expected = _Instruction(program.program_id, accounts, _u64(2 if move == "stake" else 3) + _u64(int(amount)))
    makes = _Instruction(_wallet, [owner, tokens, owner, program.mint, _system, _token], b"\1")
    if move == "unstake" and len(instructions) == 2 and makes.difference(instructions[0]) is None:
        del instructions[0]
    if len(instructions) != 1:
        raise TransactionError("instructions", "there are others than to move the amount", "service")
    differs = expected.difference(instructions[0])
    if differs:
        raise TransactionError(differs, f"it is not that of moving {amount} between this wallet and its vault", "service")


def _u64(n: int) -> bytes:
    return n.to_bytes(8, "little")


class _Wire:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        part = self.data[self.at:self.at + n]
        if len(part) != n:
            raise ValueError("too short")
        self.at += n
        return part

    def length(self) -> int:
        """Reads a compact-u16. A transaction has at most 1,232 bytes, so two bytes are enough."""
        first = self.take(1)[0]
        if first < 0x80:
            return first
        second = self.take(1)[0]
        if second == 0 or second >= 0x80:
            raise ValueError("not canonical")
        return first & 0x7F | second << 7


def _decode(transaction: str) -> tuple[list[str], list[_Instruction]] | None:
    """Reads a legacy transaction that lacks its one signature.

    Lookup tables could hide what versioned transactions do, and the service makes none of those.
    """
    try:
        wire = _Wire(base64.b64decode(transaction, validate=True))
        one, signature, header = wire.length(), wire.take(64), wire.take(3)
        if one != 1 or any(signature) or header[0] != 1 or header[1] != 0:
            return None
        keys = [to_base58(wire.take(32)) for _ in range(wire.length())]
        wire.take(32)  # the blockhash
        instructions = []
        for _ in range(wire.length()):
            program = keys[wire.take(1)[0]]
            accounts = [keys[wire.take(1)[0]] for _ in range(wire.length())]
            instructions.append(_Instruction(program, accounts, wire.take(wire.length())))
        return (keys, instructions) if wire.at == len(wire.data) and keys else None
    except (binascii.Error, ValueError, IndexError):
        return None
