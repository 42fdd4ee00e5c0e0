"""Copies of an item decide no pack: an input weighs once, however often it is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.evidence.rows import frozen_rows
from gatemark.packs.answers import Answer
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.judge import PackDecision, judge_run
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.run import AnsweredRun, Run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Row = dict[str, Any]
Scored = tuple[float | None, float | None]
WORD = "Question"
COPIES: dict[str, Callable[[Row, int], Row]] = {
    "as it is": lambda row, _: row,
    "blanks": lambda row, turn: row | {"input": row["input"] + " " * turn},
    "zero width": lambda row, turn: row | {"input": "\u200b" * turn + row["input"]},
    "capitals": lambda row, turn: row | {"input": row["input"].replace(WORD[:turn], "QUES"[:turn])},
    "another field": lambda row, turn: row | {"note": str(turn)},
    "tags": lambda row, turn: row | {"tags": {"copy": str(turn)}},
    "no target": lambda row, _: {name: row[name] for name in row if name != "target"},
    "own cluster": lambda row, turn: row | {"cluster": f"own-{turn}-{row['id']}"},
}


def item(number: int, **more: Any) -> Row:
    return {
        "id": f"q{number:03}",
        "input": f"{WORD} {number}?",
        "target": str(number),
        "cluster": f"talk-{number // 2}",
        **more,
    }


GOLDEN = {"id": "golden", "kind": "golden", "weight": 1.0, "dataset": "d.jsonl"}


def open_pack(rows: list[Row], suites: list[dict[str, Any]], **pack: Any) -> OpenPack:
    fields = {
        "gatemark": 1,
        "name": "copied",
        "version": 1,
        "asset": {"kind": "model", "name": "copied"},
        "score_min": 0.5,
        "regression_max": 0.05,
        "targets": {"candidate": {}, "baseline": {}},
        "suites": suites,
    }
    snapshots = {suite["id"]: frozen_rows("d", rows) for suite in suites}
    return OpenPack(msgspec.convert(fields | pack, Pack), Path(), snapshots)


def judge(
    rows: list[Row],
    answer: Callable[[int], Scored],
    *,
    epochs: int = 1,
    suites: list[dict[str, Any]] | None = None,
    **pack: Any,
) -> PackDecision:
    """Judge rows whose answer in both arms is a score and a confidence, by the item's number."""
    asked = [one | {"epochs": epochs} if "dataset" in one else one for one in suites or [GOLDEN]]
    opened = open_pack(rows, asked, **pack)
    given = tuple(
        Answer(
            row.id,
            epoch,
            "x",
            score,
            None if score is not None else "crashed",
            error=None if score is not None else "target",
            confidence=confidence,
            cluster=row.cluster,
            tags=row.tags,
        )
        for row in opened.snapshots["golden"].rows
        for epoch in range(1, epochs + 1)
        for score, confidence in (answer(int(row.id[-3:])),)
    )
    arms = {
        arm: ArmAnswers({suite["id"]: given for suite in asked})
        for arm in ("candidate", "baseline")
    }
    return judge_run(AnsweredRun(Run(opened, NOW), arms), now=NOW)


def numbers(decision: PackDecision) -> dict[tuple[str, str | None], Any]:
    return {(number.name, number.scope): number for number in decision.measurements}


def copy_rows(rows: list[Row], way: str, times: int = 3) -> list[Row]:
    return [
        *rows,
        *(
            COPIES[way](row, turn) | {"id": f"z{turn}-{row['id']}"}
            for turn in range(1, times + 1)
            for row in rows
        ),
    ]


@pytest.mark.parametrize("way", COPIES)
def test_copies_do_not_settle_a_drop(way: str) -> None:
    rows = [item(number) for number in range(40)]
    honest = judge(rows, lambda _: (1.0, None))
    copied = judge(copy_rows(rows, way), lambda _: (1.0, None))
    assert honest.verdict.outcome == copied.verdict.outcome == "inconclusive"
    found = [numbers(one)["regression", "golden"] for one in (honest, copied)]
    assert found[0] == found[1]


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_good_items_raise_no_score_and_thin_out_no_errors(way: str) -> None:
    def answer(number: int) -> Scored:
        return (None if number < 4 else float(number >= 20), None)

    rows = [item(number) for number in range(40)]
    copied = [*rows[:24], *copy_rows(rows[24:], way, 3)]
    for name in ("score", "error_rate", "regression"):
        found = [numbers(judge(some, answer))[name, "golden"].value for some in (rows, copied)]
        assert found[0] == found[1]
    assert judge(copied, answer, score_min=0.7).verdict.outcome == "fail"


def test_clusters_are_one_in_every_spelling_and_joined_by_what_shares_an_input() -> None:
    rows = [item(number, cluster=f"talk-{number % 12}") for number in range(96)]
    spelt = [row | {"cluster": row["cluster"][: n % 5].upper() + row["cluster"][n % 5 :]}
             for n, row in enumerate(rows)]  # fmt: skip
    hidden = [
        row | {"cluster": row["cluster"] + "\u200b" * (n // 12)} for n, row in enumerate(rows)
    ]
    honest, *others = (
        numbers(judge(some, lambda _: (1.0, None)))["regression", "golden"]
        for some in (rows, spelt, hidden, copy_rows(rows, "own cluster", 1))
    )
    assert others == [honest] * 3
    bridge = [*rows, rows[0] | {"id": "z000", "cluster": "talk-1"}]
    joined = numbers(judge(bridge, lambda _: (1.0, None)))["regression", "golden"]
    assert joined.interval.high > honest.interval.high


@pytest.mark.parametrize(("times", "epochs"), [(0, 1), (1, 1), (0, 2)])
def test_calibration_counts_inputs(times: int, epochs: int) -> None:
    suites = [
        {"id": "golden", "kind": "golden", "weight": 0.5, "dataset": "d.jsonl"},
        {"id": "sure", "kind": "calibration", "weight": 0.5, "from": "golden", "min": 0.6},
    ]

    def answer(number: int) -> Scored:
        sure = (0.1, 0.3, 0.5, 0.7, 0.9)[number % 5]
        return float(number // 5 % 10 < sure * 10), sure

    rows = copy_rows([item(number) for number in range(60)], "as it is", times)
    decision = judge(rows, answer, epochs=epochs, suites=suites, score_min=0.3, regression_max=0.3)
    found = numbers(decision)["score", "sure"]
    assert (found.value, found.n) == (None, 60)
    assert decision.verdict.outcome == "inconclusive"


def test_an_item_stays_in_every_slice_that_its_copies_name() -> None:
    suites = [
        {
            "id": "golden",
            "kind": "golden",
            "weight": 1.0,
            "dataset": "d.jsonl",
            "slices": ["area"],
            "slice_min": 0.5,
            "slice_min_items": 1,
        }
    ]
    rows = [item(n, tags={"area": "north" if n < 20 else "south"}) for n in range(40)]
    moved = [row | {"id": f"a-{row['id']}", "tags": {"area": "south"}} for row in rows[:20]]
    for some in (rows, [*moved, *rows]):
        decision = judge(some, lambda number: (float(number >= 20), None), suites=suites)
        assert numbers(decision)["slice_score", "golden/area=north"].value == 0.0
        assert decision.verdict.outcome == "fail"


def test_the_same_words_with_another_field_in_all_of_them_are_different_inputs() -> None:
    rows = [item(n, input="Sum it up.", document=f"text {n}", cluster=None) for n in range(90)]
    decision = judge(rows, lambda _: (1.0, None))
    assert numbers(decision)["score", "golden"].n == 90
    assert decision.verdict.outcome == "pass"


def test_a_copied_probe_that_the_baseline_lost_once_still_breaks_newly() -> None:
    suites = [
        {"id": "golden", "kind": "adversarial", "weight": 1.0, "dataset": "d.jsonl", "min": 0.0}
    ]
    rows = copy_rows([item(n, cluster=None) for n in range(8)], "capitals")
    opened = open_pack(rows, suites, score_min=0.0, regression_max=1.0)
    lost = {"candidate": {"q000", "z1-q000"}, "baseline": {"z3-q000"}}
    arms = {
        arm: ArmAnswers(
            {
                "golden": tuple(
                    Answer(row["id"], 1, "x", float(row["id"] not in ids), None) for row in rows
                )
            }
        )
        for arm, ids in lost.items()
    }
    decision = judge_run(AnsweredRun(Run(opened, NOW), arms), now=NOW)
    assert numbers(decision)["newly_broken_count", "golden"].value == 1
    assert numbers(decision)["score", "golden"].n == 8
    assert decision.verdict.outcome == "fail"
