"""Good files for every command that reads one, to be damaged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.mutation import damaged_bytes, damaged_value, spelled
from tests.plugins.overhead.arms import losses, meta
from tests.release.attribution.test_attribute_command import decision
from tests.samples.importers import peer_shapes, table_shapes

from gatemark.evidence.record_schemas import schemas


class Seed(NamedTuple):
    """A command and the file it reads; ``{}`` in an argument is the file, ``@`` the folder."""

    name: str
    arguments: tuple[str, ...]
    document: Any
    file: str = "file.json"
    is_lines: bool = False


PAIRS = [
    {
        "qid": f"Q{n}",
        "scholar": {"label": "VALID", "reason": "ok"},
        "auditor": {"label": "VALID" if n else "REJECT", "reason": "ok"},
    }
    for n in range(4)
]
SAMPLES = [
    {
        "schema": "gatemark.sample/1",
        "id": f"i{n}",
        "epoch": 1,
        "input": "a",
        "target": "b",
        "output": "b",
        "scores": {"exact": 1.0} if n else {},
        "confidence": 0.7,
        "error": None if n else {"kind": "timeout", "message": "late"},
        "latency_ms": 3.5,
        "tags": {"place": "x"},
        "origin": {"tool": "inspect", "version": "1"},
    }
    for n in range(3)
]
PACK: dict[str, Any] = {
    "gatemark": 1,
    "name": "p",
    "version": 1,
    "asset": {"kind": "classifier", "name": "p"},
    "score_min": 0.5,
    "regression_max": 0.05,
    "required_suites": ["golden"],
    "suites": [
        {
            "id": "golden",
            "kind": "golden",
            "weight": 1.0,
            "min": 0.1,
            "dataset": "rows.jsonl",
            "scorer": "exact",
            "sample": {"n": 2, "seed": 7},
        }
    ],
    "targets": {"candidate": {"recorded": "said.jsonl"}, "baseline": {"recorded": "told.jsonl"}},
}
WAIVERS = [
    {"rule": "kappa_min", "owner": "ann", "reason": "known", "expires_at": "2030-01-01T00:00:00Z"}
]
POINTS = [
    {
        "asset": "a",
        "metric": "m",
        "start": "2026-01-01T00:00:00Z",
        "end": "2026-01-02T00:00:00Z",
        "value": 0.5,
        "n": 10,
    }
]
SCHEDULES = {
    "gatemark_schedules": 1,
    "defaults": False,
    "schedules": [
        {"id": "s", "cron": "0 * * * *", "run": ["schema"], "catch_up": "3h", "time_limit": "1m"}
    ],
}
DRIFT = {
    "gatemark_drift": 1,
    "name": "ours",
    "mode": "corrected",
    "watches": [{"metric": "m", "harm": "up", "min_sd": 0.01, "breach": 4}],
    "responses": [{"stage": "enabled", "level": "WARN", "acts": ["alert"]}],
}
RELEASE = {
    "gatemark_release": 1,
    "name": "ours",
    "approvals": {"enabled": 2},
    "gates": {"drift": {"stages": []}},
}
ADVISORY = {
    "gatemark_advisory": 1,
    "name": "ours",
    "lanes": {
        "voice_audio/npu_voice_audio_pipeline": {
            "promotion": {"scope": "a", "approved_by": "b", "rollback_plan": "c", "reviewer": "d"}
        }
    },
}
CASES = {"mode": "list", "cases": ["case-001"], "count": 1, "seed": 7}
ROWS = [{"id": f"i{n}", "input": "a", "target": "b", "tags": {"place": "x"}} for n in range(3)]
LOGS: dict[str, tuple[Any, bool]] = {
    "inspect": (peer_shapes.inspect_log(), False),
    "lm-eval": (peer_shapes.lm_eval_rows()[:3], True),
    "promptfoo": (peer_shapes.promptfoo_log(), False),
    "deepeval": (peer_shapes.deepeval_log(), False),
    "mlflow": (peer_shapes.mlflow_rows()[:3], False),
    "pydantic-evals": (peer_shapes.pydantic_report(), False),
    "openai-evals": (table_shapes.openai_events()[:6], True),
    "helm": (table_shapes.helm_stats(), False),
    "ragas": (table_shapes.ragas_rows()[:3], True),
    "langfuse-dataset": (table_shapes.langfuse_items()[:3], False),
}


def seeds() -> Iterator[Seed]:
    """One seed per command and kind of file."""
    for name in schemas().names():
        for form in schemas().get(name).forms:
            lines = [dict(one) for one in form.good][:2]
            yield Seed(f"validate {name} {form.name}", ("validate", "{}"), lines, is_lines=True)
    for tool, (log, is_lines) in LOGS.items():
        arm = ("--arm", "1") if tool == "promptfoo" else ()
        reading = ("import", "{}", "--from", tool, "-o", "@/out.jsonl", *arm)
        yield Seed(f"import {tool}", reading, log, "log.json", is_lines)
    yield Seed("import auto", ("import", "{}", "-o", "@/out.jsonl"), LOGS["inspect"][0])
    agreement = ("score", "agreement", "--pairs")
    yield Seed("score agreement", (*agreement, "{}"), PAIRS, is_lines=True)
    yield Seed("waivers", (*agreement, "@/pairs.jsonl", "--waivers", "{}"), WAIVERS)
    yield Seed("expected ids", (*agreement, "@/pairs.jsonl", "--expected-ids", "{}"), {"Q0": 1})
    yield Seed("score calibration", ("score", "calibration", "{}"), SAMPLES, is_lines=True)
    votes = [{"item": "i", "reviewer": "r", "choice": "tie", "first": "baseline"}]
    yield Seed("score preference", ("score", "preference", "{}"), votes, is_lines=True)
    arms = ("score", "overhead", "--bare", "@/bare.jsonl", "--guarded")
    windows = [meta("guarded"), *losses([1.0, 1.1, 1.2, 1.3])]
    yield Seed("score overhead", (*arms, "{}"), windows, is_lines=True)
    policy = {"profile": "ci", "overrides": {"budget": 0.01}}
    yield Seed("overhead policy", (*arms, "@/guarded.jsonl", "--policy", "{}"), policy)
    costs = {"schema": "gatemark.overhead-costs/1", "bare": [1.0], "guarded": [1.1]}
    yield Seed("overhead costs", (*arms, "@/guarded.jsonl", "--costs", "{}"), costs)
    yield Seed("overhead verify", ("overhead", "verify", "{}", "--bare", "@/bare.jsonl"), {"a": 1})
    yield Seed("compare", ("compare", "@/said.jsonl", "{}"), SAMPLES, is_lines=True)
    yield Seed("lint", ("lint", "@/file.yaml"), PACK, "file.yaml")
    run = ("run", "@/file.yaml", "--store", "@/store")
    yield Seed("run", run, PACK, "file.yaml")
    told = ("run", "@/pack.yaml", "--store", "@/store")
    yield Seed("run recording", told, SAMPLES, "said.jsonl", is_lines=True)
    yield Seed("run rows", told, ROWS, "rows.jsonl", is_lines=True)
    yield Seed("policy check", ("policy", "check", "{}"), RELEASE)
    yield Seed("drift push", ("drift", "push", "{}", "--store", "@/store"), POINTS, is_lines=True)
    yield Seed("drift policy", ("drift", "policy", "--policy", "{}"), DRIFT)
    listed = ("schedule", "list", "--store", "@/store", "--schedules", "{}")
    yield Seed("schedules", listed, SCHEDULES)
    yield Seed("attribute", ("attribute", "{}", "--store", "@/store"), decision())
    yield Seed("comment", ("comment", "{}"), {"schema": "gatemark.result/1", "id": "a"})
    yield Seed("advisory lint", ("advisory", "lint", "{}"), [{"id": "a"}], is_lines=True)
    advisory = [dict(one) for one in schemas().get("npu_advisory_decision_v1").forms[0].good][:2]
    yield Seed("score advisory", ("score", "advisory", "{}"), advisory, is_lines=True)
    wanted = ("score", "advisory", "@/advisory.jsonl", "--policy", "{}")
    yield Seed("advisory policy", wanted, ADVISORY)
    traces = ("runlog", "traces", "--output", "@/traces", "--manifests", "@/lists", "--dry-run")
    yield Seed("case list", (*traces, "--case-list", "{}"), ["case-001"], is_lines=True)
    yield Seed("case choice", (*traces, "--dataset-config", "{}"), CASES)
    yield Seed("trace settings", (*traces, "--config", "{}"), {"cases": 3, "seed": 7})
    yield Seed("runlog validate", ("runlog", "validate", "{}"), [{"a": 1}], is_lines=True)


def damaged(seed: Seed, draw: random.Random) -> bytes:
    """A damaged file for a command."""
    document = seed.document
    if draw.random() < 0.8:
        document = damaged_value(document, draw)
    if seed.is_lines and isinstance(document, list):
        data = b"".join(spelled(row) + b"\n" for row in document)
    else:
        data = spelled(document)
    return data if document is not seed.document else damaged_bytes(data, draw)


@cache
def _beside() -> dict[str, bytes]:
    advisory = [dict(one) for one in schemas().get("npu_advisory_decision_v1").forms[0].good][:2]
    rows: dict[str, list[Any]] = {
        "pairs.jsonl": PAIRS,
        "said.jsonl": SAMPLES,
        "told.jsonl": SAMPLES,
        "rows.jsonl": ROWS,
        "bare.jsonl": [meta("bare"), *losses([1.0, 1.1, 1.2, 1.3])],
        "guarded.jsonl": [meta("guarded"), *losses([1.0, 1.1, 1.2, 1.3])],
        "advisory.jsonl": advisory,
    }
    files = {name: b"".join(spelled(row) + b"\n" for row in rows[name]) for name in rows}
    return files | {"pack.yaml": spelled(PACK)}


def furnish(folder: Path) -> None:
    """The good files that stand beside a damaged one."""
    for name, data in _beside().items():
        (folder / name).write_bytes(data)
