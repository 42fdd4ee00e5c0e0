"""Connections for HTTP calls: plain asyncio connections for httpcore2, and proxies.

httpcore2's own asyncio connections use anyio, which yields to other calls at every step: many calls
at once then end together, and late, instead of one after the other.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, cast
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2

from gatemark.core.hosts import is_loopback

MAX_UNREAD_BYTES: Final = 2**16
HAPPY_EYEBALLS_DELAY_S: Final = 0.25
CONNECT_LIMIT_S: Final = 5.0
"""Maximum time to connect; a reply may take much longer."""

NETWORK_ERRORS: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)
"""Every httpcore2 error of a call without a complete reply."""


def make_pool(url: httpx2.URL) -> httpcore2.AsyncConnectionPool:
    """Return a pool with one connection to an address, reopened if the other side closes it."""
    proxy = _find_proxy(url)
    needs_tls = url.scheme == "https" or (proxy is not None and proxy.url.scheme == b"https")
    tls = httpx2.create_ssl_context() if needs_tls else None
    if proxy is not None and proxy.url.scheme == b"https":
        proxy = httpcore2.Proxy(proxy.url, proxy.auth, ssl_context=tls)
    return httpcore2.AsyncConnectionPool(
        ssl_context=tls, proxy=proxy, max_connections=1, network_backend=AsyncioBackend()
    )


class AsyncioBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections on the running loop. The caller sets timeouts."""

    async def connect_tcp(
        self, host: str, port: int, *_: object, **__: object
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        with _raise_errors_as(httpcore2.ConnectError):
            try:
                async with asyncio.timeout(CONNECT_LIMIT_S):
                    opened = await loop.create_connection(
                        _Line, host, port, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY_S
                    )
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout(
                    f"no connection within {CONNECT_LIMIT_S:g} s"
                ) from error
        return _Stream(opened[1])

    async def connect_unix_socket(
        self, path: str, *_: object, **__: object
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.UnsupportedProtocol(f"{path}: targets are reached by host and port")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, line: _Line) -> None:
        self._line = line

    async def read(self, max_bytes: int, *_: object, **__: object) -> bytes:
        with _raise_errors_as(httpcore2.ReadError):
            return await self._line.read(max_bytes)

    async def write(self, buffer: bytes, *_: object, **__: object) -> None:
        with _raise_errors_as(httpcore2.WriteError):
            await self._line.write(buffer)

    async def aclose(self) -> None:
        # A reply has a known length, so there is no need to wait for the TLS shutdown.
        self._line.transport.abort()
        await asyncio.sleep(0)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        *_: object,
        **__: object,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        line = self._line
        try:
            with _raise_errors_as(httpcore2.ConnectError):
                transport = await loop.start_tls(
                    line.transport, line, ssl_context, server_hostname=server_hostname
                )
        except BaseException:
            line.transport.abort()
            raise
        line.transport = cast("asyncio.Transport", transport)
        return self

    def get_extra_info(self, info: str) -> object:
        if info == "is_readable":
            return self._line.is_over()
        return self._line.transport.get_extra_info(info)


class _Line(asyncio.Protocol):
    """Bytes in both directions over one transport, which TLS may replace."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._unread = bytearray()
        self._ended = False
        self._lost: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_full = False
        self._is_held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > MAX_UNREAD_BYTES and not self._is_held:
            self._is_held = True
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> None:
        self._ended = True
        _wake(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._lost = exc or self._lost
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        _wake(self._writer)

    async def read(self, max_bytes: int) -> bytes:
        """Read some bytes; empty at the end."""
        while not self._unread:
            if self._lost is not None:
                raise self._lost
            if self._ended:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._is_held and len(self._unread) <= MAX_UNREAD_BYTES // 2:
            self._is_held = False
            self.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Write bytes; wait only while the other side accepts none."""
        if not data:
            return
        if self._lost is not None:
            raise self._lost
        if self.transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self.transport.write(data)
        while self._is_full and not self._ended:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def is_over(self) -> bool:
        """Return whether an idle connection is unusable: closed, or with unrequested data."""
        if self._ended or self._unread or self.transport.is_closing():
            return True
        connection = self.transport.get_extra_info("socket")
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


@contextmanager
def _raise_errors_as(kind: type[httpcore2.NetworkError]) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError) as error:
        raise kind(str(error) or type(error).__name__) from error


def _find_proxy(url: httpx2.URL) -> httpcore2.Proxy | None:
    """Return the proxy of the environment, or None for calls to this machine."""
    found = getproxies()
    address = found.get(url.scheme) or found.get("all")
    if not address or is_loopback(url.host) or proxy_bypass(url.host):
        return None
    proxy = httpx2.Proxy(address if "://" in address else f"http://{address}")
    where = httpcore2.URL(
        scheme=proxy.url.raw_scheme,
        host=proxy.url.raw_host,
        port=proxy.url.port,
        target=proxy.url.raw_path,
    )
    return httpcore2.Proxy(where, proxy.raw_auth)
