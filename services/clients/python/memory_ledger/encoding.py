"""Hex, base58, and the canonical JSON of RFC 8785."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

_hash = re.compile(r"[0-9a-f]{64}")
_alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_digits = {c: n for n, c in enumerate(_alphabet)}

#: The largest integer that every double holds exactly, with all smaller ones.
MAX_SAFE = 2**53 - 1


def is_hash(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _hash.fullmatch(value) is not None


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SAFE


def to_base58(data: bytes) -> str:
    """Writes bytes in base58, Bitcoin's alphabet."""
    n, text = int.from_bytes(data, "big"), ""
    while n > 0:
        n, digit = divmod(n, 58)
        text = _alphabet[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def from_base58(text: object, size: int) -> bytes | None:
    """Decodes base58 text to `size` bytes. Returns None unless the text is their canonical form.

    A text that is too long is refused before it is decoded, because decoding takes quadratic time.
    """
    if not isinstance(text, str) or len(text) > size * 11 / 8:
        return None
    n = 0
    for c in text:
        if c not in _digits:
            return None
        n = n * 58 + _digits[c]
    if n >= 1 << (8 * size):
        return None
    data = n.to_bytes(size, "big")
    return data if to_base58(data) == text else None


def parse_json(text: str | bytes) -> Any:
    """Parses JSON. Raises a ValueError for anything else, also for NaN, for endless nesting, and for a name that an object has twice."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode(), parse_constant=_refuse, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a name twice: other readers may show the other value")
    return members


#: How deep objects and arrays may nest; the outermost object is at depth 1.
_MAX_DEPTH = 64


def canonicalize(value: object, depth: int = 1) -> str:
    """Writes a JSON value in the canonical form of RFC 8785.

    Numbers take ECMAScript's form, and names sort by UTF-16 code units, as the RFC requires.
    Raises a TypeError for a value that I-JSON can't hold.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise TypeError("a lone surrogate is not I-JSON") from None
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return _number(value)
    if depth > _MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        raise TypeError(f"nested deeper than {_MAX_DEPTH}")
    if isinstance(value, (list, tuple)):
        return f"[{','.join(canonicalize(item, depth + 1) for item in value)}]"
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{type(value).__name__} is not JSON, or a name is no string")
    names = sorted(value, key=lambda name: str(name).encode("utf-16-be", "surrogatepass"))
    return f"{{{','.join(f'{canonicalize(name)}:{canonicalize(value[name], depth + 1)}' for name in names)}}}"


def _number(value: int | float) -> str:
    """Writes a number as ECMAScript's Number::toString does. Python's repr has the same digits."""
    try:
        n = float(value)
    except OverflowError:
        n = math.inf
    if not math.isfinite(n):
        raise TypeError("a number outside the range of a double")
    if n == 0:
        return "0"
    sign, text = ("-", repr(-n)) if n < 0 else ("", repr(n))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction.rstrip("0")
    point = len(whole) + int(exponent or 0)  # where the decimal point is, counted from the first digit
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    more = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{more}e{'+' if point > 0 else '-'}{abs(point - 1)}"
