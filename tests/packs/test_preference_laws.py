"""The rules of a ``preference`` suite over any answers: both sides of each, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.core.canonical import digest_bytes
from gatemark.core.measurement import Measurement
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.preference import ComparisonOptions, examine, make_pairs
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.scorers.judge.prompt import JudgeReply

OPTIONS = ComparisonOptions(judge="arbiter")
ORDERS = {"win": ("FIRST", "SECOND"), "loss": ("SECOND", "FIRST"), "tie": ("TIE", "TIE")}
STUCK = ("FIRST", "FIRST")


def row(name: str, cluster: str | None = None) -> Row:
    return Row(id=name, input=f"what is {name}?", cluster=cluster)


def answer(name: str, output: object, error: str | None = None) -> Answer:
    score = None if error else 1.0
    return Answer(name, 1, None if error else output, score, error, error)


def evidence(
    outcomes: Sequence[str], *, errors_max: float = 0.0, clusters: Sequence[str | None] = ()
) -> ArmsEvidence:
    """Return both arms' answers and a judge's replies that give these outcomes."""
    names = [f"i{number:03d}" for number in range(len(outcomes))]
    grouped = clusters or [None] * len(names)
    rows = tuple(row(name, cluster) for name, cluster in zip(names, grouped, strict=True))
    candidate = tuple(answer(name, f"ours {name}") for name in names)
    baseline = tuple(answer(name, f"theirs {name}") for name in names)
    pairs = make_pairs(rows, candidate, baseline)
    replies = {}
    for name, outcome in zip(names, outcomes, strict=True):
        said = ORDERS.get(outcome, STUCK)
        replies[name, 1] = tuple(
            JudgeReply(nonce, digest_bytes(prompt.encode()), f"GRADE {nonce}: {label}")
            for vote, label in enumerate(said)
            for nonce in (f"{vote:032x}",)
            for prompt in (OPTIONS.prompt(pairs[name, 1], nonce, vote),)
        )
    spec = SuiteSpec(
        id="liked", kind="preference", weight=0.0, source="answers", errors_max=errors_max
    )
    return ArmsEvidence(spec, rows, candidate, baseline, margin=0.1, alpha=0.05, replies=replies)


def numbers(given: ArmsEvidence) -> dict[str, Measurement]:
    report = examine(given, OPTIONS)
    found = (report.score, report.baseline_score, *report.measurements)
    return {number.name: number for number in found}


@pytest.mark.parametrize(
    ("wins", "losses", "ties", "sign"),
    [
        (20, 0, 0, 1),
        (19, 0, 41, None),
        (15, 5, 0, 1),
        (14, 6, 0, None),
        (30, 30, 0, None),
        (6, 14, 0, None),
        (5, 15, 0, -1),
        (0, 20, 40, -1),
        (0, 19, 0, None),
    ],
)
def test_the_exact_test_on_decisive_pairs_decides(
    wins: int, losses: int, ties: int, sign: int | None
) -> None:
    found = numbers(evidence(["win"] * wins + ["loss"] * losses + ["tie"] * ties))
    assert found["preferred"].value == sign
    assert [found[name].value for name in ("wins", "losses", "ties")] == [wins, losses, ties]
    score, before = found["score"].value, found["baseline_score"].value
    assert score == pytest.approx((wins + ties / 2) / (wins + losses + ties))
    assert before == pytest.approx(1 - (score or 0))
    assert found["regression"].value == pytest.approx((losses - wins) / (wins + losses + ties))


def test_a_judge_that_always_says_first_prefers_nobody() -> None:
    found = numbers(evidence(["stuck"] * 60))
    assert found["preferred"].value is None
    assert found["ties"].value == 60
    assert found["order_disagreement_rate"].value == 1.0
    mixed = numbers(evidence(["stuck"] * 15 + ["win"] * 45))
    assert mixed["order_disagreement_rate"].value == 0.25


def test_a_large_cluster_counts_once_by_more_than_half_of_its_pairs() -> None:
    outcomes = ["win"] * 30 + ["win", "win", "loss", "win", "loss", "tie"]
    clusters = ["large"] * 30 + ["a", "a", "a", "b", "b", "b"]
    found = numbers(evidence(outcomes, clusters=clusters))
    assert [found[name].value for name in ("wins", "losses", "ties")] == [2, 0, 1]


def test_no_pairs_are_no_preference() -> None:
    found = numbers(evidence([]))
    assert (
        found["preferred"].value is found["score"].value is found["uncompared_rate"].value is None
    )
    assert str(found["order_disagreement_rate"].reason) == "the judge compared nothing"


def test_without_a_baseline_nothing_is_compared() -> None:
    given = msgspec.structs.replace(evidence(["win"] * 30), baseline=None)
    found = numbers(given)
    assert found["preferred"].value is found["score"].value is None
    assert found["uncompared_rate"].value == 1.0


def test_losing_answers_does_not_make_enough_decisive_pairs() -> None:
    """19 wins are too few; a lost answer must not be the twentieth decisive pair."""
    whole = evidence(["win"] * 19 + ["tie"] * 81, errors_max=0.05)
    failed = answer("i050", None, "crash")
    for arm in ("candidate", "baseline"):
        answers = [failed if a.id == failed.id else a for a in getattr(whole, arm)]
        found = numbers(msgspec.structs.replace(whole, **{arm: tuple(answers)}))
        assert (found["wins"].value, found["losses"].value) == (19, 1)
        assert found["preferred"].value is None


def test_what_is_unknown_fails_nobody() -> None:
    """30 against 30 is even; 20 crashes of the baseline do not make the candidate the worse one."""
    whole = evidence(["win"] * 30 + ["loss"] * 30 + ["tie"] * 20, errors_max=0.25)
    crashed = tuple(
        answer(a.id, None, "crash") if a.id >= "i060" else a for a in whole.baseline or ()
    )
    found = numbers(msgspec.structs.replace(whole, baseline=crashed))
    assert (found["wins"].value, found["losses"].value) == (30, 50)
    assert found["uncompared_rate"].value == 0.25
    assert found["score"].value == 30 / 80
    assert found["regression"].value == pytest.approx(20 / 80)
    assert found["preferred"].value is None
    own = tuple(answer(a.id, None, "crash") if a.id >= "i060" else a for a in whole.candidate)
    assert numbers(msgspec.structs.replace(whole, candidate=own))["preferred"].value == -1


def test_more_unknown_than_allowed_leaves_no_score() -> None:
    whole = evidence(["win"] * 50, errors_max=0.1)
    for lost, is_held in ((5, False), (6, True)):
        replies = dict(list(whole.replies.items())[lost:])
        found = numbers(msgspec.structs.replace(whole, replies=replies))
        for name in ("score", "baseline_score", "regression", "preferred"):
            assert (found[name].value is None) == is_held, name


Evidences = st.builds(
    evidence,
    st.lists(st.sampled_from(["win", "win", "win", "loss", "tie", "stuck"]), max_size=60),
    errors_max=st.sampled_from([0.0, 0.1, 1.0]),
)


def _passes(given: ArmsEvidence) -> bool:
    """Whether the suite's own rules and the rule on its drop would pass."""
    found = numbers(given)
    drop, uncompared = found.get("regression"), found["uncompared_rate"].value
    return (
        found["preferred"].value == 1
        and uncompared is not None
        and uncompared <= given.spec.errors_max
        and drop is not None
        and drop.interval is not None
        and drop.interval.high <= given.margin
    )


@given(whole=Evidences, data=st.data())
def test_dropping_evidence_never_makes_a_pass(whole: ArmsEvidence, data: st.DataObject) -> None:
    names = [a.id for a in whole.candidate]
    some = st.sets(st.sampled_from(names)) if names else st.just(set[str]())
    crashed, gone, silent, unread = (data.draw(some) for _ in range(4))
    arm = data.draw(st.sampled_from(["candidate", "baseline"]))
    changed: list[Any] = [
        answer(a.id, None, "crash") if a.id in crashed else a
        for a in getattr(whole, arm)
        if a.id not in gone
    ]
    replies = {
        key: tuple(msgspec.structs.replace(r, text="?") for r in kept) if key[0] in unread else kept
        for key, kept in whole.replies.items()
        if key[0] not in silent
    }
    less = msgspec.structs.replace(whole, **{arm: tuple(changed)}, replies=replies)
    assert _passes(whole) or not _passes(less)
