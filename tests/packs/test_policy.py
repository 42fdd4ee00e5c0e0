from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.reasons import state_reason

from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.packs.bench_score import compute_bench, compute_bench_delta
from gatemark.packs.margins import choose_regression_modes, find_bound, find_guard, find_margin
from gatemark.packs.pack import Pack
from gatemark.packs.policy import build_policy


def pack(**changes: Any) -> Pack:
    suites = [
        {"id": "a", "kind": "golden", "weight": 0.75, "dataset": "a.jsonl", "min": 0.9},
        {"id": "b", "kind": "replay", "weight": 0.25, "dataset": "b.jsonl", "regression_max": 0.1},
    ]
    document = {
        "gatemark": 1,
        "name": "p",
        "version": 1,
        "asset": {"kind": "prompt", "name": "p"},
        "score_min": 0.8,
        "regression_max": 0.02,
        "required_suites": ["a"],
        "suites": suites,
        "targets": {"candidate": {}, "baseline": "none"},
        **changes,
    }
    return msgspec.convert(document, Pack)


def score(value: float | None, scope: str) -> Measurement:
    if value is None:
        return unmeasured(
            "score", state_reason("crashed"), direction="higher_is_better", scope=scope
        )
    return measured("score", value, n=10, direction="higher_is_better", scope=scope)


def test_bench_is_the_weighted_sum() -> None:
    found = compute_bench(pack(), {"a": score(0.8, "a"), "b": score(0.4, "b")}, "bench")
    assert found.value == pytest.approx(0.75 * 0.8 + 0.25 * 0.4)


def test_one_missing_score_leaves_no_bench_and_no_weight_is_moved() -> None:
    found = compute_bench(pack(), {"a": score(1.0, "a"), "b": score(None, "b")}, "bench")
    assert found.value is None
    assert str(found.reason) == "no score from b: crashed"


def test_the_bench_difference_has_an_interval_only_when_every_suite_knows_its_error() -> None:
    now = measured("bench", 0.9, n=20, direction="higher_is_better")
    before = measured("bench_baseline", 0.8, n=20, direction="higher_is_better")
    known = compute_bench_delta(pack(), now, before, {"a": 0.04, "b": 0.08}, 2.0)
    assert known.value == pytest.approx(0.1)
    assert known.interval is not None
    half = 2 * ((0.75 * 0.04) ** 2 + (0.25 * 0.08) ** 2) ** 0.5
    assert known.interval.high == pytest.approx(0.1 + half)
    assert compute_bench_delta(pack(), now, before, {"a": 0.04, "b": None}, 2.0).interval is None
    apart, shared = pack(), pack()
    suites = (shared.suites[0], msgspec.structs.replace(shared.suites[1], dataset=None, source="a"))
    shared = msgspec.structs.replace(shared, suites=suites)
    sums = [
        compute_bench_delta(one, now, before, {"a": 0.04, "b": 0.08}, 2.0).interval
        for one in (apart, shared)
    ]
    assert sums[1] is not None
    assert sums[1].high == pytest.approx(0.1 + 2 * (0.75 * 0.04 + 0.25 * 0.08))
    gone = unmeasured("bench", state_reason("no score"), direction="higher_is_better")
    assert compute_bench_delta(pack(), gone, before, {"a": None, "b": None}, 2.0).value is None


def test_drops_are_judged_with_their_noise_unless_the_pack_says_otherwise() -> None:
    plain = pack()
    assert choose_regression_modes(plain) == {"a": "non_inferiority", "b": "non_inferiority"}
    by_point = msgspec.structs.replace(plain.suite("a"), regression="point")
    asked = msgspec.structs.replace(plain, suites=(by_point, plain.suite("b")))
    assert choose_regression_modes(asked) == {"a": "point", "b": "non_inferiority"}
    assert (find_margin(plain, plain.suite("a")), find_margin(plain, plain.suite("b"))) == (
        0.02,
        0.1,
    )


def test_the_policy_holds_every_bound_of_the_pack() -> None:
    policy = build_policy(
        pack(),
        modes={"a": "point", "b": "non_inferiority"},
        suite_rules={},
        compared=frozenset({"a", "b"}),
        settings={},
        limit=None,
    )
    bounds = {rule.id: (rule.op, rule.bound, rule.against) for rule in policy.rules}
    assert bounds == {
        "a.errors": ("<=", 0.0, "value"),
        "a.baseline_errors": ("<=", 0.0, "value"),
        "a.floor": (">=", 0.9, "value"),
        "b.errors": ("<=", 0.0, "value"),
        "b.baseline_errors": ("<=", 0.0, "value"),
        "a.regression": ("<=", 0.02, "value"),
        "b.regression": ("<=", 0.1, "interval"),
        "bench.score_min": (">=", 0.8, "value"),
    }
    without = build_policy(
        pack(), modes={}, suite_rules={}, compared=frozenset(), settings={}, limit=None
    )
    asks_for_a_baseline = (".regression", ".baseline_errors")
    assert not any(rule.id.endswith(asks_for_a_baseline) for rule in without.rules)
    assert without.digest != policy.digest


@pytest.mark.parametrize(
    ("changes", "guards"),
    [
        ({}, (0.04, 0.1)),
        ({"guard_max": 0.03}, (0.03, 0.1)),
        ({"regression_max": 0.6}, (1.0, 0.1)),
    ],
)
def test_a_guard_is_the_suites_own_or_the_packs_or_twice_the_margin(
    changes: dict[str, Any], guards: tuple[float, float]
) -> None:
    of = pack(**changes)
    both = frozenset({"a", "b"})
    assert tuple(find_guard(of, of.suite(name)) for name in "ab") == guards
    assert tuple(find_bound(of, of.suite(name), both) for name in "ab") == guards
    assert find_bound(of, of.suite("a"), frozenset()) == of.regression_max


def floor(**suite: Any) -> str:
    of = pack()
    suites = (of.suites[0], msgspec.structs.replace(of.suites[1], min=0.5, **suite))
    policy = build_policy(
        msgspec.structs.replace(of, suites=suites),
        modes={},
        suite_rules={},
        compared=frozenset(),
        settings={},
        limit=None,
    )
    severities = {rule.id: rule.severity for rule in policy.rules}
    assert severities["a.floor"] == "block", "a required suite"
    return severities["b.floor"]


def test_a_floor_of_a_suite_that_is_not_required_warns_unless_the_pack_says_block() -> None:
    assert floor() == "warn"
    assert floor(severity="warn") == "warn"
    assert floor(severity="block") == "block"
