"""HTTP over the standard library's http.client, with a deadline for each request."""

import contextvars
import http.client
import io
import math
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    #: Seconds until the end of the answer, or of its head if `idle` is set.
    timeout: float = 30.0
    #: Seconds until each part of a stream.
    idle: float | None = None


@dataclass(frozen=True)
class Response:
    status: int
    #: Header names in lower case.
    headers: Mapping[str, str]
    #: The body as it arrives. Closing the iterator closes the connection.
    parts: Iterator[bytes]


#: Sends a request. Raises an OSError or an http.client.HTTPException if the connection fails.
Fetch = Callable[[Request], Response]


class Cancellation:
    """Ends what a call does: its wait, or its connections. Another thread calls `cancel`."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def cancel(self) -> None:
        self._event.set()
        with self._lock:
            for sock in self._sockets:
                try:
                    # The thread that reads sees the end of the stream. ssl's own shutdown would
                    # take the socket's state away from that thread.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
                except OSError:
                    pass  # the connection has ended

    def watch(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.add(sock)
        self.check()

    def forget(self, sock: socket.socket) -> None:
        """Comes before the socket is closed or used by another call."""
        with self._lock:
            self._sockets.discard(sock)

    @property
    def canceled(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        if self.canceled:
            raise OSError("the call was canceled")

    def pause(self, seconds: float) -> None:
        self._event.wait(seconds)
        self.check()


#: The cancellation of the call that this thread makes. Only the async client sets one.
current: contextvars.ContextVar[Cancellation | None] = contextvars.ContextVar("memory_ledger_cancellation", default=None)


def canceled() -> bool:
    cancellation = current.get()
    return cancellation is not None and cancellation.canceled


def pause(seconds: float) -> None:
    cancellation = current.get()
    if cancellation:
        cancellation.pause(seconds)
    else:
        time.sleep(seconds)


class _Timed:
    """A socket whose every wait ends at the deadline of the request. http.client uses it as its socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.deadline = math.inf
        self.idle: float | None = None

    def arm(self) -> None:
        left = self.idle if self.idle is not None else self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.socket.settimeout(min(left, threading.TIMEOUT_MAX) if left < math.inf else None)

    def sendall(self, data: bytes) -> None:
        self.arm()
        self.socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self, self.socket.makefile(mode, buffering=0)))  # type: ignore[call-overload]

    def close(self) -> None:
        self.socket.close()


class _Reader(io.RawIOBase):
    def __init__(self, timed: _Timed, raw: socket.SocketIO) -> None:
        self._timed, self._raw = timed, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.arm()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def begin(self) -> None:
        super().begin()
        # http.client takes 103 for the answer. The next request would then get this one's.
        while self.status < 200:
            self.headers = None  # type: ignore[assignment]
            super().begin()


_Place = tuple[str, str, int]


class Connections:
    """Sends requests, and keeps connections open for the next ones. Threads may share it.

    `context` is for services whose certificates the system's authorities did not issue.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._unused: dict[_Place, list[http.client.HTTPConnection]] = {}

    def __call__(self, request: Request) -> Response:
        url = urlsplit(request.url)
        # A forked process must not use the connections of its parent.
        place = (url.scheme, url.netloc, os.getpid())
        deadline = time.monotonic() + request.timeout
        cancellation = current.get()
        if cancellation:
            cancellation.check()
        connection = self._take(place) or self._open(url.scheme, url.netloc, request.timeout)
        timed: Any = connection.sock
        timed.deadline, timed.idle = deadline, None
        try:
            if cancellation:
                cancellation.watch(timed.socket)
            path = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
            connection.request(request.method, path, request.body, dict(request.headers))
            answer = connection.getresponse()
        except BaseException:
            self._give_back(place, connection, timed, usable=False)
            raise
        timed.idle = request.idle
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, headers, self._parts(place, connection, timed, answer))

    def _parts(self, place: _Place, connection: http.client.HTTPConnection, timed: _Timed, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        whole = False
        try:
            left = answer.length  # None if the answer is chunked, or ends with the connection
            while part := answer.read1(65536):
                yield part
                left = None if left is None else left - len(part)
            if left:
                raise http.client.IncompleteRead(b"", left)
            whole = not answer.will_close
        finally:
            answer.close()
            self._give_back(place, connection, timed, usable=whole)

    def _give_back(self, place: _Place, connection: http.client.HTTPConnection, timed: _Timed, usable: bool) -> None:
        cancellation = current.get()
        if cancellation:
            cancellation.forget(timed.socket)
        if not usable:
            connection.close()
            return
        with self._lock:
            unused = self._unused.setdefault(place, [])
            while unused and _ended(unused[0]):
                unused.pop(0).close()
            unused.append(connection)

    def _open(self, scheme: str, netloc: str, timeout: float) -> http.client.HTTPConnection:
        limit = min(timeout, threading.TIMEOUT_MAX) if timeout < math.inf else None
        connection: http.client.HTTPConnection
        if scheme == "https":
            connection = http.client.HTTPSConnection(netloc, timeout=limit, context=self._context or ssl.create_default_context())
        elif scheme == "http":
            connection = http.client.HTTPConnection(netloc, timeout=limit)
        else:
            raise TypeError(f"{scheme or 'no scheme'}: a URL of the service begins with https:// or http://")
        connection.response_class = _Answer
        connection.connect()
        timed: Any = _Timed(connection.sock)
        connection.sock = timed
        return connection

    def _take(self, place: _Place) -> http.client.HTTPConnection | None:
        """Returns an unused connection that the service has not closed."""
        while True:
            with self._lock:
                unused = self._unused.get(place)
                connection = unused.pop() if unused else None
            if connection is None:
                return None
            if not _ended(connection):
                return connection
            connection.close()

    def close(self) -> None:
        """Closes the connections that are not in use."""
        with self._lock:
            unused, self._unused = self._unused, {}
        for connections in unused.values():
            for connection in connections:
                connection.close()


def _ended(connection: http.client.HTTPConnection) -> bool:
    """Whether an unused connection has something to read: its end, as a rule."""
    timed: Any = connection.sock
    sock: socket.socket = timed.socket
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])
