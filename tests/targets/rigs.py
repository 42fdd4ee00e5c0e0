"""What several tests need: a clock that moves when told, a real server, a folder with code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gatemark.targets.journal import Journal
from gatemark.targets.outcomes import CallOutcome, RunProgress
from gatemark.targets.port import Call, CallPart, Reply, Target
from gatemark.targets.run_options import RunOptions
from gatemark.targets.runner import run_calls
from gatemark.targets.spending import Spending


class Time:
    """A clock and a sleep that belong together; sleeping is instant and moves the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Answers:
    """A target made of one async function of the call."""

    reads: frozenset[CallPart] = frozenset({"input"})

    def __init__(self, answer: Callable[[Call], Any], name: str = "answers") -> None:
        self._answer = answer
        self._name = name
        self.seen: list[tuple[str, int]] = []

    async def call(self, call: Call) -> Reply:
        self.seen.append(call.key)
        value = self._answer(call)
        if asyncio.iscoroutine(value):
            value = await value
        return value if isinstance(value, Reply) else Reply(output=value, latency_ms=1.0)

    async def close(self) -> None:
        return None

    def identity(self) -> dict[str, Any]:
        return {"kind": "test", "name": self._name}


def questions(count: int) -> list[Call]:
    return [Call(id=f"q{i:04d}", epoch=0, input=f"question {i}") for i in range(count)]


def run(
    target: Any,
    calls: Sequence[Call],
    options: RunOptions | None = None,
    journal: Journal | None = None,
    *,
    time_source: Time | None = None,
    seed: int = 1,
    on_progress: Callable[[RunProgress], None] | None = None,
    spent: Spending | None = None,
    passes: Callable[[CallOutcome], bool] | None = None,
) -> tuple[CallOutcome, ...]:
    """Run the calls on a fresh loop and close the target."""

    async def whole() -> tuple[CallOutcome, ...]:
        try:
            return await run_calls(
                target,
                calls,
                options or RunOptions(),
                journal,
                clock=time.monotonic if time_source is None else time_source.clock,
                sleep=asyncio.sleep if time_source is None else time_source.sleep,
                rng=random.Random(seed),
                on_progress=on_progress,
                spent=spent,
                passes=passes,
            )
        finally:
            await target.close()

    return asyncio.run(whole())


def ask(target: Target, call: Call) -> Reply:
    """One bare call, without the runner."""

    async def whole() -> Reply:
        try:
            return await target.call(call)
        finally:
            await target.close()

    return asyncio.run(whole())


class Request:
    """What the server was asked."""

    def __init__(self, path: str, headers: dict[str, str], body: Any) -> None:
        self.path = path
        self.headers = headers
        self.body = body


class Answer:
    """What the server says; ``body`` is sent as it is when it is bytes."""

    def __init__(
        self,
        body: Any,
        status: int = 200,
        headers: dict[str, str] | None = None,
        delay_s: float = 0,
        *,
        drips: bool = False,
    ) -> None:
        self.data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.headers = headers or {}
        self.delay_s = delay_s
        self.drips = drips
        """Blanks come one by one before the body, until the server ends."""


class Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []


@contextlib.contextmanager
def serving(
    answer: Callable[[Request], Answer], tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """A real HTTP server on a free port of the loopback."""
    ending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are two writes; the second would wait 40 ms until the first is acknowledged.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            request = Request(self.path, dict(self.headers.items()), json.loads(raw))
            server.requests.append(request)
            said = answer(request)
            ending.wait(said.delay_s)
            with contextlib.suppress(ConnectionError):
                self.send_response_only(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                size = 1 << 20 if said.drips else len(said.data)
                self.send_header("content-length", str(size))
                self.end_headers()
                while said.drips and not ending.wait(0.02):
                    self.wfile.write(b" ")
                self.wfile.write(said.data)

        def log_message(self, *_: object) -> None:
            return None

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return None

    with Quiet(("127.0.0.1", 0), Handler) as httpd:
        if tls is not None:
            httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        server = Server(f"{scheme}://127.0.0.1:{httpd.server_address[1]}")
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            ending.set()
            httpd.shutdown()
            thread.join()
