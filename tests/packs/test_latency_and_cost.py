"""Latency, tokens and money of a run, and the rules on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.packs.test_verdict_laws import NOW, opened

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Measurement
from gatemark.packs.answers import Answer
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.judge import PackDecision, judge_run
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.run import AnsweredRun, Run
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.targets.token_counts import count_tokens

Call = Callable[..., Any]
SIZE = 40


def answers(count: int = SIZE, **told: Any) -> tuple[Answer, ...]:
    """Right answers; a value that is a list is told item by item."""
    return tuple(
        Answer(
            f"i{n:03d}",
            1,
            "x",
            1.0,
            None,
            **{key: value[n] if isinstance(value, list) else value for key, value in told.items()},
        )
        for n in range(count)
    )


def decided(
    pack: OpenPack, candidate: tuple[Answer, ...], baseline: tuple[Answer, ...] | None = None
) -> PackDecision:
    before = answers() if baseline is None else baseline
    arms = {"candidate": ArmAnswers({"a": candidate}), "baseline": ArmAnswers({"a": before})}
    return judge_run(AnsweredRun(Run(pack, NOW), arms), now=NOW)


def number(decision: PackDecision, name: str, scope: str | None) -> Measurement:
    return next(one for one in decision.measurements if one.key == (name, scope))


def verdict_of(decision: PackDecision, rule: str) -> str:
    return next(one.verdict for one in decision.verdict.findings if one.rule == rule)


def wide(**changes: Any) -> OpenPack:
    """A pack that equal answers pass."""
    return opened({"a": SIZE}, margin=0.2, **changes)


def test_percentiles_are_latencies_that_were_observed() -> None:
    spans = [float((7 * n) % SIZE + 1) for n in range(SIZE)]
    found = decided(wide(), answers(latency_ms=spans), answers(latency_ms=2.0))
    for percent in (50, 95):
        expected = float(np.quantile(spans, percent / 100, method="inverted_cdf"))
        for scope in ("a", None):
            one = number(found, f"latency_p{percent}", scope)
            assert (one.value, one.unit, one.n) == (expected, "ms", SIZE)
    assert number(found, "baseline_latency_p95", "a").value == 2.0


def test_tokens_and_money_are_summed_and_averaged_over_the_answers() -> None:
    found = decided(wide(), answers(tokens=30, cost=0.1), answers(tokens=[10, 50] * 20, cost=0.0))
    assert number(found, "tokens_total", "a").value == 1200
    assert number(found, "tokens_per_item", None).value == 30
    assert number(found, "money_total", None).value == pytest.approx(4.0, abs=1e-12)
    assert number(found, "money_per_item", "a").value == pytest.approx(0.1, abs=1e-12)
    assert number(found, "baseline_tokens_per_item", "a").value == 30
    assert number(found, "baseline_money_total", None).value == 0
    tables = [figure for figure in found.figures if figure.title == "Latency and cost"]
    assert [row[:2] for row in tables[0].rows] == [
        ("a", "candidate"),
        ("a", "baseline"),
        ("all suites", "candidate"),
        ("all suites", "baseline"),
    ]


def test_what_nobody_told_and_no_rule_asks_for_is_not_listed() -> None:
    found = decided(wide(), answers(), answers())
    assert not [one for one in found.measurements if "latency" in one.name or "money" in one.name]
    assert not [figure for figure in found.figures if figure.title == "Latency and cost"]


RULES = [
    ("latency", "p50_ms_max", 100.0, "latency_p50", {"latency_ms": 100.0}, {"latency_ms": 100.5}),
    (
        "latency",
        "p95_ms_max",
        800.0,
        "latency_p95",
        # Two of 40 answers may be slower; the third may not.
        {"latency_ms": [800.0] * 38 + [9e9] * 2},
        {"latency_ms": [800.0] * 37 + [900.0] * 3},
    ),
    ("cost", "tokens_per_item_max", 20.0, "tokens_per_item", {"tokens": 20}, {"tokens": 21}),
    ("cost", "tokens_max", 800.0, "tokens_total", {"tokens": 20}, {"tokens": [20] * 39 + [21]}),
    ("cost", "money_per_item_max", 0.1, "money_per_item", {"cost": 0.1}, {"cost": 0.11}),
    ("cost", "money_max", 4.0, "money_total", {"cost": 0.1}, {"cost": [0.1] * 39 + [0.2]}),
]


@pytest.mark.parametrize("where", ["suite", "pack"])
@pytest.mark.parametrize(("part", "key", "bound", "metric", "within", "beyond"), RULES)
def test_each_bound_on_both_sides_and_where_it_cannot_be_judged(
    *,
    where: str,
    part: str,
    key: str,
    bound: float,
    metric: str,
    within: dict[str, Any],
    beyond: dict[str, Any],
) -> None:
    rule = {part: {key: bound}}
    pack = wide(per_suite=rule) if where == "suite" else wide(**rule)
    name = f"{'a' if where == 'suite' else 'bench'}.{metric}"
    held = decided(pack, answers(**within))
    assert (verdict_of(held, name), held.verdict.outcome) == ("pass", "pass")
    failed = decided(pack, answers(**beyond))
    assert (verdict_of(failed, name), failed.verdict.outcome) == ("fail", "fail")
    # One answer that does not tell is not one that took nothing, nor can it be left out.
    for told in (within, beyond):
        unknown = {
            what: [None, *(value if isinstance(value, list) else [value] * SIZE)[1:]]
            for what, value in told.items()
        }
        left_open = decided(pack, answers(**unknown))
        assert (verdict_of(left_open, name), left_open.verdict.outcome) == (
            "inconclusive",
            "inconclusive",
        )
        (found,) = [one for one in left_open.verdict.findings if one.rule == name]
        assert "1 of 40 answers state no" in str(found.reason)
    assert decided(pack, answers()).verdict.outcome == "inconclusive"


def test_the_bound_is_on_the_candidate_and_not_on_the_baseline() -> None:
    pack = wide(per_suite={"latency": {"p95_ms_max": 5.0}})
    assert decided(pack, answers(latency_ms=5.0), answers(latency_ms=9.0)).verdict.outcome == "pass"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, None),
        ({}, None),
        ({"total_tokens": 12}, 12),
        ({"prompt_tokens": 5, "completion_tokens": 7}, 12),
        ({"input_tokens": 5, "output_tokens": 7.0}, 12),
        ({"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 100}, 112),
        ({"prompt_tokens": 5}, None),
        ({"prompt_tokens": 5, "completion_tokens": -1}, None),
        ({"total_tokens": True}, None),
        ({"total_tokens": "12"}, None),
        ({"total_tokens": 1e300}, None),
        ({"total_tokens": 1.5}, None),
        ({"prompt_tokens": 2**53 - 1, "completion_tokens": 1}, None),
    ],
)
def test_tokens_of_a_usage(usage: dict[str, Any] | None, tokens: int | None) -> None:
    assert count_tokens(usage) == tokens


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"per_suite": {"latency": {}}}, "name at least one bound: p50_ms_max, p95_ms_max"),
        ({"cost": {}}, "name at least one bound"),
        ({"latency": {"p95_ms_max": -1}}, "p95_ms_max"),
        ({"latency": {"p99_ms_max": 1}}, "p99_ms_max"),
    ],
)
def test_bounds_that_say_nothing_or_cannot_be_are_refused(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises((InvalidValueError, msgspec.ValidationError), match=told):
        wide(**changes)


def test_a_suite_that_asks_nobody_takes_no_bounds() -> None:
    again = {"id": "b", "kind": "calibration", "weight": 0.5, "from": "a"}
    with pytest.raises(msgspec.ValidationError, match="need a dataset"):
        msgspec.convert({**again, "latency": {"p50_ms_max": 1}}, SuiteSpec)


APP = """
def priced(text):
    return {"output": text, "cost": 0.25, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}

def forgetful(text):
    return {"output": text} if text == "t3" else priced(text)
"""
PACK = """\
gatemark: 1
name: priced
version: 1
asset: {{kind: prompt, name: priced}}
score_min: 0.5
regression_max: 0.3
cost: {{money_max: {money}}}
suites:
  - id: golden
    kind: golden
    weight: 1.0
    dataset: golden.jsonl
    cost: {{tokens_per_item_max: 7}}
targets:
  candidate: {{python: "app:{target}"}}
  baseline: {{python: "app:priced"}}
"""


@pytest.mark.parametrize(
    ("target", "money", "code"),
    [("priced", 5.0, 0), ("priced", 4.99, 1), ("forgetful", 5.0, 3), ("forgetful", 0.0, 3)],
)
def test_a_run_keeps_what_answers_cost_and_derives_it_again(
    gatemark: Call, tmp_path: Path, target: str, money: float, code: int
) -> None:
    (tmp_path / "app.py").write_text(APP)
    rows = [{"id": f"r{n}", "input": f"t{n}", "target": f"t{n}"} for n in range(20)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path, store = tmp_path / "pack.yaml", tmp_path / "store"
    path.write_text(PACK.format(target=target, money=money))
    ran = gatemark("run", path, "--store", store, "--json")
    assert ran.code == code
    found = {(one["name"], one["scope"]): one["value"] for one in ran.json["measurements"]}
    assert found["tokens_per_item", "golden"] == (7 if target == "priced" else None)
    assert found["baseline_money_total", None] == 5.0
    assert found["latency_p95", "golden"] >= found["latency_p50", "golden"] > 0
    assert ran.json["cost"]["money"] == (10.0 if target == "priced" else None)
    # Judged again, nothing is paid, and what was recorded counts as it was.
    again = gatemark("gate", ran.json["id"], "--pack", path, "--store", store, "--json")
    assert (again.code, again.json["id"]) == (code, ran.json["id"])
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0
