"""The client for asyncio.

Each call runs the plain client in a thread of its own. So there is one implementation of every
check, over the standard library's HTTP, which asyncio has not. A thread of its own, because the
threads of asyncio.to_thread are few: some followed feeds would block all other users of them.
Canceling a task ends its wait at once, and its connection, so a canceled call sends nothing more;
what it has sent may have been done.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from . import grants as plain_grants
from .client import MemoryLedger
from .connection import Cancellation, current
from .feed import Feed
from .log import Log
from .memories import Memories
from .staking import Staking

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_END = object()


async def _step(run: Callable[[], R], cancellation: Cancellation) -> R:
    """Awaits what a function returns or raises. If this task is canceled, so is the function."""
    loop, done = asyncio.get_running_loop(), threading.Event()
    future: asyncio.Future[R] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not future.done():
            set_outcome(outcome)

    def body() -> None:
        current.set(cancellation)
        try:
            settled: tuple[Any, object] = (future.set_result, run())
        except BaseException as err:
            settled = (future.set_exception, err)
        done.set()
        try:
            loop.call_soon_threadsafe(settle, *settled)
        except RuntimeError:
            pass  # the loop was closed: no task waits

    threading.Thread(target=contextvars.copy_context().run, args=(body,), daemon=True, name="memory-ledger").start()
    try:
        return await future
    finally:
        if not done.is_set():
            cancellation.cancel()


async def in_thread(run: Callable[[], R]) -> R:
    return await _step(run, Cancellation())


async def _iterate(start: Callable[[], Generator[R, None, Any]]) -> AsyncGenerator[R, None]:
    cancellation = Cancellation()
    iterator = start()
    try:
        while True:
            item = await _step(lambda: next(iterator, _END), cancellation)
            if item is _END:
                return
            yield cast(R, item)
    finally:
        cancellation.cancel()
        try:
            iterator.close()
        except ValueError:
            pass  # its thread still runs, and now ends


class _Part(Generic[S]):
    """A part of the client, such as `memories`."""

    def __init__(self, plain: S) -> None:
        self.plain = plain


class _Awaited(Generic[P, R]):
    """A method that awaits the plain client's."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    def __get__(self, part: _Part[Any], kind: object) -> Callable[P, Coroutine[Any, Any, R]]:
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            return in_thread(lambda: self._method(part.plain, *args, **kwargs))

        return call


class _Iterated(Generic[P, R]):
    """A method that yields what the plain client's yields."""

    def __init__(self, method: Callable[Concatenate[Any, P], Generator[R, None, Any]]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    def __get__(self, part: _Part[Any], kind: object) -> Callable[P, AsyncGenerator[R, None]]:
        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[R, None]:
            return _iterate(lambda: self._method(part.plain, *args, **kwargs))

        return call


class AsyncMemories(_Part[Memories]):
    write = _Awaited(Memories.write)
    store = _Awaited(Memories.store)
    write_batch = _Awaited(Memories.write_batch)
    get = _Awaited(Memories.get)
    page = _Awaited(Memories.page)
    list = _Iterated(Memories.list)
    search = _Iterated(Memories.search)
    search_page = _Awaited(Memories.search_page)
    retract = _Awaited(Memories.retract)
    forget = _Awaited(Memories.forget)
    prove = _Awaited(Memories.prove)
    receipt = _Awaited(Memories.receipt)
    complete = _Awaited(Memories.complete)


class AsyncLog(_Part[Log]):
    head = _Awaited(Log.head)
    accept = _Awaited(Log.accept)
    consistency = _Awaited(Log.consistency)
    export = _Iterated(Log.export)
    export_file = _Iterated(Log.export_file)


class AsyncFeed(_Part[Feed]):
    pages = _Iterated(Feed.pages)
    follow = _Iterated(Feed.follow)


class AsyncKeys(_Part[plain_grants.Keys]):
    create = _Awaited(plain_grants.Keys.create)
    list = _Awaited(plain_grants.Keys.list)
    revoke = _Awaited(plain_grants.Keys.revoke)


class AsyncSessions(_Part[plain_grants.Sessions]):
    list = _Awaited(plain_grants.Sessions.list)
    end = _Awaited(plain_grants.Sessions.end)
    end_others = _Awaited(plain_grants.Sessions.end_others)


class AsyncGrants(_Part[plain_grants.Grants]):
    list = _Awaited(plain_grants.Grants.list)
    end = _Awaited(plain_grants.Grants.end)
    create_drop = _Awaited(plain_grants.Grants.create_drop)
    drop_status = _Awaited(plain_grants.Grants.drop_status)
    revoke_drop = _Awaited(plain_grants.Grants.revoke_drop)
    fill_drop = _Awaited(plain_grants.Grants.fill_drop)
    create_case = _Awaited(plain_grants.Grants.create_case)
    case_status = _Awaited(plain_grants.Grants.case_status)
    revoke_case = _Awaited(plain_grants.Grants.revoke_case)
    read_case = _Awaited(plain_grants.Grants.read_case)


class AsyncStaking(_Part[Staking]):
    status = _Awaited(Staking.status)
    stake = _Awaited(Staking.stake)
    unstake = _Awaited(Staking.unstake)


def _options_of(init: Callable[Concatenate[Any, P], None]) -> Callable[[Callable[..., None]], Callable[Concatenate[AsyncMemoryLedger, P], None]]:
    """Says for type checkers that a function takes the arguments of another one."""
    return lambda own: own


class AsyncMemoryLedger(_Part[MemoryLedger]):
    """MemoryLedger for asyncio: the same options and calls, awaited, and iterators for `async for`."""

    sign_in = _Awaited(MemoryLedger.sign_in)
    erase = _Awaited(MemoryLedger.erase)

    @_options_of(MemoryLedger.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(MemoryLedger(*args, **options))
        self.keys = AsyncKeys(self.plain.keys)
        self.memories = AsyncMemories(self.plain.memories)
        self.log = AsyncLog(self.plain.log)
        self.events = AsyncFeed(self.plain.events)
        self.grants = AsyncGrants(self.plain.grants)
        self.sessions = AsyncSessions(self.plain.sessions)
        self.staking = AsyncStaking(self.plain.staking)

    @property
    def owner(self) -> str | None:
        """The owner of the log, once known."""
        return self.plain.owner

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self.plain.close()

    async def __aenter__(self) -> AsyncMemoryLedger:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
