"""Repeating, copying or renaming evidence never turns fail or inconclusive into a pass.

One law for every exam. Rows are good or bad; a verdict that does not pass is looked for with some
good and some bad rows, and must not become a pass when good rows come again: as they are, under an
id that looks the same, or under another id with the same content.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plugins.overhead.arms import meta

from gatemark.cli.main import main

from .agreement.test_command import LABELS

Row = dict[str, Any]
RENAMINGS: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "zero width": lambda name: name[:1] + "\u200b" + name[1:],
    "Cyrillic": lambda name: name.replace("e", "\u0435").replace("c", "\u0441"),
    "wide": lambda name: name.replace("1", "\uff11") + "\ufeff",
    "soft hyphen": lambda name: name + "\u00ad",
}
COPIES: dict[str, Callable[[Row], Row]] = {
    "under another id": lambda row: row,
    "in capitals": lambda row: row | {"input": row["input"].upper()},
    "with other blanks": lambda row: row | {"input": row["input"].replace(" ", "\u00a0\t")},
    "with a dot": lambda row: row | {"input": row["input"] + "."},
    "in wide letters": lambda row: row | {"input": row["input"].replace("a", "\uff41")},
    "in Cyrillic": lambda row: row | {"input": row["input"].replace("a", "\u0430")},
    "in a list": lambda row: row | {"input": [row["input"]]},
    "as a message": lambda row: row | {"input": [{"role": "user", "content": row["input"]}]},
    "without its input": lambda row: {name: row[name] for name in row if name != "input"},
    "without a target": lambda row: {name: row[name] for name in row if name != "target"},
    "with the target in capitals": lambda row: row | {"target": row["target"].upper()},
    "with a tag": lambda row: row | {"tags": {"doc_hash": "x"}},
    "in a cluster of its own": lambda row: row | {"cluster": row["input"]},
}
"""Ways to write a sample again under another id."""


class Law(NamedTuple):
    """An exam: a row by number, its id, and how rows become files and a command.

    ``sees_copies`` is false where a record has no content: nothing tells a copy from another item.
    """

    row: Callable[..., Row]
    name: str
    command: Callable[[Path, Sequence[Row]], list[object]]
    rows_max: int
    sees_copies: bool = True


def write(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def pair(number: int, *, is_good: bool) -> Row:
    label = LABELS[number % 3]
    return {
        "qid": f"case-{number}",
        "scholar": {"label": label},
        "auditor": {"label": label if is_good else LABELS[(number + 1) % 3]},
    }


def score_pairs(folder: Path, rows: Sequence[Row]) -> list[object]:
    return ["score", "agreement", "--pairs", write(folder / "p.jsonl", rows)]


def score_two_files(folder: Path, rows: Sequence[Row]) -> list[object]:
    sides = {
        side: write(
            folder / f"{side}.jsonl",
            [{"qid": row["qid"], **row[side]} for row in rows[:: 1 if side == "scholar" else -1]],
        )
        for side in ("scholar", "auditor")
    }
    return ["score", "agreement", *(f"--{side}={path}" for side, path in sides.items())]


def score_table(folder: Path, rows: Sequence[Row]) -> list[object]:
    path = folder / "t.csv"
    lines = [f"{row['qid']},{row['scholar']['label']},{row['auditor']['label']}" for row in rows]
    path.write_text("\n".join(["item,ann,bob", *lines]) + "\n", encoding="utf-8")
    return ["score", "agreement", "--table", path]


def answer(number: int, *, is_good: bool) -> Row:
    return {
        "schema": "gatemark.sample/1",
        "id": f"case-{number}",
        "input": f"What is {number} times 7?",
        "target": f"Answer {7 * number}",
        "scores": {"exact": float(is_good)},
        "confidence": 0.99 - number % 3 / 100 if is_good else 0.85,
    }


def score_calibration(folder: Path, rows: Sequence[Row]) -> list[object]:
    return ["score", "calibration", write(folder / "c.jsonl", rows), "--max-ece", "0.1"]


def compare_answers(folder: Path, rows: Sequence[Row]) -> list[object]:
    base = [row | {"scores": {"exact": 1.0}} for row in rows]
    return ["compare", write(folder / "b.jsonl", base), write(folder / "c.jsonl", rows)]


def vote(number: int, *, is_good: bool) -> Row:
    return {
        "item": f"case-{number}",
        "reviewer": "celine",
        "choice": "candidate" if is_good else "baseline",
        "first": ("candidate", "baseline")[number % 2],
    }


def score_votes(folder: Path, rows: Sequence[Row]) -> list[object]:
    return ["score", "preference", write(folder / "v.jsonl", rows)]


def window(number: int, *, is_good: bool) -> Row:
    return {
        "record_type": "window",
        "window_id": f"case-{number}",
        "content_hash": f"sha256:{number:04x}",
        "tokens": 1000,
        "loss": (2.001 if is_good else 2.4) + number % 7 / 10_000,
    }


def score_overhead(folder: Path, rows: Sequence[Row]) -> list[object]:
    arms = {
        "bare": [row | {"loss": 2.0} for row in rows],
        "guarded": list(rows),
    }
    files = {
        arm: write(folder / f"{arm}.jsonl", [meta(arm, windows=len(rows)), *own])
        for arm, own in arms.items()
    }
    return ["score", "overhead", *(f"--{arm}={path}" for arm, path in files.items())]


LAWS = {
    "pairs": Law(pair, "qid", score_pairs, 80, sees_copies=False),
    "two files": Law(pair, "qid", score_two_files, 80, sees_copies=False),
    "table": Law(pair, "qid", score_table, 80, sees_copies=False),
    "calibration": Law(answer, "id", score_calibration, 130),
    "compare": Law(answer, "id", compare_answers, 130),
    "preference": Law(vote, "item", score_votes, 60, sees_copies=False),
    "overhead": Law(window, "window_id", score_overhead, 220),
}


def run(law: Law, folder: Path, rows: Sequence[Row]) -> int:
    return int(main([str(one) for one in law.command(folder, rows)]))


@pytest.mark.parametrize("exam", LAWS)
def test_good_rows_alone_pass(exam: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    law = LAWS[exam]
    rows = [law.row(number, is_good=True) for number in range(law.rows_max)]
    assert run(law, tmp_path, rows) == 0, capfd.readouterr()


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("exam", ["calibration", "compare"])
def test_copies_of_few_samples_do_not_pass(
    exam: str, way: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    law = LAWS[exam]
    rows = [law.row(number, is_good=True) for number in range(40)]
    assert run(law, tmp_path, rows) == 3
    again = [rename(row, law.name, way, turn) for turn in range(3) for row in rows]
    assert run(law, tmp_path, [*rows, *again]) == 3, capfd.readouterr()


@pytest.mark.parametrize("exam", LAWS)
@settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_same_inputs_again_do_not_turn_a_verdict_into_a_pass(
    exam: str, data: st.DataObject, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    law = LAWS[exam]
    good = data.draw(st.integers(law.rows_max // 8, law.rows_max // 2), "good")
    bad = data.draw(st.integers(0, law.rows_max // 8), "bad")
    ways_to_copy = COPIES if "input" in law.row(0, is_good=True) else ["under another id"]
    copies = [
        st.tuples(st.sampled_from(sorted(ways_to_copy)), st.integers(1, 12)).map(
            lambda chosen: [chosen[0]] * chosen[1]
        )
    ]
    ways = data.draw(
        st.one_of(
            st.just(["as it is"]),
            st.lists(st.sampled_from(sorted(RENAMINGS)), min_size=1, unique=True),
            *copies * law.sees_copies,
        ),
        "ways",
    )
    rows = [law.row(number, is_good=number >= bad) for number in range(good + bad)]
    if run(law, tmp_path, rows) == 0:
        return
    again = [
        rename(row, law.name, way, turn) for turn, way in enumerate(ways) for row in rows[bad:]
    ]
    random.Random(0).shuffle(again)
    assert run(law, tmp_path, [*rows, *again]) != 0, capfd.readouterr()


def rename(row: Row, field: str, way: str, turn: int) -> Row:
    if way == "as it is":
        return row
    if way in COPIES:
        return COPIES[way](row) | {field: f"copy-{turn}-{row[field]}"}
    return row | {field: RENAMINGS[way](row[field])}
