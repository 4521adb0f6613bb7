"""The owner's history: writes, sign-ins, grants, and commitments to the chain."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from . import errors
from .connection import canceled, pause
from .errors import MalformedError, OwnerMismatchError
from .receipt import check_answer, is_object, is_text, list_of
from .schema import Events
from .streams import messages_of, parse_answer

if TYPE_CHECKING:
    from .client import MemoryLedger

_away = (errors.ConnectionError, errors.TimeoutError, errors.UnavailableError, errors.RateLimitedError)


class Feed:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    def pages(self, *, after: str = "0", page_size: int = 100, timeout: float | None = None) -> Generator[Events, None, None]:
        """Yields the history from a cursor to its end, from the beginning by default.

        A page has about `page_size` events in order, and the cursor after them. Pass the cursor as
        `after` to continue there later. It never expires.
        """
        while True:
            page: Events = self._ledger.core("GET", f"/events?{urlencode({'after': after, 'limit': page_size})}", timeout=timeout).body
            self._check(page)
            if not page["events"]:
                return
            self._check_after(page, after)
            after = page["cursor"]
            yield page

    def follow(self, *, after: str | None = None, idle: float = 45.0, timeout: float | None = None) -> Generator[Events, None, None]:
        """Yields the history from a cursor on, from now on by default, and then new events as they arrive.

        It has no end: break out of the loop. When a stream ends, the client keeps trying to reopen
        it at the same cursor, so no event is lost or repeated. It fails if the service refuses the
        request, or if the first connection can't be made. A stream that is silent for `idle`
        seconds counts as ended; the service sends something every 15 seconds.
        """
        retry, begun = 1.0, False
        while True:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after is not None else {})}
            try:
                stream = self._ledger.core_stream("/events", idle, headers=headers, timeout=timeout)
                begun = True
                for message in messages_of(stream):
                    retry = retry if message.retry is None else message.retry
                    if message.data == "":
                        after = message.id if after is None else after  # the start of the stream
                        continue
                    page: Events = parse_answer(message.data)
                    self._check(page)
                    self._check_after(page, after)
                    after = page["cursor"]
                    yield page
            except _away:
                if not begun or canceled():
                    raise
            except errors.VerificationError as err:
                raise errors.service_lied(err) from None
            pause(retry)

    def _check(self, page: Events) -> None:
        """Checks the form of a page, and that it is this owner's."""
        if not self._ledger.verify:
            return
        check_answer(page, {"cursor": lambda v: isinstance(v, str) and v.isascii() and v.isdigit() and len(v) < 20, "events": list_of(is_object)})
        for event in page["events"]:
            check_answer(event, {"subject": is_text})
            self._ledger.owner = self._ledger.owner or event["subject"]
            if event["subject"] != self._ledger.owner:
                raise OwnerMismatchError("subject", f"it is {event['subject']}, this client is {self._ledger.owner}", "service")

    def _check_after(self, page: Events, after: str | None) -> None:
        if self._ledger.verify and after is not None and int(page["cursor"]) <= int(after):
            raise MalformedError("cursor", f"{page['cursor']} comes after {after}", "service")
