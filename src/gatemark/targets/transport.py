"""Send one JSON request over HTTP: size limits, no secrets in messages, exact error kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpcore2
import httpx2
import msgspec

from gatemark import __version__
from gatemark.core.errors import UsageError
from gatemark.targets.connections import NETWORK_ERRORS, make_pool
from gatemark.targets.network_specs import OWN_PREFIX, Endpoint
from gatemark.targets.port import ErrorKind, TargetError
from gatemark.targets.replies import BadReplyError, decode_reply

RETRYABLE_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
UNAUTHORIZED_STATUSES: Final = frozenset({401, 403, 407})
UNAVAILABLE_STATUSES: Final = frozenset({402, 404, 405, 408, 425, 429})
ERROR_BODY_BYTES: Final = 4_096
ERROR_BODY_CHARS: Final = 400


class ApiKey:
    """An API key from the environment; its repr reveals nothing."""

    def __init__(self, variable: str, header: str, prefix: str, environ: Mapping[str, str]) -> None:
        value = environ.get(variable, "").strip()
        if not value:
            raise UsageError(f"environment variable {variable} must hold the API key, it is empty")
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"environment variable {variable} holds characters no key can have")
        self._value = value
        self._header = (header, prefix + value)

    def __repr__(self) -> str:
        return "Secret([redacted])"

    def header(self) -> tuple[str, str]:
        """Return the header with the key."""
        return self._header

    def redact(self, text: str) -> str:
        """Remove the key from a text."""
        return text.replace(self._value, "[redacted]")


class Transport:
    """Sends JSON to one address and reads JSON back. The caller sets timeouts."""

    def __init__(
        self,
        url: str,
        endpoint: Endpoint,
        environ: Mapping[str, str],
        *,
        method: str = "POST",
        max_reply_bytes: int,
    ) -> None:
        self._url = _parse_url(url)
        self._method = method
        self._secret = _find_key(endpoint, environ)
        self._headers = _build_headers(self._url, endpoint, self._secret)
        self._address = httpcore2.URL(
            scheme=self._url.raw_scheme,
            host=self._url.raw_host,
            port=self._url.port,
            target=self._url.raw_path,
        )
        self._max_reply_bytes = max_reply_bytes
        self._idle: list[httpcore2.AsyncConnectionPool] = []
        shown = self._url.copy_with(query=None, fragment=None)
        self.place = f"{method} {shown}"

    async def send(self, body: Any) -> Any:
        """Send a request; return the decoded JSON reply, or raise a TargetError."""
        # One connection each: a pool checks all its connections on every step of every call.
        pool = self._idle.pop() if self._idle else make_pool(self._url)
        try:
            data = await self._exchange(pool, msgspec.json.encode(body))
        finally:
            self._idle.append(pool)
        try:
            return decode_reply(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            shown = self._redact(data[:200].decode(errors="replace"))
            raise BadReplyError(f"{self.place}: reply is not JSON: {error}: {shown!r}") from error

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _exchange(self, pool: httpcore2.AsyncConnectionPool, content: bytes) -> bytes:
        size = (b"content-length", str(len(content)).encode())
        headers = [*self._headers, size]
        request = httpcore2.Request(self._method, self._address, headers=headers, content=content)
        try:
            response = await pool.handle_async_request(request)
            try:
                if not 200 <= response.status < 300:
                    raise self._make_status_error(response, await _read_excerpt(response))
                return await self._read(response)
            finally:
                await response.aclose()
        except NETWORK_ERRORS as error:
            said = self._redact(str(error)) or "no reason given"
            raise TargetError(
                "unreachable",
                f"{self.place}: {type(error).__name__}: {said}",
                retryable=True,
            ) from error

    async def _read(self, response: httpcore2.Response) -> bytes:
        encoding = _get_header(response, b"content-encoding") or "identity"
        if encoding != "identity":
            raise BadReplyError(f"{self.place}: reply must not be compressed, got {encoding!r}")
        data = bytearray()
        async for chunk in response.aiter_stream():
            data += chunk
            if len(data) > self._max_reply_bytes:
                raise BadReplyError(
                    f"{self.place}: reply must be at most {self._max_reply_bytes} bytes"
                )
        return bytes(data)

    def _make_status_error(self, response: httpcore2.Response, body: bytes) -> TargetError:
        words = " ".join(self._redact(body.decode(errors="replace")).split())[:ERROR_BODY_CHARS]
        status = response.status
        asked_s = _parse_retry_after(response) if status in RETRYABLE_STATUSES else None
        wait = "" if asked_s is None else f", asks to wait {asked_s:g} s"
        return TargetError(
            _classify_status(status),
            f"{self.place}: status {status}{wait}: {words or 'empty body'}",
            retryable=status in RETRYABLE_STATUSES,
            retry_after_s=asked_s,
        )

    def _redact(self, text: str) -> str:
        return text if self._secret is None else self._secret.redact(text)


def _classify_status(status: int) -> ErrorKind:
    """Return the error kind of a status: endpoint unavailable, or input refused."""
    if status in UNAUTHORIZED_STATUSES:
        return "unauthorized"
    if status in UNAVAILABLE_STATUSES or 500 <= status < 600:
        return "unavailable"
    return "http_status"


def _parse_url(text: str) -> httpx2.URL:
    try:
        return httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise UsageError(f"url is not valid: {error}") from error


def _refuse_own_setting(variable: str) -> None:
    """Refuse to send a setting of Gatemark: the store's address may hold a password."""
    if variable.upper().startswith(OWN_PREFIX):
        raise UsageError(
            f"{variable} cannot be the key of a target: no target receives Gatemark's own "
            f"settings; put the key into a variable that does not start with {OWN_PREFIX}"
        )


def _find_key(endpoint: Endpoint, environ: Mapping[str, str]) -> ApiKey | None:
    if endpoint.api_key_env is None:
        return None
    _refuse_own_setting(endpoint.api_key_env)
    header, prefix = endpoint.key_place()
    return ApiKey(endpoint.api_key_env, header, prefix, environ)


async def _read_excerpt(response: httpcore2.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_stream():
        data += chunk
        if len(data) >= ERROR_BODY_BYTES:
            break
    return bytes(data[:ERROR_BODY_BYTES])


def _build_headers(
    url: httpx2.URL, endpoint: Endpoint, secret: ApiKey | None
) -> list[tuple[bytes, bytes]]:
    """Return the headers of every request; a pack's own replace ours, the key replaces all."""
    said = [
        ("Host", url.netloc.decode("ascii")),
        ("User-Agent", f"gatemark/{__version__}"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        # A compressed reply could expand past any limit in one step.
        ("Accept-Encoding", "identity"),
        *endpoint.sent_headers().items(),
    ]
    if secret is not None:
        said.append(secret.header())
    last = {name.lower(): (name, value) for name, value in said}.values()
    try:
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in last]
    except UnicodeEncodeError as error:
        raise UsageError(f"headers must be ASCII, got {error.object!r}") from error


def _get_header(response: httpcore2.Response, name: bytes) -> str:
    """Return a header value, several joined as one list; empty without any."""
    values = [value for found, value in response.headers if found.lower() == name]
    return b", ".join(values).decode("latin-1")


def _parse_retry_after(response: httpcore2.Response) -> float | None:
    """Return Retry-After in seconds; a date is compared with the server's own Date header."""
    text = _get_header(response, b"retry-after").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    until, now = _parse_date(text), _parse_date(_get_header(response, b"date"))
    if until is None or now is None:
        return None
    return max(0.0, (until - now).total_seconds())


def _parse_date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
