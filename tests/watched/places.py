"""What lines name to connect to, served on loopback at ports that the system picks."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.ci.github_server import github_comments

LOOPBACK = "127.0.0.1"


class Place(NamedTuple):
    """The address of a server, as a line names it, and its port."""

    address: str
    port: int


@contextmanager
def places(postgres: str) -> Iterator[dict[str, Place]]:
    """A server that answers anything, the comments of GitHub, and a real PostgreSQL."""
    parts = urlsplit(postgres)
    found = parse_qs(parts.query)
    with (
        answering() as http,
        github_comments() as github,
        relayed(f"{found['host'][0]}/.s.PGSQL.5432") as port,
    ):
        options = parts.query.partition("options=")[2]
        database = f"postgresql://postgres@{LOOPBACK}:{port}{parts.path}?options={options}"
        yield {
            "HTTP": Place(http, urlsplit(http).port or 0),
            "GITHUB": Place(github.url, urlsplit(github.url).port or 0),
            "POSTGRES": Place(database, port),
        }


class _Answering(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps({"output": "b"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - as http.server calls them

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[str]:
    """A server that gives the same answer to everything: a target, a service, a receiver."""
    with ThreadingHTTPServer((LOOPBACK, 0), _Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{LOOPBACK}:{server.server_port}"
        server.shutdown()


@contextmanager
def relayed(path: str) -> Iterator[int]:
    """A port on loopback that leads to a socket in the file system.

    Such a socket is reached from a network of one's own, too; a server outside of it is not.
    """

    def pump(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            near, _ = listener.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(path)
            for ends in ((near, far), (far, near)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server((LOOPBACK, 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
