"""Wallets that sign in."""

import importlib
from typing import Any, Protocol

from .encoding import to_base58


class Wallet(Protocol):
    """A public key in base58, and a function that signs bytes with its private key (Ed25519)."""

    @property
    def public_key(self) -> str: ...

    def sign_message(self, message: bytes) -> bytes: ...


class KeypairWallet:
    """The wallet of a key pair in the form of Solana's command line: 64 bytes, the seed and the public key.

    It needs the package `cryptography`: install `memory-ledger[wallet]`.
    """

    def __init__(self, secret_key: bytes) -> None:
        # Only a program that signs needs the package. A type checker can do without it, too.
        keys: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
        forms: Any = importlib.import_module("cryptography.hazmat.primitives.serialization")
        if len(secret_key) != 64:
            raise ValueError("a key pair has 64 bytes")
        self._private = keys.Ed25519PrivateKey.from_private_bytes(secret_key[:32])
        if self._private.public_key().public_bytes(forms.Encoding.Raw, forms.PublicFormat.Raw) != secret_key[32:]:
            raise ValueError("the public key is not that of the seed")
        self.public_key = to_base58(secret_key[32:])

    def sign_message(self, message: bytes) -> bytes:
        return bytes(self._private.sign(message))
