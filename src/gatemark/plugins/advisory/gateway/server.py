"""The reference gateway: a small HTTP service that listens only on the loopback interface.

``POST /v1/advise`` takes an envelope and returns a recommendation; ``GET /health`` lists which
lanes are ready. Sizes, times and connections are limited. Payloads are neither logged nor stored.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import UsageError, not_installed
from gatemark.plugins.advisory.dry_run.envelope import (
    ADVISE_PATH,
    DeviceChoice,
    EnvelopeRefusedError,
    RequestEnvelope,
    admit,
)


def open_gateway(port: int, device: DeviceChoice, busy_counter: str) -> Gateway:
    """Return a gateway that is ready to serve; the caller runs ``serve_forever`` and ``finish``."""
    try:
        from gatemark.plugins.advisory.gateway.advisor import Advisor  # noqa: PLC0415 - an extra that few need
    except ModuleNotFoundError as error:
        raise UsageError(not_installed("the gateway needs", str(error.name), "openvino")) from error
    advisor = Advisor(device, counter=Path(busy_counter))
    return Gateway(port, advise=advisor.advise, health=advisor.health)


LOOPBACK: Final = "127.0.0.1"
LOOPBACK_NAMES: Final = frozenset({LOOPBACK, "localhost", "[::1]"})
HEALTH_PATH: Final = "/health"
MAX_BODY_BYTES: Final = 256 * 1024
MAX_CONNECTIONS: Final = 32
REQUEST_SECONDS: Final = 10.0
STATUS_OF_CODE: Final = {
    "authority_requested": HTTPStatus.FORBIDDEN,
    "not_local": HTTPStatus.FORBIDDEN,
    "unknown_lane": HTTPStatus.NOT_FOUND,
    "unknown_path": HTTPStatus.NOT_FOUND,
    "unreadable_payload": HTTPStatus.UNPROCESSABLE_ENTITY,
    "malformed": HTTPStatus.BAD_REQUEST,
    "media_type": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "length_required": HTTPStatus.LENGTH_REQUIRED,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "too_slow": HTTPStatus.REQUEST_TIMEOUT,
}

Advise = Callable[[RequestEnvelope], dict[str, Any]]
Health = Callable[[], dict[str, Any]]


class Gateway(ThreadingHTTPServer):
    """Listens on 127.0.0.1; with ``port`` 0, on any free port."""

    daemon_threads = True
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(
        self,
        port: int,
        *,
        advise: Advise,
        health: Health,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self.advise = advise
        self.health = health
        self.request_seconds = request_seconds
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        self._empty = threading.Condition(self._guard)
        try:
            super().__init__((LOOPBACK, port), GatewayHandler)
        except OSError as error:
            raise UsageError(f"port {port} cannot be opened: {error.strerror or error}") from error

    @property
    def address(self) -> str:
        """The address of the gateway."""
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._open.discard(request)
                self._empty.notify_all()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect; a traceback could contain what they sent."""

    def finish(self, grace_s: float = 2.0) -> None:
        """Stop listening, wait for running requests, close idle connections."""
        self.shutdown()
        self.server_close()
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)
            self._empty.wait_for(lambda: not self._open, timeout=grace_s)


class _BoundedReader(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly data arrives."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


class _RefusedRequestError(EnvelopeRefusedError):
    """A request whose body was not read, so that its connection is closed."""


class GatewayHandler(BaseHTTPRequestHandler):
    """One connection, any number of requests, each within its time."""

    server: Gateway
    protocol_version = "HTTP/1.1"
    server_version = "gatemark-advisory"
    sys_version = ""
    # Send head and body together; otherwise each reply waits 40 ms for an acknowledgement.
    wbufsize = 64 * 1024
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._bounded = _BoundedReader(self.connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._bounded)

    def handle_one_request(self) -> None:
        self._bounded.deadline = time.monotonic() + self.server.request_seconds
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer with the health of the lanes."""
        self._answer(HEALTH_PATH, self.server.health)

    def do_POST(self) -> None:
        """Answer with advice."""
        self._answer(ADVISE_PATH, self._advise)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: request lines and bodies belong to the client."""

    def _answer(self, path: str, act: Callable[[], dict[str, Any]]) -> None:
        try:
            self._refuse_strangers()
            if self.path != path:
                raise _RefusedRequestError("unknown_path", f"known: {HEALTH_PATH}, {ADVISE_PATH}")
            status, document = HTTPStatus.OK, act()
        except EnvelopeRefusedError as error:
            status = STATUS_OF_CODE[error.code]
            document = {"error": {"code": error.code, "message": str(error)}}
            self.close_connection |= isinstance(error, _RefusedRequestError)
        data = msgspec.json.encode(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _refuse_strangers(self) -> None:
        """Refuse requests of web pages, which have an origin or another host."""
        host = self.headers.get("Host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in LOOPBACK_NAMES:
            raise _RefusedRequestError("not_local", "host must be the loopback address")
        if self.headers.get("Origin") is not None:
            raise _RefusedRequestError("not_local", "requests from web pages are refused")

    def _advise(self) -> dict[str, Any]:
        body = self._read_body()
        try:
            value = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise EnvelopeRefusedError("malformed", "body is not JSON") from error
        return self.server.advise(admit(value))

    def _read_body(self) -> bytes:
        if self.headers.get_content_type() != "application/json":
            raise _RefusedRequestError("media_type", "content type must be application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) <= 12):
            raise _RefusedRequestError("length_required", "content length must be given")
        if int(length) > MAX_BODY_BYTES:
            raise _RefusedRequestError(
                "too_large", f"body must have at most {MAX_BODY_BYTES} bytes"
            )
        try:
            body = self.rfile.read(int(length))
        except TimeoutError as error:
            raise _RefusedRequestError("too_slow", "the request took too long") from error
        if len(body) != int(length):
            raise _RefusedRequestError("malformed", "body is shorter than announced")
        return body


_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
