"""The text that a wallet signs."""

import json
import re
import time
from datetime import datetime, timezone
from typing import Literal

from .errors import ChallengeError

Purpose = Literal["sign-in", "erase"]

#: The sentences that a wallet shows. The service has the same ones.
_statements: dict[Purpose, str] = {
    "sign-in": "Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.",
    "erase": "ERASE all my memories at Memory Ledger, for good. The key to their texts is destroyed and nobody can read them again. "
    "All sessions, API keys and links end. The proofs stay. There is no way back.",
}

#: How long a challenge may be valid, and how far its time may be from this machine's clock, in
#: seconds. The service's challenges are valid for minutes.
_span = 3600.0

_fields = ["domain", "account", "statement", "statement", "statement", "URI", "version", "chain", "nonce", "issued at", "expiration time"]
_time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
#: The parts that only the service knows: prefix and form, from line 7 on.
_open = [("Chain ID: ", r"[A-Za-z0-9_:.-]{1,64}"), ("Nonce: ", r"[A-Za-z0-9]{8,128}"), ("Issued At: ", _time), ("Expiration Time: ", _time)]


def _seconds(text: str) -> float:
    """Returns the Unix time that a text of the form `_time` says, or NaN for one like February 30."""
    try:
        whole = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return float("nan")
    return whole + float("0" + text[19:-1])


def check_challenge(text: object, site: str, purpose: Purpose, account: str) -> None:
    """Compares a challenge with the text that the service at `site`, its public base URL, has.

    A signature over another text could sign in elsewhere, as another account, or do something
    else.
    """
    found = re.match(r"[^:]*://([^/]*)", site)
    lines = text.split("\n") if isinstance(text, str) else []
    if len(lines) != len(_fields):
        raise ChallengeError("message", f"it has {len(lines)} lines, a challenge has {len(_fields)}", "service")
    domain = found.group(1) if found else ""
    known = [f"{domain} wants you to sign in with your Solana account:", account, "", _statements[purpose], "", f"URI: {site}", "Version: 1"]

    def refuse(i: int, wanted: str) -> ChallengeError:
        hint = "; if that is the same service, name its public URL with public_url" if i in (0, 5) else ""
        return ChallengeError(_fields[i], f"it is {json.dumps(lines[i])}, this client expects {wanted}{hint}", "service")

    for i, line in enumerate(known):
        if lines[i] != line:
            raise refuse(i, json.dumps(line))
    values = []
    for i, (prefix, form) in enumerate(_open, len(known)):
        if not re.fullmatch(prefix + form, lines[i], re.ASCII):
            raise refuse(i, prefix + form)
        values.append(lines[i][len(prefix):])
    issued, expires = _seconds(values[2]), _seconds(values[3])
    if not 0 < expires - issued <= _span:
        raise refuse(10, "a time within an hour of the one before")
    if not abs(issued - time.time()) <= _span:
        raise refuse(9, f"about the time of this machine's clock, {datetime.now(timezone.utc).isoformat()}")
