"""Sealed results of the exams that stand alone, and the evidence that packs read too."""

from __future__ import annotations

import json
from typing import Any, Final

from store_fixture import data
from store_fixture.stage import Stage

LANE: Final = "cron_n8n_event/cron_n8n_advisory"
ADVISORY_POLICY: Final = {
    "gatemark_advisory": 1,
    "name": "night jobs",
    "lanes": {
        LANE: {
            "promotion": {
                "scope": "suggest suppression of duplicate success events",
                "approved_by": "ana",
                "rollback_plan": "turn the lane off in the gateway",
                "reviewer": "cleo",
            },
            "bounds": {"p95_total_ms_max": 1_000_000},
        }
    },
}
KAPPA_WAIVER: Final = """- rule: agreement.kappa
  owner: dai
  reason: rejected rows are held back by hand until the next prompt
  expires_at: 2026-06-01T00:00:00Z
- rule: agreement.pa
  owner: dai
  reason: the same rows
  expires_at: 2026-06-01T00:00:00Z
"""


def seal_exams(on: Stage) -> None:
    """A pass, a fail, an open verdict and an excused one, over every exam that can be sealed."""
    agreement(on)
    advisory(on)
    overhead(on)
    runlog(on)


def agreement(on: Stage) -> None:
    """From merged pairs and from two files, with a third validator, and with waivers."""
    on.lines("evidence/pairs.jsonl", data.pairs(60))
    on.lines("evidence/pairs-before.jsonl", data.pairs(60, disagreeing=1))
    seal(on, "agreement", "agreement pass", 0, "--pairs", "evidence/pairs.jsonl")
    poor = data.pairs(60, disagreeing=24)
    sides = [
        word
        for who in ("scholar", "auditor")
        for word in (f"--{who}", on.lines(f"evidence/{who}.jsonl", data.judgements(poor, who)))
    ]
    seal(on, "agreement", "agreement fail", 1, *sides)
    third = on.lines("evidence/third.jsonl", data.judgements(data.pairs(60), "auditor"))
    waivers = on.write("evidence/waivers.yaml", KAPPA_WAIVER)
    more = ("--validator", f"third={third}", "--waivers", waivers)
    seal(on, "agreement", "agreement waived", 0, *sides, *more)
    ids = on.write("evidence/ids.txt", "".join(f"q{number:03d}\n" for number in range(66)))
    expected = ("--pairs", "evidence/pairs.jsonl", "--expected-ids", ids)
    seal(on, "agreement", "agreement open", 3, *expected)


def advisory(on: Stage) -> None:
    """A lane that keeps its promises, one that does not, and one run too few to judge."""
    policy = on.write("evidence/advisory.yaml", json.dumps(ADVISORY_POLICY))
    good = on.lines("evidence/decisions.jsonl", data.advisory_lane(runs=3))
    seal(on, "advisory", "advisory pass", 0, good, "--policy", policy)
    poor = on.lines("evidence/decisions-poor.jsonl", data.advisory_lane(runs=3, wrong=12))
    seal(on, "advisory", "advisory fail", 1, poor)
    short = on.lines("evidence/decisions-short.jsonl", data.advisory_lane(runs=1))
    seal(on, "advisory", "advisory open", 3, short, "--policy", policy)


def overhead(on: Stage) -> None:
    """Guards within the budget with noise and costs, beyond it, and arms that do not pair."""
    for name, extra, count in (
        ("bare", 0.0, data.WINDOWS),
        ("noise", 1e-6, data.WINDOWS),
        ("guarded", 0.001, data.WINDOWS),
        ("heavy", 0.05, data.WINDOWS),
        ("short", 0.001, data.WINDOWS - 10),
    ):
        arm = "bare" if name in ("bare", "noise") else "guarded"
        on.lines(f"evidence/{name}.jsonl", data.overhead_arm(arm, extra, count))
    on.write("evidence/costs.json", json.dumps(data.overhead_costs()))
    bare = ("--bare", "evidence/bare.jsonl", "--guarded")
    more = ("--noise", "evidence/noise.jsonl", "--costs", "evidence/costs.json")
    report = ("-o", "evidence/report.json")
    seal(on, "overhead", "overhead pass", 0, *bare, "evidence/guarded.jsonl", *more, *report)
    seal(on, "overhead", "overhead fail", 1, *bare, "evidence/heavy.jsonl")
    seal(on, "overhead", "overhead open", 3, *bare, "evidence/short.jsonl")
    looser = ("--budget", 0.3, "--reason", "pilot", "--owner", "dai", "--evidence", "pilot-7")
    seal(on, "overhead", "overhead loosened", 0, *bare, "evidence/heavy.jsonl", *looser)


def runlog(on: Stage, *seal: str) -> None:
    """Measure traces of three small cases, replayed through two variants.

    A run-log result that is sealed on its own cannot be derived again by this build, so that the
    full story leaves ``--seal`` out and brings the rows to a pack.
    """
    config = on.write("evidence/traces.yaml", "{cases: 3, rounds: [1, 2], sentences: [4, 6]}")
    traces = ("--traces", "evidence/traces")
    on.run(
        *("runlog", "traces", "--config", config, "-j", 1),
        *("--output", "evidence/traces", "--manifests", "evidence/manifests"),
    )
    on.run(
        *("runlog", "run", *traces, "--output", "evidence/runs", "-j", 1),
        *("--variant", "V0", "--variant", "V1"),
    )
    (manifest,) = sorted((on.folder / "evidence/manifests").glob("*.manifest.jsonl"))
    on.run(
        *("runlog", "metrics", *traces, "--runs", "evidence/runs", "--out", "evidence/metrics"),
        *("--manifest", manifest.relative_to(on.folder), "-j", 1, "--bootstrap-samples", 200),
        *("--gate", "m6b_mean=0.9", *seal),
        actor="ben",
    )


def seal(on: Stage, exam: str, title: str, code: int, *words: Any) -> None:
    """Score one exam, keep the result in the store and expect one exit code."""
    on.run("score", exam, *words, "--seal", "--title", title, actor="ben", codes=(code,))
