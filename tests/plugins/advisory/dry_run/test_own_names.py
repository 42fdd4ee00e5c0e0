"""Services of the user's own names, and lanes of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .rigs import FIXTURES, GOOD, saying, write_fixtures

Run = Callable[..., Any]
LANE = "invoice_check/our_checker"
POLICY = {
    "gatemark_advisory": 1,
    "lanes": {
        LANE: {
            "labels": {"no_op": ["pay"], "action": ["hold_payment"]},
            "smaller_scope": "all fixtures of the lane",
            "promotion": {
                "scope": "mark invoices for the accountant",
                "approved_by": "the board",
                "rollback_plan": "stop asking it",
                "reviewer": "the accountant",
            },
            "bounds": {"p95_total_ms_max": 60_000},
        }
    },
}
CASES = [
    (("normal", 100, "pay", "none"), 16),
    (("false_alarm", 1_000, "pay", "none"), 10),
    (("action_needed", 9_000, "hold_payment", "high"), 10),
    (("low_confidence", -500, "needs_human", "low"), 4),
]
SERVICE = """
def advise(envelope):
    total = envelope["payload"]["total"]
    if total < 0:
        return {"output": {"label": "needs_human", "severity": "low", "confidence": 0.3}}
    if total > 5000:
        return {"output": {"label": "hold_payment", "severity": "high", "confidence": 0.9}}
    return {"output": {"label": "pay", "severity": "none", "confidence": 0.9}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names() -> set[str]:
    lines = Path("out/decisions.jsonl").read_text().splitlines()
    return {json.loads(line)["service"]["name"] for line in lines}


def ask(gatemark: Run, service: str, *more: str) -> Any:
    return gatemark(
        *("advisory", "run", "--fixtures", "own.jsonl", "--service", service, "--out", "out"),
        *("--json", *more),
    )


def test_a_service_has_the_name_that_the_user_gives(gatemark: Run) -> None:
    write_fixtures(Path("own.jsonl"), FIXTURES)
    target = saying(GOOD).partition("=")[2]
    for service in (f"cron_n8n_event/our_cron={target}", f"all/our_cron={target}"):
        out = ask(gatemark, service, "--runs", "1")
        assert out.code in (0, 1, 3), out.err
        assert names() == {"our_cron"}
        assert list(out.json["lanes"]) == ["cron_n8n_event/our_cron"]
    # Another name is another service: its runs must not pass for those of this one.
    other = ask(gatemark, f"all/other={target}", "--runs", "1")
    assert (other.code, "choose another --out" in other.err) == (2, True)


@pytest.mark.parametrize("name", ["", "a/b", "a b", "1st", "x" * 65])
def test_a_name_that_records_could_not_hold_is_refused(gatemark: Run, name: str) -> None:
    write_fixtures(Path("own.jsonl"), FIXTURES)
    ran = ask(gatemark, saying(GOOD).replace("all=", f"all/{name}="))
    assert (ran.code, "service name" in ran.err) == (2, True)


def test_a_lane_of_ones_own_becomes_a_candidate_by_its_own_policy_and_fixtures(
    gatemark: Run,
) -> None:
    rows = [
        {
            "fixture_id": f"invoice_{number:03d}",
            "input_class": "invoice_check",
            "case": "invoice",
            "kind": kind,
            "privacy_class": "synthetic",
            "payload": {"total": total + number},
            "expected": {"label": label, "severity": severity},
        }
        for number, (kind, total, label, severity) in enumerate(
            case for case, count in CASES for _ in range(count)
        )
    ]
    write_fixtures(Path("own.jsonl"), rows)
    Path("policy.json").write_text(json.dumps(POLICY))
    Path("checker.py").write_text(SERVICE)
    ran = ask(
        gatemark, "invoice_check/our_checker=python:checker:advise", "--policy", "policy.json"
    )
    assert ran.code == 0, ran.json["promotion"]["blockers"] if ran.out else ran.err
    assert ran.json["promotion"]["candidate_lanes"] == [LANE]
