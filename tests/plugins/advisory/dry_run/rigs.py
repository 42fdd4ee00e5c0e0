"""What several tests of the dry run need: a few fixtures, services of one line, a fixed clock."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from gatemark.plugins.advisory.dry_run.ask import AdvisoryChoices, DryRun, ask_services
from gatemark.plugins.advisory.gateway.server import Gateway
from gatemark.plugins.advisory.record_rules import CONTRADICTIONS
from gatemark.workspace import Workspace

MARKER = "the lighthouse keeper counted seventeen herons before breakfast"
FIXTURES = [
    {
        "fixture_id": f"own_{number:03d}",
        "input_class": "cron_n8n_event",
        "case": "own",
        "kind": "normal",
        "privacy_class": "synthetic",
        "payload": {"status": "success", "message": MARKER, "repeat_count": number},
        "expected": {"label": "suppress", "severity": "info"},
    }
    for number in (1, 2, 3)
]
GOOD = {"label": "suppress", "severity": "info", "confidence": 0.9, "inference_ran": True}
ON_CPU = {**GOOD, "device": "CPU", "fallback": {"kind": "cpu", "reason": "npu_absent"}}


def write_fixtures(place: Path, rows: list[dict[str, Any]]) -> Path:
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


@contextlib.contextmanager
def serving(gateway: Gateway) -> Iterator[str]:
    thread = threading.Thread(target=gateway.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield gateway.address
    finally:
        gateway.finish()
        thread.join()


def service(body: str) -> str:
    """A Python service of one function body, in the current folder."""
    Path("service.py").write_text(f"import json, time\ndef advise(envelope):\n    {body}\n")
    return "all=python:service:advise"


def saying(reply: Any) -> str:
    return service(f"return {{'output': json.loads({json.dumps(json.dumps(reply))})}}")


def ticking() -> Callable[[], datetime]:
    seconds = itertools.count()
    return lambda: datetime(2026, 6, 6, tzinfo=UTC) + timedelta(seconds=next(seconds))


def counted() -> Callable[[int], bytes]:
    """Random bytes that are none: every call gives the next number."""
    numbers = itertools.count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def run(fixtures: Path | str, *services: str, **choices: Any) -> tuple[DryRun, ...]:
    runs = ask_services(
        Workspace(clock=ticking()),
        AdvisoryChoices(
            services=services,
            fixtures=str(fixtures),
            **{"busy_counter": "no-counter", "timeout_s": 5.0, "runs": 1, **choices},
        ),
        random_bytes=counted(),
    ).runs
    for dry_run in runs:
        for record in dry_run.decisions:
            assert not CONTRADICTIONS.find_problems(record)
            assert "heron" not in msgspec.json.encode(record).decode()
    return runs
