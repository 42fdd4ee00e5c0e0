"""Guards around every request: host name, rate, body size and speed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from ipaddress import IPv4Address, ip_address, ip_network
from math import ceil
from typing import Any, Final
from urllib.parse import parse_qsl

from gatemark.server.headers import HEADERS
from gatemark.server.problems import ProblemResponse
from gatemark.server.settings import ServerSettings

logger = logging.getLogger(__name__)
MAX_KEYS: Final = 20_000
MAX_LENGTH_DIGITS: Final = 18


class Limiter:
    """Token buckets that refill with ``per_minute`` tokens; a request takes one."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._size = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take a token and return 0, or return the seconds to wait."""
        now = self._clock()
        with self._lock:
            level, at = self._buckets.pop(key, (self._size, now))
            level = min(self._size, level + (now - at) * self._rate)
            is_free = level >= 1
            self._buckets[key] = (level - 1 if is_free else level, now)
            while len(self._buckets) > MAX_KEYS:
                self._buckets.popitem(last=False)
        return 0.0 if is_free else (1 - level) / self._rate


def client_of(address: str) -> str:
    """Return whom limits count an address to: an IPv6 machine has a whole /64 of them."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped or ip_network((found, 64), strict=False))


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Guards:
    """ASGI middleware that refuses requests before they reach a route."""

    def __init__(self, app: App, settings: ServerSettings, clock: Callable[[], float]) -> None:
        self._app = app
        self._settings = settings
        self._addresses = Limiter(settings.visits_per_address, clock)
        self._people = Limiter(settings.visits_per_person, clock)
        self._changing = asyncio.Semaphore(max(1, settings.threads // 2))
        self._headers = HEADERS
        if settings.is_https:
            self._headers += ((b"strict-transport-security", b"max-age=31536000"),)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sending = self._with_headers(send)
        problem = self._find_problem(scope)
        if problem is not None:
            logger.info("request refused", extra={"status": int(problem.status)})
            await problem.response()(scope, receive, sending)
            return
        turn = _Turn(None if scope["method"] in SAFE else self._changing)
        body = _Body(receive, self._settings, turn)
        started = False

        async def tell(message: Message) -> None:
            nonlocal started
            started = True
            await sending(message)

        try:
            await self._app(scope, body.receive, tell)
        except ProblemResponse as found:
            if started:
                raise
            await found.response()(scope, receive, sending)
        finally:
            turn.give_back()

    def _find_problem(self, scope: Scope) -> ProblemResponse | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = _parse_host_name(headers.get(b"host", b""))
        if host not in self._settings.host_names:
            return ProblemResponse(HTTPStatus.MISDIRECTED_REQUEST, "unknown host name")
        address = scope["client"][0] if scope.get("client") else "unknown"
        credentials = headers.get(b"authorization") or headers.get(b"cookie")
        waits = [self._addresses.take(client_of(address))]
        if credentials is not None:
            waits.append(self._people.take(hashlib.sha256(credentials).hexdigest()))
        if max(waits) > 0:
            after = {"Retry-After": str(ceil(max(waits)))}
            return ProblemResponse(HTTPStatus.TOO_MANY_REQUESTS, "too many requests", headers=after)
        if (problem := _query_problem(scope["query_string"])) is not None:
            return ProblemResponse(HTTPStatus.BAD_REQUEST, problem)
        lengths = {value for name, value in scope["headers"] if name == b"content-length"}
        if len(lengths) > 1 or (lengths and b"transfer-encoding" in headers):
            return ProblemResponse(
                HTTPStatus.BAD_REQUEST, "conflicting Content-Length or Transfer-Encoding headers"
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
            return ProblemResponse(HTTPStatus.BAD_REQUEST, "Content-Length must be a number")
        if int(length) > self._settings.max_body_bytes:
            return too_large(self._settings)
        return None

    def _with_headers(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", ())}
                more = [one for one in self._headers if one[0] not in known]
                if b"cache-control" not in known:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return sending


class _Turn:
    """Limits concurrent requests that may change something; other requests pass.

    Writers of the ledger wait for each other. They wait here, where they do not hold a thread, so
    that readers always get one.
    """

    def __init__(self, places: asyncio.Semaphore | None) -> None:
        self._places = places
        self._is_held = False

    async def take(self) -> None:
        """Wait until it is this request's turn."""
        if self._places is not None and not self._is_held:
            await self._places.acquire()
            self._is_held = True

    def give_back(self) -> None:
        """Let the next request in."""
        if self._places is not None and self._is_held:
            self._places.release()
            self._is_held = False


class _Body:
    """The body of a request, with limits for size and time; then the request waits its turn."""

    def __init__(self, receive: Receive, settings: ServerSettings, turn: _Turn) -> None:
        self._turn = turn
        self._receive = receive
        self._settings = settings
        self._left = settings.body_seconds
        self._bytes = 0
        self._is_over = False

    async def receive(self) -> Message:
        """Return the next chunk; raise if the body is too slow or too large."""
        if self._is_over:
            return await self._receive()
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            message = await asyncio.wait_for(self._receive(), self._left)
        except TimeoutError as error:
            raise ProblemResponse(
                HTTPStatus.REQUEST_TIMEOUT, "the request body took too long"
            ) from error
        self._left = max(0.001, self._left - (loop.time() - started))
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._settings.max_body_bytes:
            raise too_large(self._settings)
        self._is_over = message["type"] != "http.request" or not message.get("more_body", False)
        if self._is_over:
            # Only after the body: a slow body must not make others wait.
            await self._turn.take()
        return message


def too_large(settings: ServerSettings) -> ProblemResponse:
    """Return the problem for a request body that is too large."""
    return ProblemResponse(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"a body must be at most {settings.max_body_bytes} bytes",
    )


def _query_problem(query: bytes) -> str | None:
    """Return why a query string is ambiguous, or None."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        return "the query of the address is not UTF-8"
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        return "a parameter of the address was sent more than once"
    return None


def _parse_host_name(value: bytes) -> str:
    text = value.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
