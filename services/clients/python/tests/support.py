"""What the tests share: files that every verifier must agree with, a service that says anything, and a wallet."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import memory_ledger as ledger

ROOT = Path(__file__).resolve().parents[4]


def read(path: str) -> str:
    return (ROOT / path).read_text()


def load(path: str) -> Any:
    return json.loads(read(path))


def answer(body: object, status: int = 200, **headers: str) -> ledger.Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ledger.Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, iter([data]))


def service(answers: dict[str, list[Any]], **options: Any) -> ledger.MemoryLedger:
    """Makes a client of a service that gives each path's answers in turn, and then repeats the last."""
    given: dict[str, int] = {}

    def fetch(request: ledger.Request) -> ledger.Response:
        path = next((path for path in answers if request.url.endswith(path)), None)
        assert path is not None, f"no answer to {request.url}"
        given[path] = given.get(path, 0) + 1
        body = answers[path][min(given[path], len(answers[path])) - 1]
        return answer(body(given) if callable(body) else body)

    defaults: dict[str, Any] = {"owner": OWNER, "fetch": fetch, "retries": 0}
    return ledger.MemoryLedger("http://service", **{**defaults, **options})


OWNER = "4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM"

_p = 2**255 - 19
_q = 2**252 + 27742317777372353535851937790883648493
_d = -121665 * pow(121666, -1, _p) % _p
_base = (15112221349535400772501151409588531511454012693041857206046113283949847762202, 46316835694926478169428394003475163141307993866256225615783033603165251855960)


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    k = _d * a[0] * b[0] * a[1] * b[1]
    return (a[0] * b[1] + b[0] * a[1]) * pow(1 + k, -1, _p) % _p, (a[1] * b[1] + a[0] * b[0]) * pow(1 - k, -1, _p) % _p


def _times(n: int, point: tuple[int, int]) -> bytes:
    result = (0, 1)
    while n:
        result = _add(result, point) if n & 1 else result
        point, n = _add(point, point), n >> 1
    return (result[1] | (result[0] & 1) << 255).to_bytes(32, "little")


class TestWallet:
    """Ed25519 as RFC 8032 defines it: slow, and only for tests, which so need no package."""

    __test__ = False

    def __init__(self, seed: bytes | None = None) -> None:
        digest = hashlib.sha512(seed or os.urandom(32)).digest()
        self._secret = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
        self._prefix = digest[32:]
        self._public = _times(self._secret, _base)
        self.public_key = ledger.to_base58(self._public)
        self.signed: list[bytes] = []

    def sign_message(self, message: bytes) -> bytes:
        self.signed.append(message)
        r = int.from_bytes(hashlib.sha512(self._prefix + message).digest(), "little") % _q
        point = _times(r, _base)
        k = int.from_bytes(hashlib.sha512(point + self._public + message).digest(), "little") % _q
        return point + ((r + k * self._secret) % _q).to_bytes(32, "little")


def in_parts(data: bytes, size: int) -> Iterable[bytes]:
    return (data[at:at + size] for at in range(0, len(data), size))


def node(methods: Callable[[str, list[Any]], object]) -> ledger.Fetch:
    """A Solana node."""

    def fetch(request: ledger.Request) -> ledger.Response:
        call = json.loads(request.body or b"")
        return answer({"jsonrpc": "2.0", "id": 1, "result": methods(call["method"], call["params"])})

    return fetch
