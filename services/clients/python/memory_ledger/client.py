"""The client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from .chain import Issuer, check_anchor_issuer, check_anchor_onchain
from .challenge import Purpose, check_challenge
from .connection import Connections, Fetch
from .encoding import is_count, to_base58
from .feed import Feed
from .grants import Grants, Keys, Sessions
from .heads import Heads, HeadStore
from .log import Log
from .memories import Memories
from .receipt import is_text
from .schema import Anchor, Session
from .staking import Staking
from .transaction import StakingProgram
from .transport import Answer, Call, Transport
from .wallet import Wallet


class MemoryLedger:
    """A client of Memory Ledger that checks the service's answers. Threads may share it.

    url, extension_url: the core API, and the extension API, for grants.
    public_url, extension_public_url: the service's own addresses, CORE_URL and EXTENSION_URL, where
        the client calls other ones, such as inner addresses. The text that a wallet signs must name them.
    api_key, session: a credential of the core API. `sign_in` sets a session.
    extension_session: a session of the extension API. `sign_in` sets it where extension_url is given.
    owner: the owner of the credential. If unset, the client takes the owner of the first log head or event that it gets.
    verify: whether to check the service's answers.
    rpc_url: a Solana node. With it, receipts are checked against the chain.
    issuer: the issuer that must have anchored receipts. Get it from the operator by a channel other than the service.
    namespaces: the namespaces that the API key is limited to. Other leaves are then missing from `list` lawfully, so it
        checks only order, namespaces and what this client wrote. Without this, a memory that an API key writes without a
        namespace may be stored in any.
    staking_program: the program and the mint of staking. Get them from the operator by a channel other than the service.
    heads: where heads are kept: `FileHeads`, or your own store. By default they are lost when the process ends.
    fetch: sends one request. `Connections` by default.
    timeout: how many seconds each attempt of a call may take. math.inf means as long as it takes.
    retries: attempts after the first.
    backoff: the seconds before the second attempt; they double for each further attempt.
    """

    def __init__(
        self, url: str, *, extension_url: str | None = None, public_url: str | None = None, extension_public_url: str | None = None,
        api_key: str | None = None, session: str | None = None, extension_session: str | None = None, owner: str | None = None, verify: bool = True,
        rpc_url: str | None = None, issuer: Issuer | None = None, namespaces: Sequence[str] | None = None,
        staking_program: StakingProgram | None = None, heads: HeadStore | None = None, fetch: Fetch | None = None,
        timeout: float = 30.0, retries: int = 3, backoff: float = 1.0,
    ) -> None:
        self.url = url.rstrip("/")
        self.extension_url = extension_url.rstrip("/") if extension_url else None
        self.public_url = (public_url or url).rstrip("/")
        self._extension_public_url = (extension_public_url or extension_url or "").rstrip("/")
        self.verify, self.rpc_url, self.issuer = verify, rpc_url, issuer
        self.namespaces, self.staking_program = namespaces, staking_program
        #: The owner of the log, once known.
        self.owner = owner
        self.known_heads = Heads(heads)
        # A file with a key has a line end.
        self._credential = (api_key or session or "").strip() or None
        self._extension_credential = extension_session
        self._connections = Connections()
        self.fetch: Fetch = fetch or self._connections
        self._transport = Transport(self.fetch, timeout, retries, backoff)
        self.keys = Keys(self)
        self.memories = Memories(self)
        self.log = Log(self)
        self.events = Feed(self)
        self.grants = Grants(self)
        self.sessions = Sessions(self)
        self.staking = Staking(self)

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._connections.close()

    def __enter__(self) -> MemoryLedger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def sign_in(self, wallet: Wallet, *, timeout: float | None = None) -> Session:
        """Signs in to the core API, and to the extension API where its URL is given.

        The wallet signs only the text that the service at these URLs has for this. For any other
        text the call raises a ChallengeError.
        """
        if self.owner is not None and self.owner != wallet.public_key:
            raise TypeError(f"this client is {self.owner}'s")
        session = self._sign_in_to(self.url, self.public_url, wallet, timeout)
        if self.extension_url:
            self._extension_credential = self._sign_in_to(self.extension_url, self._extension_public_url, wallet, timeout)["token"]
        self._credential = session["token"]
        self.owner = wallet.public_key
        return session

    def _sign_in_to(self, url: str, site: str, wallet: Wallet, timeout: float | None) -> Session:
        body = self._sign(url, site, wallet, "sign-in", timeout)
        session: Session = self._transport.send(Call("POST", f"{url}/auth/verify", body=body, signed=True, timeout=timeout, says={"token": is_text})).body
        return session

    def erase(self, wallet: Wallet, *, timeout: float | None = None) -> None:
        """Destroys the owner's data key.

        The owner's texts can no longer be read, and all sessions, keys and grants end. Proofs
        stay. The wallet signs a challenge that says so.
        """
        body = self._sign(self.url, self.public_url, wallet, "erase", timeout)
        self._transport.send(Call("POST", f"{self.url}/erasure", body=body, signed=True, timeout=timeout, says={"erased": is_count}))

    def _sign(self, url: str, site: str, wallet: Wallet, purpose: Purpose, timeout: float | None) -> dict[str, str]:
        """Has a wallet sign a fresh challenge of the API at `url`, whose public base URL is `site`."""
        account = wallet.public_key
        call = Call("POST", f"{url}/auth/challenge", body={"publicKey": account, "purpose": purpose}, timeout=timeout, says={"message": is_text})
        message: str = self._transport.send(call).body["message"]
        check_challenge(message, site, purpose, account)
        return {"publicKey": account, "message": message, "signature": to_base58(wallet.sign_message(message.encode()))}

    # For the parts of this package.

    def core(self, method: str, path: str, **call: Any) -> Answer:
        return self._transport.send(self._core_call(method, path, **call))

    def core_stream(self, path: str, idle: float | None = None, **call: Any) -> Iterator[bytes]:
        timeout: float | None = call.get("timeout")
        if idle is None:
            idle = self._transport.timeout if timeout is None else timeout
        return self._transport.stream(self._core_call("GET", path, **call), idle)

    def _core_call(self, method: str, path: str, **call: Any) -> Call:
        return Call(method, self.url + path, self._credential, **call)

    def extension(self, method: str, path: str, **call: Any) -> Any:
        if not self.extension_url:
            raise TypeError("grants need extension_url")
        return self._transport.send(Call(method, self.extension_url + path, self._extension_credential, **call)).body

    def fill(self, url: str, **call: Any) -> Any:
        """Sends to a grant's own URL. The URL is the credential."""
        return self._transport.send(Call("POST", url, **call)).body

    def read(self, url: str, **call: Any) -> str:
        return self._transport.text(Call("GET", url, **call))

    @property
    def may_be_limited(self) -> bool:
        """Whether the credential may be limited to a namespace that this client does not know."""
        return self.namespaces is None and (self._credential or "").startswith("svc_")

    def check_anchor(self, anchor: Anchor, owner: str) -> None:
        """Checks an anchor against the issuer and the chain, if they are configured."""
        if self.issuer:
            check_anchor_issuer(anchor, owner, self.issuer)
        if self.rpc_url:
            check_anchor_onchain(self.rpc_url, anchor, owner, self.fetch)
