"""Requests that are repeated if that is safe and makes sense."""

import http.client
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from . import errors
from .connection import Fetch, Request, Response, canceled, pause
from .encoding import parse_json
from .errors import LedgerError, api_error
from .receipt import Check, check_answer, check_list

#: The longest wait in seconds that a Retry-After header may ask for. A longer one is an answer: a quota of the day, perhaps.
_LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class Call:
    """What to ask for, in as many attempts as it takes."""

    method: str
    url: str
    credential: str | None = None
    body: object = None
    idempotency_key: str | None = None
    headers: Mapping[str, str] | None = None
    #: False if a retry could do something twice. Then only 429 is retried.
    repeatable: bool = True
    #: True if the body has what a wallet signed, which counts once.
    signed: bool = False
    #: Seconds that each attempt may take.
    timeout: float | None = None
    #: Members of the answer without which it does not say what was asked for.
    says: Mapping[str, Check] = field(default_factory=dict)
    #: Those of each object of the list that the answer is.
    lists: Mapping[str, Check] | None = None

    def request(self, timeout: float, idle: float | None) -> Request:
        headers = dict(self.headers or {})
        body = None
        if self.credential:
            headers["Authorization"] = f"Bearer {self.credential}"
        if self.idempotency_key:
            headers["Idempotency-Key"] = self.idempotency_key
        if self.body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        return Request(self.method, self.url, headers, body, timeout if self.timeout is None else self.timeout, idle)

    def lost(self, err: Exception) -> LedgerError:
        what = f"{self.method} {re.sub(r'svc_[A-Za-z0-9]+_[A-Za-z0-9_-]+', '…', urlsplit(self.url).path)}"
        if isinstance(err, TimeoutError):
            return errors.TimeoutError(f"{what}: no complete answer in time")
        why = f" ({err})" if isinstance(err, OSError) and str(err) else ""
        return errors.ConnectionError(f"{what}: the connection failed, or the answer broke off{why}")


@dataclass(frozen=True)
class Answer:
    body: Any
    headers: Mapping[str, str]


class Transport:
    def __init__(self, fetch: Fetch, timeout: float, retries: int, backoff: float) -> None:
        if not timeout > 0:
            raise TypeError("timeout must be more than 0")
        self._fetch, self.timeout, self._retries, self._backoff = fetch, timeout, retries, backoff

    def send(self, call: Call) -> Answer:
        """Returns the answer's JSON."""
        # An answer that is no JSON was cut off by something between the service and here.
        answer = self._repeat(call, None, parse_json)
        if call.lists is None:
            check_answer(answer.body, call.says)
        else:
            check_list(answer.body, call.lists)
        return answer

    def text(self, call: Call) -> str:
        text: str = self._repeat(call, None, lambda body: body.decode(errors="replace")).body
        return text

    def stream(self, call: Call, idle: float) -> Iterator[bytes]:
        """Returns the body as it arrives. Each part may take `idle` seconds. Parts are not requested again."""
        parts: Iterator[bytes] = self._repeat(call, idle).body
        return parts

    def _repeat(self, call: Call, idle: float | None, read: Callable[[bytes], object] = bytes) -> Answer:
        attempt = 0
        lost: LedgerError | None = None  # of an attempt that may have succeeded
        while True:
            request, wait = call.request(self.timeout, idle), None
            try:
                response = self._fetch(request)
                good = 200 <= response.status < 300
                if good and idle is not None:
                    return Answer(_parts_of(call, response), response.headers)
                body = b"".join(response.parts)
                if good:
                    return Answer(_read(read, body), response.headers)
                status = response.status
                failure: LedgerError = api_error(status, _message_of(body, status), response.headers.get("x-request-id"))
                wait = _wait_of(response.headers.get("retry-after"))
                if status == 401 and call.signed and lost:
                    raise lost  # for which reason the signature may count no more
                again = status == 429 or (status == 408 or status >= 500) and call.repeatable
            except (OSError, http.client.HTTPException) as err:
                failure, again = call.lost(err), call.repeatable and not canceled()
                failure.__cause__ = err
            if not again or attempt >= self._retries or (wait or 0) > _LONGEST_WAIT:
                raise failure
            lost = lost if isinstance(failure, errors.RateLimitedError) else failure
            pause(wait if wait is not None else self._backoff * 2**attempt * (0.5 + random.random() / 2))
            attempt += 1


def _read(read: Callable[[bytes], object], body: bytes) -> object:
    try:
        return read(body)
    except ValueError as err:
        raise http.client.HTTPException(f"the answer is cut off: {err}") from None


def _parts_of(call: Call, response: Response) -> Iterator[bytes]:
    try:
        yield from response.parts
    except (OSError, http.client.HTTPException) as err:
        raise call.lost(err) from err


def _message_of(body: bytes, status: int) -> str:
    try:
        error = parse_json(body).get("error")
        if isinstance(error, str):
            return error
    except (ValueError, AttributeError):
        pass  # the body is a gateway's page, or empty
    return f"{status} {http.client.responses.get(status, '')}".strip()


def _wait_of(header: str | None) -> float | None:
    """Returns the seconds to wait by a Retry-After header, which holds seconds or a date."""
    if not header:
        return None
    if re.fullmatch("[0-9]{1,15}", header):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
