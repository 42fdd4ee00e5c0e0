"""``gatemark score overhead`` as scripts use it."""

from __future__ import annotations

import gzip
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.overhead.document import OverheadReport
from gatemark.plugins.overhead.examine import examine_overhead

from .arms import accuracy_pair, count_arm, counts, loss_arm, losses, meta, ppl_pair, write

Run = Callable[..., Any]


@pytest.fixture
def score(gatemark: Run) -> Run:
    def run(*arguments: object) -> Any:
        return gatemark("score", "overhead", "--json", *arguments)

    return run


def noisy(n: int = 60, shift: float = 0.004, spread: float = 0.01, seed: int = 1) -> Any:
    draw = np.random.default_rng(seed)
    bare = draw.gamma(40, 0.06, n)
    return bare.tolist(), (bare + draw.normal(shift, spread, n)).tolist()


def pair(folder: Path, bare: list[float], guarded: list[float]) -> list[Any]:
    return [
        *("--bare", loss_arm(folder / "bare.jsonl", "bare", bare)),
        *("--guarded", loss_arm(folder / "guarded.jsonl", "guarded", guarded)),
    ]


# What the issue accepts it by.


def test_an_accuracy_that_halves_fails(score: Run, tmp_path: Path) -> None:
    ran = score(*accuracy_pair(tmp_path, [(9, 10)] * 20, [(4, 10), (5, 10)] * 10))
    found = ran.json["guard_overhead"]
    assert (ran.code, ran.json["verdict"], found["passed"]) == (1, "fail", False)
    assert (found["bare_accuracy"], found["guarded_accuracy"]) == pytest.approx((0.9, 0.45))
    assert found["delta_pp"] == pytest.approx(-45)
    assert (found["basis"], found["overhead_ratio"], found["bare_ppl"]) == ("delta_pp", None, None)


def test_an_accuracy_that_rises_passes(score: Run, tmp_path: Path) -> None:
    arms = accuracy_pair(tmp_path, [(80, 100)] * 200, [(82, 100)] * 200)
    ran = score(*arms, "--budget", "0.01")
    assert (ran.code, ran.json["verdict"]) == (0, "pass")
    assert ran.json["guard_overhead"]["delta_pp"] == pytest.approx(2)
    assert ran.json["validation"] == {"guard_overhead_acceptable": True}


@pytest.mark.parametrize(("lost", "code"), [(1, 0), (2, 1)])
def test_one_point_of_accuracy_is_the_line(
    score: Run, tmp_path: Path, lost: int, code: int
) -> None:
    ran = score(*accuracy_pair(tmp_path, [(90, 100)] * 200, [(90 - lost, 100)] * 200))
    assert ran.code == code


def test_an_exact_percent_is_within_a_budget_of_one_percent(score: Run, tmp_path: Path) -> None:
    ran = score(*ppl_pair(tmp_path, 8.7, 8.787))
    found = ran.json["guard_overhead"]
    assert (ran.code, found["passed"], found["evaluated"]) == (0, True, True)
    assert (found["bare_ppl"], found["guarded_ppl"]) == pytest.approx((8.7, 8.787))
    assert found["overhead_percent"] == pytest.approx(1, abs=1e-9)
    assert found["tolerance"] == 1e-12


def test_no_decimal_exact_percent_is_lost_to_binary_numbers(tmp_path: Path) -> None:
    from gatemark.plugins.overhead.settings import PROFILES

    line = PROFILES["release"].budget + PROFILES["release"].tolerance
    bases = np.arange(1, 2_000) / 10
    overheads = np.expm1(np.log(np.round(bases * 1.01, 10)) - np.log(bases))
    assert bool(np.all(overheads <= line))
    assert not np.all(overheads <= PROFILES["release"].budget)


def test_two_percent_fail_a_budget_of_one(score: Run, tmp_path: Path) -> None:
    ran = score(*ppl_pair(tmp_path, 10, 10.2))
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert ran.json["guard_overhead"]["overhead_ratio"] == pytest.approx(1.02)
    assert ran.json["blockers"][0].startswith("the guards cost 2 %, the budget is 1 % (n=200)")


def test_a_missing_arm_is_inconclusive(score: Run, tmp_path: Path) -> None:
    bare = loss_arm(tmp_path / "bare.jsonl", "bare", [2.0] * 4)
    for arguments in (
        ["--bare", bare],
        ["--guarded", tmp_path / "gone.jsonl", "--bare", bare],
        ["--guarded", write(tmp_path / "empty.jsonl", []), "--bare", bare],
    ):
        ran = score(*arguments)
        assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
        assert [e["check"] for e in ran.json["guard_overhead"]["errors"]] == ["arm.missing"]
        assert ran.json["guard_overhead"]["evaluated"] is False
        assert ran.json["validation"]["guard_overhead_acceptable"] is False


def test_no_arm_at_all_is_a_mistake(score: Run) -> None:
    ran = score()
    assert (ran.code, ran.out) == (2, "")
    assert "give --bare and --guarded" in ran.err


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "null", "-1e-9", "-1.5", "1e999", '"2.0"', "true"]
)
def test_a_window_without_a_usable_loss_is_inconclusive_and_named(
    score: Run, tmp_path: Path, number: str
) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    text = arms[3].read_text().splitlines()
    text[5] = text[5].replace(str(math.log(10)), number)
    ran = score(*arms[:2], "--guarded", write(tmp_path / "g.jsonl", list(text)))
    (error,) = ran.json["guard_overhead"]["errors"]
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert (error["check"], error["window_ids"]) == ("arm.unusable_window", ["w4"])
    assert "g.jsonl:6" in error["message"]


def test_other_content_is_inconclusive_with_the_ids(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10, windows=12)
    rows = losses([2.0] * 12)
    rows[3]["content_hash"], rows[7]["content_hash"] = "other", "another"
    other = write(tmp_path / "o.jsonl", [meta("guarded", windows=12), *rows])
    ran = score(*arms[:2], "--guarded", other)
    (error,) = ran.json["guard_overhead"]["errors"]
    assert (ran.code, error["check"]) == (3, "pair.content")
    assert (error["window_ids"], error["count"]) == (["w3", "w7"], 2)
    assert ran.json["guard_overhead"]["bare_ppl"] is None


# Bad input.


def test_swapped_arms_are_noticed(score: Run, tmp_path: Path) -> None:
    _, bare, _, guarded = ppl_pair(tmp_path, 10.2, 10)
    ran = score("--bare", guarded, "--guarded", bare)
    assert ran.code == 3
    assert [e["check"] for e in ran.json["guard_overhead"]["errors"]] == ["arm.role", "arm.role"]


def test_an_arm_cut_between_lines_is_noticed(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10, windows=12)
    lines = arms[3].read_text().splitlines(keepends=True)
    arms[3].write_text("".join(lines[:-3]))
    ran = score(*arms)
    checks = [e["check"] for e in ran.json["guard_overhead"]["errors"]]
    assert (ran.code, checks) == (3, ["arm.window_count", "pair.windows"])
    assert "holds 9 windows, its plan has 12" in ran.json["guard_overhead"]["errors"][0]["message"]


def test_an_arm_cut_inside_a_line_is_noticed(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    arms[3].write_text(arms[3].read_text()[:-30])
    ran = score(*arms)
    errors = ran.json["guard_overhead"]["errors"]
    assert (ran.code, errors[0]["check"], errors[0]["window_ids"]) == (
        *(3, "arm.unusable_window", []),
    )
    assert "unreadable id (" in errors[0]["message"]


def test_both_arms_cut_alike_are_still_noticed(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    for path in (arms[1], arms[3]):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))
    ran = score(*arms)
    checks = {e["check"] for e in ran.json["guard_overhead"]["errors"]}
    assert (ran.code, checks) == (3, {"arm.window_count"})


def test_a_packed_arm_that_breaks_off_is_inconclusive(score: Run, tmp_path: Path) -> None:
    bare, guarded = noisy(2_000)
    arms = pair(tmp_path, bare, guarded)
    packed = gzip.compress(arms[3].read_bytes())
    (tmp_path / "g.gz").write_bytes(packed[: len(packed) // 2])
    ran = score(*arms[:2], "--guarded", tmp_path / "g.gz")
    assert ran.code == 3
    assert "arm.damaged" in [e["check"] for e in ran.json["guard_overhead"]["errors"]]
    (tmp_path / "whole.gz").write_bytes(packed)
    assert score(*arms[:2], "--guarded", tmp_path / "whole.gz").code == 0


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"snapshot_hash": "sha256:bb"}, "pair.snapshot"),
        ({"device": "cuda:0"}, "pair.device"),
        ({"plan": {"seq_len": 8, "stride": 4, "windows": 12}}, "pair.plan"),
        (
            {"seeds": {"python": 8, "numpy": 7, "torch": None, "bootstrap": 7}},
            "pair.seeds",
        ),
        ({"metric_kind": "ppl_mlm"}, "pair.kind"),
    ],
)
def test_arms_made_differently_are_inconclusive(
    score: Run, tmp_path: Path, change: dict[str, Any], check: str
) -> None:
    arms = ppl_pair(tmp_path, 10, 10, windows=12)
    other = write(
        tmp_path / "o.jsonl", [meta("guarded", windows=12) | change, *losses([math.log(10)] * 12)]
    )
    ran = score(*arms[:2], "--guarded", other)
    assert (ran.code, ran.json["guard_overhead"]["errors"][0]["check"]) == (3, check)


def test_perplexity_beside_accuracy_is_inconclusive(score: Run, tmp_path: Path) -> None:
    ran = score(
        *("--bare", loss_arm(tmp_path / "b.jsonl", "bare", [2.0, 2.0])),
        *("--guarded", count_arm(tmp_path / "g.jsonl", "guarded", [(9, 10), (9, 10)])),
    )
    assert ran.code == 3
    assert ran.json["guard_overhead"]["errors"][0]["check"] == "pair.kind"
    kinds = [ran.json["meta"][arm]["metric_kind"] for arm in ("bare", "guarded")]
    assert kinds == ["ppl_causal", "accuracy"]


def test_a_total_of_zero_is_inconclusive(score: Run, tmp_path: Path) -> None:
    arms = accuracy_pair(tmp_path, [(9, 10)] * 3, [(9, 10)] * 3)
    head = meta("guarded", windows=3, metric_kind="accuracy")
    bad = write(tmp_path / "bad.jsonl", [head, *counts([(9, 10), (0, 0), (9, 10)])])
    ran = score(*arms[:2], "--guarded", bad)
    (error,) = ran.json["guard_overhead"]["errors"]
    assert (ran.code, error["check"], error["window_ids"]) == (3, "arm.unusable_window", ["w1"])


def test_a_loss_of_zero_is_a_number_and_minus_zero_is_zero(score: Run, tmp_path: Path) -> None:
    arms = pair(tmp_path, [0.0, -0.0] * 100, [0.0] * 199 + [1.0])
    found = score(*arms)
    overhead = found.json["guard_overhead"]
    assert (found.code, overhead["errors"], overhead["bare_ppl"]) == (0, [], 1.0)
    assert overhead["overhead"] == pytest.approx(math.expm1(1 / 200))
    assert "-0.0" not in found.out
    harmed = score(*pair(tmp_path, [0.0] * 200, [2.0] * 200))
    assert (harmed.code, harmed.json["guard_overhead"]["passed"]) == (1, False)


def test_zero_and_minus_zero_in_both_arms_are_no_change(score: Run, tmp_path: Path) -> None:
    found = score(*pair(tmp_path, [0.0] * 200, [-0.0] * 200))
    assert (found.code, found.json["guard_overhead"]["checks"]["overhead.acts"]) == (3, "fail")
    assert "-0.0" not in found.out


def test_thin_evidence_holds_what_would_pass_and_fails_what_would_not(
    score: Run, tmp_path: Path
) -> None:
    one = score(*ppl_pair(tmp_path, 10, 10.01, windows=1))
    checks = one.json["guard_overhead"]["checks"]
    assert (one.code, one.json["guard_overhead"]["passed"]) == (3, False)
    assert (checks["overhead.windows"], checks["overhead.tokens"]) == ("fail", "fail")
    assert checks["overhead.quality"] == "pass"
    assert score(*ppl_pair(tmp_path, 10, 10.01, windows=199)).code == 3
    assert score(*ppl_pair(tmp_path, 10, 10.01, windows=200)).code == 0
    assert score(*ppl_pair(tmp_path, 10, 12, windows=1)).code == 1
    short = [
        write(
            tmp_path / f"{arm}.jsonl", [meta(arm, windows=200), *losses([loss] * 200, [49] * 200)]
        )
        for arm, loss in (("bare", 2.0), ("guarded", 2.001))
    ]
    ran = score("--bare", short[0], "--guarded", short[1])
    assert (ran.code, ran.json["guard_overhead"]["checks"]["overhead.tokens"]) == (3, "fail")
    assert any(
        "10,000 tokens are needed, 9,800 were measured" in why for why in ran.json["blockers"]
    )


def test_accuracy_needs_windows_and_no_tokens(score: Run, tmp_path: Path) -> None:
    assert score(*accuracy_pair(tmp_path, [(9, 10)] * 199, [(10, 10)] * 199)).code == 3
    assert score(*accuracy_pair(tmp_path, [(9, 10)] * 200, [(10, 10)] * 200)).code == 0


def test_fewer_windows_need_a_justified_override(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.01, windows=120)
    policy = tmp_path / "policy.yaml"
    policy.write_text("overrides: [{field: min_windows, value: 100}]\n")
    refused = score(*arms, "--policy", policy)
    assert (refused.code, refused.out) == (2, "")
    assert "min_windows 100 loosens profile release (200)" in refused.err
    why = "reason: small corpus, owner: ada, evidence: runs/7"
    policy.write_text(f"overrides: [{{field: min_windows, value: 100, {why}}}]\n")
    assert score(*arms, "--policy", policy).code == 0


@pytest.mark.parametrize("loss", [800.0, 1e307, 1e308])
def test_a_loss_without_a_perplexity_is_an_error_with_a_name(
    score: Run, tmp_path: Path, loss: float
) -> None:
    ran = score(*pair(tmp_path, [2.0] * 9, [loss] * 9))
    (error,) = ran.json["guard_overhead"]["errors"]
    assert (ran.code, ran.json["verdict"], ran.err) == (3, "inconclusive", "")
    assert (error["check"], ran.json["guard_overhead"]["evaluated"]) == ("value.range", False)
    assert "mean loss must be <= 700 nats" in error["message"]


def test_a_window_that_breaks_altogether_fails(score: Run, tmp_path: Path) -> None:
    for mode in ("point", "interval"):
        ran = score(*pair(tmp_path, [2.0] * 9, [2.0] * 8 + [5000.0]), "--mode", mode)
        assert ran.code == (1 if mode == "point" else 3)
        assert ran.json["guard_overhead"]["overhead_ratio"] > 1e200


def test_a_guarded_arm_without_guards_is_inconclusive(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    same = [math.log(10.01)] * 200
    for guards, code in (([], 3), (["clip"], 0)):
        other = loss_arm(tmp_path / "o.jsonl", "guarded", same, guards=guards)
        ran = score(*arms[:2], "--guarded", other)
        assert ran.code == code
    empty = score(*arms[:2], "--guarded", loss_arm(other, "guarded", same, guards=[]))
    (error,) = empty.json["guard_overhead"]["errors"]
    assert (error["check"], "its list is empty" in error["message"]) == ("arm.guards", True)


def test_tokens_beside_answers_are_compared_too(score: Run, tmp_path: Path) -> None:
    rows = counts([(8, 10)] * 3)
    arms = [
        write(
            tmp_path / f"{arm}.jsonl",
            [
                meta(arm, windows=3, metric_kind="accuracy"),
                *(row | {"tokens": tokens} for row, tokens in zip(rows, found, strict=True)),
            ],
        )
        for arm, found in (("bare", (5, 6, 7)), ("guarded", (5, 6, 8)))
    ]
    ran = score("--bare", arms[0], "--guarded", arms[1])
    (error,) = ran.json["guard_overhead"]["errors"]
    assert (ran.code, error["check"], error["window_ids"]) == (3, "pair.weight", ["w2"])


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("banana", "'banana' is not a finite number; it is a fraction: 0.01 is one percent"),
        ("1%", "'1%' is not a finite number; it is a fraction"),
        ("true", "'true' is not a finite number"),
        ("", "'' is not a finite number"),
        ("0_1", "'0_1' is not a finite number"),
        ("\N{ARABIC-INDIC DIGIT ZERO}", "is not a finite number"),
        ("nan", "'nan' is not a finite number"),
        ("inf", "'inf' is not a finite number"),
        ("99", "99.0 is not in the range 0<=x<=0.5; it is a fraction: 0.01 is one percent"),
        ("1e999", "is not in the range"),
        ("-0.01", "-0.01 is not in the range"),
        ("0.6", "0.6 is not in the range"),
        ("1E-400", "'1E-400' is too small: it rounds to 0"),
    ],
)
def test_a_budget_that_is_none_is_refused(
    score: Run, tmp_path: Path, budget: str, words: str
) -> None:
    ran = score(*ppl_pair(tmp_path, 10, 10), f"--budget={budget}")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_a_file_that_is_no_arm_is_refused(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    for lines, words in (
        (["garbage"], "o.jsonl:1: not JSON"),
        ([meta("left")], "o.jsonl:1: got"),
        (losses([2.0]), 'o.jsonl:1: key "arm" is missing'),
    ):
        ran = score(*arms[:2], "--guarded", write(tmp_path / "o.jsonl", lines))
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
    assert "arms must be files" in score(*arms[:2], "--guarded", "-").err


# Modes, plausibility, tails, noise.


def test_an_interval_within_the_budget_passes(score: Run, tmp_path: Path) -> None:
    ran = score(*pair(tmp_path, *noisy(460, 0.004, 0.01)), "--mode", "interval")
    found = ran.json["guard_overhead"]
    assert (ran.code, found["mode"]) == (0, "interval")
    assert found["interval"]["high"] <= 0.01
    assert found["interval"]["method"] == "bca"
    assert ran.json["policy_provenance"]["overrides"][0]["loosens"] is False


def test_an_interval_beyond_the_budget_fails(score: Run, tmp_path: Path) -> None:
    ran = score(*pair(tmp_path, *noisy(400, 0.02, 0.01)), "--mode", "interval")
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert ran.json["guard_overhead"]["interval"]["low"] > 0.01


def test_a_budget_inside_the_interval_is_left_open_or_told(score: Run, tmp_path: Path) -> None:
    arms = pair(tmp_path, *noisy(200, 0.009, 0.02))
    opened, pointed = score(*arms, "--mode", "interval"), score(*arms)
    assert (opened.code, opened.json["guard_overhead"]["passed"]) == (3, False)
    assert pointed.code in (0, 1)
    assert any("lies inside the interval" in w for w in pointed.json["guard_overhead"]["warnings"])


def test_few_windows_have_no_interval_to_judge_by(score: Run, tmp_path: Path) -> None:
    ran = score(*pair(tmp_path, *noisy(7, 0.0, 0.001)), "--mode", "interval")
    assert ran.code == 3
    assert any("rests on 7 items, needs 8" in text for text in ran.json["blockers"])
    eight = score(*pair(tmp_path, *noisy(8, 0.0, 0.001)), "--mode", "interval")
    assert eight.json["guard_overhead"]["checks"]["overhead.quality"] == "pass"
    # What no window shows is not ruled out by eight of them.
    assert (eight.code, eight.json["guard_overhead"]["checks"]["overhead.unseen"]) == (3, "fail")


@pytest.mark.parametrize(("guarded", "code"), [(9.05, 0), (8.9, 3), (1.2, 3)])
def test_a_suspicious_improvement_does_not_pass(
    score: Run, tmp_path: Path, guarded: float, code: int
) -> None:
    ran = score(*ppl_pair(tmp_path, 10, guarded))
    assert ran.code == code
    assert ran.json["guard_overhead"]["passed"] is (code == 0)
    assert ran.json["validation"]["guard_overhead_acceptable"] is (code == 0)
    assert ran.json["guard_overhead"]["checks"]["overhead.plausible"] == (
        "pass" if code == 0 else "fail"
    )


def test_arms_without_any_difference_hold_unless_guards_only_observe(
    score: Run, tmp_path: Path
) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    ran = score(*arms)
    assert (ran.code, ran.json["guard_overhead"]["checks"]["overhead.acts"]) == (3, "fail")
    assert any("the guards never acted" in w for w in ran.json["guard_overhead"]["warnings"])
    policy = tmp_path / "policy.yaml"
    policy.write_text("overrides: [{field: observer_guards, value: true}]\n")
    refused = score(*arms, "--policy", policy)
    assert (refused.code, "needs a reason" in refused.err) == (2, True)
    why = "reason: logs only, owner: ada, evidence: docs/guards.md"
    policy.write_text(f"overrides: [{{field: observer_guards, value: true, {why}}}]\n")
    assert score(*arms, "--policy", policy).code == 0


def test_rare_damage_does_not_slip_under_an_interval(score: Run, tmp_path: Path) -> None:
    """1 % of windows are 1.5 nats worse: 1.5 % of perplexity, over the budget of 1 %."""

    def code(windows: int, damaged: int) -> int:
        shifts = [1.5] * damaged + [1e-6] * (windows - damaged)
        bare = [2.0] * windows
        arms = pair(tmp_path, bare, [2.0 + shift for shift in shifts])
        found: int = score(*arms, "--mode", "interval").code
        return found

    # Thirty windows show none of the damage 74 % of the time, and do not pass.
    assert code(30, 0) == 3
    # With enough windows, at most 5 % of samples may pass.
    n, share = 460, 0.01
    passing = [k for k in range(5) if code(n, k) == 0]
    chance = sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in passing)
    assert 0 in passing
    assert chance <= 0.05
    assert code(n, 12) == 1


def test_the_tail_is_shown_and_can_be_gated(score: Run, tmp_path: Path) -> None:
    bare = [2.0] * 200
    arms = pair(tmp_path, bare, [*bare[:-1], 3.8])
    found = score(*arms).json["guard_overhead"]
    assert found["overhead_ratio"] == pytest.approx(1.0090406217738677)
    assert (found["passed"], found["tail"]["p95_shift"]) == (True, 0)
    assert found["tail"]["worst"] == [
        {"window_id": "w199", "bare": 2.0, "guarded": 3.8, "shift": pytest.approx(1.8)}
    ]
    policy = tmp_path / "policy.yaml"
    policy.write_text("overrides: [{field: tail_worst_max, value: 0.5}]\n")
    ran = score(*arms, "--policy", policy)
    assert (ran.code, ran.json["guard_overhead"]["checks"]["overhead.tail_worst"]) == (1, "fail")


def test_a_quiet_second_bare_run_leaves_the_verdict_alone(score: Run, tmp_path: Path) -> None:
    bare, guarded = noisy(200, 0.004, 0.002)
    again = loss_arm(tmp_path / "again.jsonl", "bare", [value + 1e-6 for value in bare])
    ran = score(*pair(tmp_path, bare, guarded), "--noise", again)
    noise = ran.json["guard_overhead"]["noise"]
    assert (ran.code, noise["given"]) == (0, True)
    assert noise["floor"] == pytest.approx(1e-6, rel=1e-3)


def test_noise_above_the_budget_holds_the_verdict(score: Run, tmp_path: Path) -> None:
    bare, guarded = noisy(50, 0.0, 0.002)
    draw = np.random.default_rng(2)
    again = (np.array(bare) + draw.normal(0, 0.2, 50)).tolist()
    ran = score(
        *pair(tmp_path, bare, guarded),
        *("--noise", loss_arm(tmp_path / "again.jsonl", "bare", again)),
    )
    found = ran.json["guard_overhead"]
    assert (ran.code, found["checks"]["overhead.noise"], found["passed"]) == (3, "fail", False)
    assert found["checks"]["overhead.quality"] == "pass"


@pytest.mark.parametrize("size", [1, 10])
def test_answers_that_repeat_exactly_have_no_noise(score: Run, tmp_path: Path, size: int) -> None:
    answers = [(size, size)] * 199 + [(0, size)]
    arms = accuracy_pair(tmp_path, answers, [*answers[:-1], (size, size)])
    again = count_arm(tmp_path / "again.jsonl", "bare", answers)
    ran = score(*arms, "--noise", again)
    assert (ran.code, ran.json["guard_overhead"]["noise"]["floor"]) == (0, 0.0)
    moved = count_arm(tmp_path / "moved.jsonl", "bare", [(0, size), *answers[1:]])
    ran = score(*arms, "--noise", moved)
    assert (ran.code, ran.json["guard_overhead"]["noise"]["floor"] >= 1 / 200) == (3, True)


def test_a_second_bare_run_that_does_not_pair_holds_the_verdict(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    ran = score(*arms, "--noise", loss_arm(tmp_path / "n.jsonl", "bare", [2.0] * 3))
    assert ran.code == 3
    assert ran.json["guard_overhead"]["evaluated"] is True
    assert "does not pair" in ran.json["guard_overhead"]["noise"]["reason"]


def test_overlapping_windows_are_told(score: Run, tmp_path: Path) -> None:
    bare, guarded = noisy(20)
    plan = {"seq_len": 8, "stride": 4, "windows": 20}
    ran = score(
        *("--bare", loss_arm(tmp_path / "b.jsonl", "bare", bare, plan=plan)),
        *("--guarded", loss_arm(tmp_path / "g.jsonl", "guarded", guarded, plan=plan)),
    )
    assert any("windows overlap" in w for w in ran.json["guard_overhead"]["warnings"])


def test_windows_of_the_same_content_are_measured_once(score: Run, tmp_path: Path) -> None:
    bare, guarded = noisy(20)
    arms = [
        write(
            tmp_path / f"{arm}.jsonl",
            [meta(arm, windows=20), *(row | {"content_hash": "h"} for row in losses(values))],
        )
        for arm, values in (("bare", bare), ("guarded", guarded))
    ]
    ran = score("--bare", arms[0], "--guarded", arms[1])
    errors = ran.json["guard_overhead"]["errors"]
    assert (ran.code, {(e["check"], e["count"]) for e in errors}) == (
        3,
        {("arm.copied_window", 19)},
    )
    clean = score(*pair(tmp_path, bare, guarded)).json["guard_overhead"]
    assert clean["errors"] == []


def test_arms_without_any_seed_are_told(score: Run, tmp_path: Path) -> None:
    bare, guarded = noisy(20)
    seeds: dict[str, Any] = dict.fromkeys(("python", "numpy", "torch", "bootstrap"))
    ran = score(
        *("--bare", loss_arm(tmp_path / "b.jsonl", "bare", bare, seeds=seeds)),
        *("--guarded", loss_arm(tmp_path / "g.jsonl", "guarded", guarded, seeds=seeds)),
    )
    assert any("no arm names a seed" in w for w in ran.json["guard_overhead"]["warnings"])


# The report.


def test_the_report_has_every_field_of_the_source(score: Run, tmp_path: Path) -> None:
    found = score(*ppl_pair(tmp_path, 10, 10.05)).json
    assert {
        *("bare_ppl", "guarded_ppl", "overhead_ratio", "overhead_percent"),
        *("overhead_threshold", "evaluated", "passed", "errors"),
    } <= set(found["guard_overhead"])
    assert found["guard_overhead"]["overhead_threshold"] == 0.01
    assert found["validation"] == {"guard_overhead_acceptable": True}
    for arm in ("bare", "guarded"):
        assert found["meta"][arm]["device"] == found["meta"]["device"] == "cpu"
        assert found["meta"][arm]["seeds"]["python"] == found["meta"]["seeds"]["python"] == 7
    assert (
        found["policy_digest"]
        == found["auto"]["policy_digest"]
        == found["policy_provenance"]["policy_digest"]
        == digest(found["resolved_policy"])
    )
    assert found["resolved_policy"]["settings"]["budget"] == 0.01


def test_the_report_is_strict_json_and_of_a_closed_schema(score: Run, tmp_path: Path) -> None:
    for arms in (ppl_pair(tmp_path, 10, 10.05), ["--bare", tmp_path / "bare.jsonl"]):
        ran = score(*arms)
        text = json.loads(ran.out, parse_constant=pytest.fail)
        msgspec.convert(text, OverheadReport)
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert(text | {"skipped": True}, OverheadReport)


def test_the_schema_of_the_report_is_published_and_refuses_other_keys(
    gatemark: Run, score: Run, tmp_path: Path
) -> None:
    schema = gatemark("schema", "gatemark.overhead-report/1").json
    assert "gatemark.overhead-costs/1" in gatemark("schema").out
    report = score(*ppl_pair(tmp_path, 10, 10.05)).json
    check = jsonschema.Draft202012Validator(schema)
    assert list(check.iter_errors(report)) == []
    assert list(check.iter_errors(report | {"skipped": True}))
    assert list(check.iter_errors(report | {"guard_overhead": "garbage"}))


def test_people_read_the_verdict_and_the_values_first(gatemark: Run, tmp_path: Path) -> None:
    markdown, page = tmp_path / "r.md", tmp_path / "r.html"
    ran = gatemark("score", "overhead", *pair(tmp_path, *noisy(200)), "-o", markdown, "-o", page)
    assert ran.out.startswith("PASS  guard overhead +0.")
    opening = markdown.read_text().splitlines()[0]
    assert opening.startswith("**PASS** guard overhead +0.")
    assert "(budget 1 %)" in opening
    for text in ("| perplexity |", "### Arms side by side", "| latency | not measured |"):
        assert text in markdown.read_text()
    for text in ("Arms side by side", "Shift of every window", "data:image/svg+xml"):
        assert text in page.read_text()


def test_people_read_which_windows_are_wrong_once(gatemark: Run, tmp_path: Path) -> None:
    markdown = tmp_path / "r.md"
    arms = pair(tmp_path, [2.0] * 30, [-1.0] * 25 + [2.0] * 5)
    ran = gatemark("score", "overhead", *arms, "-o", markdown)
    brief = "guarded arm has windows without a usable value (25 windows)"
    assert brief in " ".join(ran.out.split())
    text = markdown.read_text()
    assert "### Which windows are wrong" in text
    assert text.count("w19") == 1
    assert "| windows | 30 | 5 | -25 |" in text
    assert "the arms do not pair" in text


def test_a_loosened_budget_stands_in_the_first_line(gatemark: Run, tmp_path: Path) -> None:
    words = ("--reason", "pilot", "--owner", "ada", "--evidence", "runs/7")
    ran = gatemark("score", "overhead", *ppl_pair(tmp_path, 10, 10.2), "--budget", 0.03, *words)
    assert ran.out.startswith(
        "PASS  guard overhead +2.000 % (budget 3 %; loosened by hand: budget)"
    )
    ran = gatemark("score", "overhead", *ppl_pair(tmp_path, 10, 10), "--budget", 0.005)
    assert "loosened" not in ran.out


def test_what_could_not_be_measured_is_rendered_first(gatemark: Run, tmp_path: Path) -> None:
    markdown = tmp_path / "r.md"
    bare = loss_arm(tmp_path / "b.jsonl", "bare", [2.0] * 4)
    ran = gatemark("score", "overhead", "--bare", bare, "-o", markdown)
    assert ran.out.startswith("INCONCLUSIVE  guard overhead not measured: arm.missing")
    assert markdown.read_text().startswith("**INCONCLUSIVE** guard overhead not measured")
    assert "### What is wrong with the arms" in markdown.read_text()


def test_a_soft_pass_is_a_flag_and_never_a_pass(score: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "overrides: [{field: on_unmeasured, value: soft_pass, reason: tiny, owner: ada, "
        "evidence: pilot-3}]\n"
    )
    bare = loss_arm(tmp_path / "b.jsonl", "bare", [2.0] * 4)
    ran = score("--bare", bare, "--policy", policy)
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert ran.json["validation"]["guard_overhead_acceptable"] is True
    assert ran.json["guard_overhead"]["passed"] is False
    assert ran.json["guard_overhead"]["checks"]["overhead.quality"] == "soft_pass"
    assert ran.json["resolved_policy"]["settings"]["on_unmeasured"] == "soft_pass"
    assert any("soft_pass" in caveat for caveat in ran.json["caveats"])


def test_a_measured_cost_never_passes_softly(score: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "overrides: [{field: on_unmeasured, value: soft_pass, reason: tiny, owner: ada, "
        "evidence: pilot-3}, {field: mode, value: interval}]\n"
    )
    ran = score(*ppl_pair(tmp_path, 10, 15, windows=3), "--policy", policy)
    assert ran.json["guard_overhead"]["checks"]["overhead.quality"] == "soft_pass"
    assert (ran.code, ran.json["guard_overhead"]["evaluated"]) == (3, True)
    assert ran.json["validation"]["guard_overhead_acceptable"] is False


def test_the_flat_fields_are_exported(score: Run, tmp_path: Path) -> None:
    kept = tmp_path / "compat.json"
    score(*ppl_pair(tmp_path, 10, 10.05), "--compat", kept)
    flat = json.loads(kept.read_text())
    assert flat["guard_overhead"]["bare_ppl"] == pytest.approx(10)
    assert flat["guard_overhead"]["overhead_ratio"] == pytest.approx(1.005)
    assert flat["guard_overhead"]["source"] == "release_profile"
    assert flat["quality_overhead"]["basis"] == "ratio"
    assert flat["validation"]["guard_overhead_acceptable"] is True
    assert flat["meta"]["seeds"] == {"python": 7, "numpy": 7, "torch": None}
    score(*accuracy_pair(tmp_path, [(9, 10)] * 9, [(8, 10)] * 9), "--compat", kept)
    flat = json.loads(kept.read_text())
    assert flat["quality_overhead"] == {
        "basis": "delta_pp",
        "value": pytest.approx(-10),
        "kind": "accuracy",
    }
    assert flat["guard_overhead"]["overhead_ratio"] is None
    assert flat["guard_overhead"]["passed"] is False


def test_a_result_can_be_sealed_with_both_arms(gatemark: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    arms = ppl_pair(tmp_path, 10, 10.05)
    ran = gatemark("score", "overhead", *arms, "--seal", "--store", store)
    assert ran.code == 0
    shown = gatemark("show", ran.out.split()[-1], "--store", store, "--json")
    assert {file["name"] for file in shown.json["evidence"][0]["files"]} == {
        str(arms[1]),
        str(arms[3]),
    }


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_no_arm_that_breaks_off_ever_passes(cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        arms = ppl_pair(Path(name), 10, 10)
        data = arms[3].read_bytes()
        # The last line is whole without its newline.
        kept = data[: cut % (len(data) - 1)]
        arms[3].write_bytes(kept)
        paths = {"bare": str(arms[1]), "guarded": str(arms[3])}
        try:
            found = examine_overhead(paths, {"profile": "ci"}, ReadingChoices())
        except BadInputError:
            return
        assert found.report.measurements[0].value is None


def test_more_windows_than_memory_allows_are_refused(
    score: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatemark.plugins.overhead.arms.MAX_WINDOWS", 11)
    ran = score(*ppl_pair(tmp_path, 10, 10))
    assert (ran.code, ran.out) == (2, "")
    assert "holds more than 11 windows" in ran.err
