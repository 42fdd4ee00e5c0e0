"""A slow endpoint asked a hundred times at once: how near the runner comes to the ideal."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Line
from gatemark.targets.build import make_target
from gatemark.targets.journal import Journal
from gatemark.targets.port import Call
from gatemark.targets.runner import run_calls
from gatemark.targets.spec import parse_spec

CALLS = 1_000
JOBS = 100
WAIT_S = 0.2
IDEAL_S = CALLS / JOBS * WAIT_S
REPEATS = 3


def lines() -> Iterator[Line]:
    """Loopback calls through the runner, journal on; the server has a process of its own."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.slow_server", str(WAIT_S)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        seconds = min(asyncio.run(_ask_all(port)) for _ in range(REPEATS))
    finally:
        server.terminate()
        server.wait()
    yield Line(f"{CALLS:,} calls of {WAIT_S * 1000:g} ms, {JOBS} at once", seconds, "s")
    yield Line("ideal", IDEAL_S, "s")
    yield Line("measured / ideal", seconds / IDEAL_S, "x", at_most=1.3)


async def _ask_all(port: int) -> float:
    spec = parse_spec(
        {"http": {"url": f"http://127.0.0.1:{port}/answer", "response": "output"}, "retries": 0},
        "bench",
    )
    calls = [Call(id=f"call-{place:04d}", epoch=1, input=f"no. {place}") for place in range(CALLS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = make_target(spec, folder, clock=time.monotonic, environ={}, concurrency=JOBS)
        with Journal(folder / "calls.journal", clock=time.monotonic) as journal:
            started = time.perf_counter()
            outcomes = await run_calls(
                target,
                calls,
                spec.options(concurrency=JOBS),
                journal,
                clock=time.monotonic,
                sleep=asyncio.sleep,
                rng=random.Random(0),
            )
            seconds = time.perf_counter() - started
        await target.close()
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if failed:
        raise SystemExit(f"{len(failed)} calls failed, the first with {failed[0]}")
    return seconds
