"""A read-only server for one reader on this machine, opened by a one-time link.

The standard library is enough: there is no sign-in, nothing is written, and there is one reader.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from gatemark.core.errors import UsageError
from gatemark.server.headers import HEADERS
from gatemark.server.view_pages import ViewPages, icon, refused_page, style

LOOPBACK: Final = "127.0.0.1"
SECONDS: Final = 10
"""Time limit for a connection to send its request, in seconds."""
MAX_FIELDS: Final = 8
OPEN: Final = "/open/"
NO_LINK: Final = "This page needs the link that 'gatemark view' printed."
USED_LINK: Final = "This link was used. End 'gatemark view' with Ctrl-C and start it again."


logger = logging.getLogger(__name__)


class ViewServer(ThreadingHTTPServer):
    """Serves the pages of one subject on the loopback interface."""

    daemon_threads = True

    def __init__(self, pages: ViewPages, port: int) -> None:
        self.pages = pages
        self._link: str | None = secrets.token_urlsafe(24)
        self._read_session = secrets.token_urlsafe(24)
        self._turn = threading.Lock()
        try:
            super().__init__((LOOPBACK, port), _Request)
        except OSError as error:
            where = f"{LOOPBACK}:{port}"
            raise UsageError(f"cannot listen at {where}: {error.strerror or error}") from error

    @property
    def address(self) -> str:
        """The address of the server."""
        return f"http://{LOOPBACK}:{self.server_port}"

    @property
    def link(self) -> str:
        """The one-time link to open."""
        return f"{self.address}{OPEN}{self._link}"

    @property
    def hosts(self) -> frozenset[str]:
        """The accepted host names; another name means DNS rebinding by a foreign page."""
        return frozenset(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    @property
    def cookie(self) -> str:
        """The name of the session cookie; it has the port, since ports share cookies."""
        return f"gatemark-view-{self.server_port}"

    def open_session(self, link: str) -> str | None:
        """Return a session for the first use of the link, and None afterwards."""
        with self._turn:
            if self._link is None or not compare_digest(link.encode(), self._link.encode()):
                return None
            self._link = None
            return self._read_session

    def knows(self, session: str) -> bool:
        """Return whether a session was opened by the link."""
        return self._link is None and compare_digest(session.encode(), self._read_session.encode())


class _Request(BaseHTTPRequestHandler):
    """Answers GET and HEAD; the library refuses other methods."""

    server: ViewServer
    server_version = "gatemark"
    sys_version = ""
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer with a page, the style or the icon; report a bug as an internal error."""
        try:
            self._route()
        except (ConnectionError, TimeoutError):
            # The browser left.
            self.close_connection = True
        except Exception:
            logger.exception("page failed")
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error; see the terminal.")

    def _route(self) -> None:
        address = urlsplit(self.path)
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "Unknown host name.")
        elif address.path.startswith(OPEN):
            self._open(address.path.removeprefix(OPEN))
        elif address.path == "/style.css":
            self._answer(HTTPStatus.OK, style(), "text/css; charset=utf-8")
        elif address.path == "/icon.svg":
            self._answer(HTTPStatus.OK, icon(), "image/svg+xml")
        elif not self.server.knows(self._read_session()):
            self._refuse(HTTPStatus.FORBIDDEN, NO_LINK)
        elif address.path == "/":
            self._send_page(address.query)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    def do_HEAD(self) -> None:
        """Answer as to GET, without the body."""
        self.do_GET()

    def _open(self, link: str) -> None:
        session = self.server.open_session(link)
        if session is None:
            # Some terminals load a link twice: a repeated load shows the page.
            if not self.server.knows(self._read_session()):
                self._refuse(HTTPStatus.FORBIDDEN, USED_LINK)
                return
            self._answer(HTTPStatus.SEE_OTHER, b"", "text/plain", ("Location", "/"))
            return
        # Lax, since a web terminal is another site; nothing can be changed here.
        cookie = f"{self.server.cookie}={session}; HttpOnly; SameSite=Lax; Path=/"
        way = (("Set-Cookie", cookie), ("Location", "/"))
        self._answer(HTTPStatus.SEE_OTHER, b"", "text/plain", *way)

    def _send_page(self, query: str) -> None:
        try:
            fields = dict(parse_qsl(query, max_num_fields=MAX_FIELDS))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "Too many fields in the address.")
            return
        page = self.server.pages.page(fields)
        self._answer(HTTPStatus.OK, page, "text/html; charset=utf-8")

    def _read_session(self) -> str:
        found: SimpleCookie = SimpleCookie()
        with suppress(CookieError):
            found.load(self.headers.get("Cookie", ""))
        return found[self.server.cookie].value if self.server.cookie in found else ""

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._answer(status, refused_page(reason), "text/html; charset=utf-8")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, *more: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in HEADERS:
            self.send_header(name.decode(), value.decode())
        fixed = (("Cache-Control", "no-store"), ("Content-Type", kind))
        for title, text in (*fixed, *more, ("Content-Length", str(len(body)))):
            self.send_header(title, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: the link is a secret."""


def view(pages: ViewPages, port: int, on_ready: Callable[[str], object]) -> int:
    """Serve until Ctrl-C; ``on_ready`` gets the link."""
    with ViewServer(pages, port) as server:
        on_ready(server.link)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
