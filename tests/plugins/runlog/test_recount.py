"""Metrics of invented logs, counted a second time with nothing but loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.evidence.measures import measures
from gatemark.plugins.runlog.exam import RunlogExam
from gatemark.plugins.runlog.options import RunlogOptions
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.metrics_rules import NUMBERS

from .toys import WordTrace, decision, event, flush, letters, log, measure, usage

WORDS = st.lists(st.sampled_from(["A", "B", "C", "D", "x", "y"]), max_size=6).map(" ".join)
LATENCY = st.one_of(st.none(), st.integers(0, 900))


@st.composite
def cases(draw: st.DrawFn, name: str = "case-1") -> tuple[str, list[dict[str, Any]], Any]:
    """The text of a trace, what its summaries are, and their log."""
    words = draw(WORDS)
    last = max(0, len(words.split()) - 1)
    plans: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, last))
        latest = draw(st.one_of(st.none(), st.integers(0, index - 1))) if index else None
        plans.append(
            {
                "text": draw(WORDS),
                "window": (start, draw(st.integers(start, last))),
                "ok": draw(st.booleans()),
                "latest": latest,
                "size": draw(st.sampled_from([0, 1, 249, 250, 251, 500, 1500])),
                "latency": draw(LATENCY),
            }
        )
    looks = draw(st.lists(st.tuples(st.sampled_from(["summarize", "buffer"]), LATENCY), max_size=3))
    records: list[Any] = [
        event(
            index,
            plan["text"],
            plan["window"],
            ok=plan["ok"],
            latest=None if plan["latest"] is None else f"case-1-V0-se-{plan['latest']:03d}",
            summary_ctu=plan["size"],
            llm_usage=usage(10 + index, index),
            **({} if plan["latency"] is None else {"latency_ms": plan["latency"]}),
        )
        for index, plan in enumerate(plans)
    ]
    for index, (word, latency) in enumerate(looks):
        more = {} if latency is None else {"latency_ms": latency}
        records.append(decision(index, word, input_ctu=7, llm_usage=usage(3, 2), **more))
    records.append(flush(0, "2025-12-21T10:00:00Z"))
    return words, plans, log(*records, case=name)


def average(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def share_missing(said: frozenset[str], support: frozenset[str]) -> float:
    return sum(one not in support for one in said) / len(said) if said else 0.0


def recounted(words: str, plans: list[dict[str, Any]]) -> dict[str, Any]:
    trace = WordTrace(tuple(words.split()))
    known = letters(words)
    said = [letters(plan["text"]) if plan["ok"] else frozenset() for plan in plans]
    everything = {one for concepts in said for one in concepts}
    alone, helped, per_summary = [], [], []
    for plan, concepts in zip(plans, said, strict=True):
        if not plan["ok"]:
            continue
        window = trace.window(*plan["window"])
        more = "" if plan["latest"] is None else " " + plans[plan["latest"]]["text"]
        alone.append(share_missing(concepts, letters(window)))
        helped.append(share_missing(concepts, letters(window + more)))
        if concepts:
            per_summary.append(share_missing(concepts, known))
    alike = []
    for at in range(1, len(said)):
        before, after = said[at - 1], said[at]
        both = [one for one in before if one in after]
        alike.append(len(both) / len({*before, *after}) if before or after else 0.0)
    within = {}
    for budget in (250, 500, 1000, 2000):
        fitting = 0
        while fitting < len(plans) and sum(p["size"] for p in plans[: fitting + 1]) <= budget:
            fitting += 1
        covered = {one for concepts in said[:fitting] for one in concepts if one in known}
        within[f"ctu_{budget}"] = len(covered) / len(known) if known else 0.0
    return {
        "m1_update_count": len(plans),
        "m2_output_ctu": sum(plan["size"] for plan in plans),
        "m3_redundancy_jaccard_mean": average(alike),
        "m4_trace_coverage": len(everything & known) / len(known) if known else 0.0,
        "m5_unsupported_global_rate": share_missing(frozenset(everything), known),
        "m5_unsupported_per_summary_mean": average(per_summary),
        "m6a_mean": average(alone),
        "m6b_mean": average(helped),
        "m8_summary_latency_ms_mean": average(
            [plan["latency"] for plan in plans if plan["latency"] is not None]
        ),
        "m10_schema_failure_count": sum(not plan["ok"] for plan in plans),
        "within": within,
        "alike": alike,
    }


def check(found: PerCaseMetrics, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        if name.startswith("m"):
            assert getattr(found, name) == (None if value is None else pytest.approx(value)), name
    for name, value in expected["within"].items():
        assert getattr(found.m7b_coverage_by_budget, name) == pytest.approx(value)
    for name, least in (("tau_85", 0.85), ("tau_90", 0.9), ("tau_95", 0.95)):
        above = [value >= least for value in expected["alike"]]
        rate = average([float(one) for one in above])
        assert getattr(found.m3_redundancy_threshold_rates, name) == rate


@given(case=cases())
@settings(deadline=None, max_examples=80)
def test_every_metric_of_a_case_is_what_a_second_count_finds(case: Any) -> None:
    words, plans, made = case
    found = measure(made, words)
    check(found, recounted(words, plans))
    assert list(NUMBERS.find_problems(found)) == []


@given(drawn=st.lists(cases(), min_size=1, max_size=5))
@settings(deadline=None, max_examples=15)
def test_every_mean_and_interval_is_what_a_second_count_finds(drawn: list[Any]) -> None:
    rows, counted = [], []
    for at, (words, plans, made) in enumerate(drawn):
        named = log(*made.flushes, *made.decisions, *made.events, case=f"case-{at}")
        rows.append(measure(named, words))
        counted.append(recounted(words, plans))
    built = RunlogExam(RunlogOptions(bootstrap_samples=40, seed=7), measures())
    found = built.finish(built.step(built.zero(0), rows)).facts["aggregate"]["V0"]
    for key, name in (("m4_trace_coverage", "m4_trace_coverage"), ("m6b", "m6b_mean")):
        values = [one[name] for one in counted if one[name] is not None]
        if not values:
            assert found[key]["mean"] is None
            continue
        # The published way: one legacy generator per metric, one draw per resample.
        state = np.random.RandomState(7)
        means = [state.choice(values, len(values), replace=True).mean() for _ in range(40)]
        assert found[key]["mean"] == pytest.approx(average(values))
        assert found[key]["ci_low"] == pytest.approx(np.percentile(means, 2.5), abs=1e-12)
        assert found[key]["ci_high"] == pytest.approx(np.percentile(means, 97.5), abs=1e-12)
    pooled = [value for one in counted for value in one["alike"]]
    assert found["m3_redundancy"]["jaccard_mean"] == (
        None if not pooled else pytest.approx(average(pooled))
    )
    events = sum(one["m1_update_count"] for one in counted)
    failures = sum(one["m10_schema_failure_count"] for one in counted)
    assert found["m10_compliance"]["schema_failure_rate_mean"] == (
        failures / events if events else None
    )
