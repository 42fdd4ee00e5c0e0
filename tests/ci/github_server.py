"""A small stand-in for the comments of GitHub's interface, on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "token-of-the-job"


@dataclass
class GithubComments:
    """Comments of one pull request, and what was asked of them."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    refuse_with: int | None = None
    redirect_to: str | None = None
    url: str = ""

    def add(self, body: str, login: str = "github-actions[bot]", kind: str = "Bot") -> int:
        number = len(self.comments) + 1
        user = {"login": login, "type": kind}
        url = f"{self.url}/comment/{number}"
        self.comments.append({"id": number, "body": body, "user": user, "html_url": url})
        return number


@contextmanager
def github_comments() -> Iterator[GithubComments]:
    """Serve the comments until the block ends."""
    state = GithubComments()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def _answer(self) -> None:
            state.asked.append(f"{self.command} {self.path}")
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            if state.redirect_to is not None:
                self.send_response(302)
                self.send_header("Location", state.redirect_to)
                self.end_headers()
                return None
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self._send(401, {})
            if state.refuse_with is not None:
                return self._send(state.refuse_with, {})
            if self.command == "GET":
                page = int(self.path.rpartition("page=")[2])
                return self._send(200, state.comments[(page - 1) * 100 : page * 100])
            if self.command == "POST":
                number = state.add(body["body"])
            else:
                number = int(self.path.rpartition("/")[2])
                state.comments[number - 1]["body"] = body["body"]
            return self._send(200, state.comments[number - 1])

        def _send(self, status: int, document: object) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - as http.server calls them

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield state
        server.shutdown()
        thread.join()
