"""What the watched commands work on: the scene of the chaos runs, and what they lack there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.chaos.file_options import names_in
from tests.chaos.file_options import scene as chaos_scene
from tests.chaos.seeds import PACK, SCHEDULES
from tests.release.drift.live import ASSET, Live

from gatemark.workspace import Workspace

LIVE = "live"
"""A second store, where a version is live, the next one is its canary and one is in shadow."""
METRICS = {
    "error_rate": {"n": 200, "count": 2},
    "latency_ms": {"n": 200, "sum": 2e4, "sum_squares": 2.1e6},
}


def write_scene(work: Path, http: str) -> None:
    """Write files and stores; ``http`` is the address of a server that answers anything."""
    chaos_scene(work)
    live = Live(str(work / LIVE), work)
    live.enable()
    live.to_canary("1.1.0")
    live.to_shadow("1.2.0")
    live.workspace.store.close()
    _write_lines(work, live.now.strftime("%Y-%m-%dT%H"))
    documents: dict[str, Any] = {
        "http-pack.yaml": {
            **PACK,
            "targets": {
                **PACK["targets"],
                "candidate": {"http": {"url": f"{http}/answer", "response": "output"}},
            },
        },
        "due.yaml": {
            **SCHEDULES,
            "schedules": [{"id": "s", "cron": "* * * * *", "run": ["schema"], "catch_up": "1h"}],
        },
        "alerts-by-http.yaml": {
            "gatemark_alerts": 1,
            "sinks": [{"kind": "webhook", "name": "hook", "url": f"{http}/alert", "attempts": 1}],
        },
        "promptfoo.yaml": {
            "prompts": ["{{x}}"],
            "providers": ["openai:gpt-5"],
            "tests": [{"vars": {"x": "y"}, "assert": [{"type": "equals", "value": "z"}]}],
        },
        "event.json": {"action": "opened", "pull_request": {"number": 7}},
    }
    for name, document in documents.items():
        (work / name).write_text(json.dumps(document))


def _write_lines(work: Path, hour: str) -> None:
    window = {"start": f"{hour}:15:00Z", "end": f"{hour}:30:00Z", "keys": 200, "metrics": METRICS}
    span = {"start": f"{hour}:20:00Z", "end": f"{hour}:30:00Z"}
    pairs = {"n": 200, "agreed": 191, "errors": {"candidate": 1, "live": 2}}
    vote = {"label": "VALID"}
    rows: dict[str, list[Any]] = {
        "canary.jsonl": [{**window, "arm": arm} for arm in ("canary", "baseline")],
        "shadow.jsonl": [{**span, **pairs}],
        "many-pairs.jsonl": [
            {"qid": f"q{n}", "scholar": vote, "auditor": vote} for n in range(1_000)
        ],
    }
    for name, lines in rows.items():
        # Many pairs are shared out to several processes from 16 MiB on; spaces are read fastest.
        ending = " " * 17_000 + "\n" if name == "many-pairs.jsonl" else "\n"
        (work / name).write_text("".join(json.dumps(line) + ending for line in lines))


def names(work: Path) -> dict[str, str]:
    """What the lines call by a name, once the scene is prepared."""
    workspace = Workspace(store=str(work / ".gatemark"))
    results = {line.title: line.id for line in workspace.existing_results().lines(20)}
    signals = [payload for _, payload in workspace.events.events(kind="drift_signal") if payload]
    workspace.store.close()
    return {
        **names_in(work),
        "PACKED": results["p (classifier), pack p v1"],
        "ADVISED": results["advisory exam"],
        "EPISODE": next(
            str(one["episode"]) for one in signals if one["asset"] == ASSET and one["episode"]
        ),
    }
