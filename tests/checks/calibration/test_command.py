from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, roc_auc_score

from gatemark.checks.calibration.confidences import CONFIDENCE_FORM
from gatemark.evidence.diagnose import diagnose

Run = Callable[..., Any]
Write = Callable[..., Path]

CONTRACT = ("n", "ece", "mce", "mce_min10", "ece_excess", "iso_dev", "brier", "bins")


def line(number: int, confidence: object = 0.8, correct: object = True) -> dict[str, Any]:
    return {"id": f"q{number}", "confidence": confidence, "correct": correct}


def calibrated(n: int = 4000, bend: float = 1.0) -> list[dict[str, Any]]:
    draw = random.Random(7)
    rows = []
    for number in range(n):
        confidence = round(draw.random(), 3)
        rows.append(line(number, confidence, draw.random() < confidence**bend))
    return rows


def as_sample(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schema": "gatemark.sample/1",
        "id": row["id"],
        "confidence": row["confidence"],
        "scores": {"exact": float(row["correct"])},
    } | more


@pytest.fixture
def score(gatemark: Run, write_jsonl: Write) -> Run:
    def run(rows: list[Any], *arguments: object) -> Any:
        return gatemark("score", "calibration", write_jsonl("c.jsonl", rows), "--json", *arguments)

    return run


def by_definition(rows: list[dict[str, Any]], bins: int) -> tuple[float, float]:
    """ECE and MCE in plain arithmetic: bin k holds (k/bins, (k+1)/bins]."""
    places: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        place = next(k for k in range(bins) if row["confidence"] * bins <= k + 1 + 1e-9)
        places.setdefault(place, []).append(row)
    gaps = {
        place: abs(sum(r["correct"] for r in inside) - sum(r["confidence"] for r in inside))
        / len(inside)
        for place, inside in places.items()
    }
    ece = sum(len(places[place]) * gap for place, gap in gaps.items()) / len(rows)
    return ece, max(gaps.values())


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_keys_of_the_contract_hold_the_defined_numbers(score: Run, bins: int) -> None:
    rows = calibrated(700, 1.7)
    ran = score(rows, "--bins", bins)
    found = ran.json
    assert ran.code == 0
    assert set(found) >= set(CONTRACT)
    assert (found["n"], len(found["bins"]), found["verdict"]) == (700, bins, None)
    assert (found["ece"], found["mce"]) == pytest.approx(by_definition(rows, bins))
    brier = found["brier"]
    expected = brier_score_loss([r["correct"] for r in rows], [r["confidence"] for r in rows])
    assert brier["score"] == pytest.approx(expected)
    assert brier["score"] == pytest.approx(brier["mcb"] - brier["dsc"] + brier["unc"])


def test_samples_give_the_same_numbers_as_lines(score: Run) -> None:
    rows = calibrated(300)
    lines, samples = score(rows).json, score([as_sample(row) for row in rows]).json
    assert samples["score"] == "exact"
    for key in CONTRACT:
        assert samples[key] == lines[key]


def test_exit_0_when_the_gates_hold(score: Run) -> None:
    ran = score(calibrated(), "--max-ece", "0.05", "--max-mce", "0.2")
    assert (ran.code, ran.json["verdict"], ran.json["gates"]) == (
        0,
        "pass",
        {"ece": 0.05, "mce": 0.2},
    )


def test_exit_1_when_a_gate_does_not(score: Run) -> None:
    ran = score(calibrated(bend=2), "--max-ece", "0.05")
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert ran.json["blockers"][0].startswith("ece must be <= 0.05, got 0.1")


def test_exit_3_when_few_items_leave_a_gate_open(score: Run) -> None:
    ran = score(calibrated(60), "--max-ece", "0.5")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert ran.json["blockers"] == ["ece rests on 60 items, needs 100"]
    assert "binned errors are mostly chance" in ran.json["caveats"][0]
    assert score(calibrated(60)).code == 0


def test_what_cannot_be_judged_is_counted_and_holds_the_gate(score: Run) -> None:
    samples = [as_sample(row) for row in calibrated(2000)]
    error = {"kind": "Timeout", "message": ""}
    samples += [
        as_sample(line(90_001), scores={}, error=error),
        as_sample(line(90_002), confidence=None),
        as_sample(line(90_003), scores={"exact": None}),
    ]
    ran = score(samples, "--max-ece", "0.2")
    assert (ran.code, ran.json["n"], ran.json["received"]) == (3, 2000, 2003)
    assert ran.json["excluded"] == {"errored": 1, "no_confidence": 1, "no_score": 1}
    assert "evidence.coverage must be >= 1" in ran.json["blockers"][0]
    assert score(samples).code == 0


def test_exit_3_when_nothing_can_be_measured(score: Run) -> None:
    ran = score([as_sample(line(i), confidence=None) for i in range(5)])
    assert (ran.code, ran.json["n"], ran.json["ece"], ran.json["brier"]) == (3, 0, None, None)
    assert ran.json["blockers"] == ["no item has a confidence and an outcome"]
    error = {"kind": "Crash", "message": "all of them"}
    crashed = score([as_sample(line(i), scores={}, error=error) for i in range(5)])
    assert (crashed.code, crashed.json["excluded"]) == (3, {"errored": 5})


def test_a_score_must_be_named_when_there_are_several(score: Run) -> None:
    rows = [as_sample(line(i), scores={"exact": 1, "style": 0.5}) for i in range(3)]
    ran = score(rows)
    assert ran.code == 2
    assert "has several scores, name one with --score: exact, style" in ran.err
    assert score(rows, "--score", "exact").json["n"] == 3
    graded = score(rows, "--score", "style")
    assert graded.code == 2
    assert (
        "c.jsonl:1: a score must be 0 or 1 to be right or wrong, got 0.5 at $.scores" in graded.err
    )
    assert "has no score 'tone'" in score(rows, "--score", "tone").err
    assert "--score is for gatemark.sample/1" in score([line(1)], "--score", "exact").err


def test_a_second_score_is_noticed_wherever_it_comes(score: Run) -> None:
    rows = [as_sample(line(i), output="x" * 500) for i in range(500)]
    rows.append(as_sample(line(999), scores={"exact": 1, "style": 1}))
    assert "name one with --score" in score(rows).err


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (line(2, 1.2), "c.jsonl:2: "),
        (line(2, -0.1), "at $.confidence"),
        (line(2, "high"), "expected number at $.confidence"),
        (line(2, None), "at $.confidence"),
        (line(2, correct=1), "expected boolean at $.correct"),
        ('{"id": "q2", "confidence": NaN, "correct": true}', "NaN is not a JSON number"),
        ('{"id": "q2", "confidence": 1e999, "correct": true}', "c.jsonl:2: "),
        ({"id": "q2", "confidence": 0.4}, 'key "correct" is missing'),
        (line(2) | {"why": "?"}, 'unknown key "why"'),
        (line(1), "c.jsonl:2: id 'q1' was seen before on line 1"),
        ("garbage", "c.jsonl:2: not JSON"),
    ],
)
def test_a_bad_line_is_told_with_its_place(score: Run, bad: Any, words: str) -> None:
    ran = score([line(1), bad])
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1


def test_an_empty_file_is_refused(score: Run) -> None:
    ran = score([])
    assert ran.code == 2
    assert "contains no records" in ran.err


def test_packed_files_are_read_and_the_document_can_be_kept(gatemark: Run, tmp_path: Path) -> None:
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(
        gzip.compress("".join(json.dumps(row) + "\n" for row in calibrated(200)).encode())
    )
    kept = tmp_path / "c.json"
    ran = gatemark("score", "calibration", packed, "-o", kept)
    assert ran.code == 0
    assert "ECE beyond a calibrated twin's" in ran.out
    assert json.loads(kept.read_text())["n"] == 200
    assert "must end in .json" in gatemark("score", "calibration", packed, "-o", "c.html").err


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["id", "confidence", "correct", "x"]), inner, max_size=4
                )
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_line_is_a_good_record_or_has_problems(data: bytes) -> None:
    text = data.replace(b"\n", b" ")
    problems = diagnose(text, CONFIDENCE_FORM, max_depth=64)
    if not problems:
        record = json.loads(text)
        assert record.keys() == {"id", "confidence", "correct"}
        assert 0 <= record["confidence"] <= 1
        assert isinstance(record["correct"], bool)


def stated(confidences: list[float], rights: list[bool]) -> list[dict[str, Any]]:
    return [line(n, c, r) for n, (c, r) in enumerate(zip(confidences, rights, strict=True))]


RIGHTS = [n % 5 > 0 for n in range(500)]
"""Four of five answers are right."""


@pytest.mark.parametrize(
    ("confidences", "said"),
    [
        ([0.8] * 500, "every answer has the same confidence"),
        ([0.79 + 0.00001 * (n * 7 % 500) for n in range(500)], "all confidences are in one bin"),
        (
            [0.75 if right else 0.999 for right in RIGHTS],
            "right answers have lower confidences than wrong ones (AUROC 0, p ",
        ),
    ],
)
def test_confidences_that_say_nothing_or_the_opposite_do_not_pass(
    score: Run, confidences: list[float], said: str
) -> None:
    ran = score(stated(confidences, RIGHTS), "--max-ece", "0.5")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    (blocker,) = ran.json["blockers"]
    assert said in blocker
    assert said in score(stated(confidences, RIGHTS)).json["caveats"][0]


def test_too_few_bins_do_not_pass(score: Run) -> None:
    """Wrong in both directions, and right on average."""
    confidences = [0.65 if n % 2 else 0.95 for n in range(500)]
    rights = [(n % 20 > 0) if n % 2 else (n % 20 > 6) for n in range(500)]
    rows = stated(confidences, rights)
    one = score(rows, "--max-ece", "0.1", "--bins", "1")
    assert one.json["ece"] < 0.1
    assert (one.code, one.json["verdict"]) == (3, "inconclusive")
    assert "errors cancel inside wide bins" in one.json["blockers"][0]
    assert score(rows, "--max-ece", "0.1").code == 1
    assert score(calibrated(), "--max-ece", "0.1", "--bins", "9").code == 3
    assert score(calibrated(), "--max-ece", "0.1", "--bins", "10").code == 0


def test_the_area_under_the_curve_is_shown(score: Run, gatemark: Run, write_jsonl: Write) -> None:
    rows = calibrated()
    found = score(rows).json
    expected = roc_auc_score([r["correct"] for r in rows], [r["confidence"] for r in rows])
    assert found["auroc"] == pytest.approx(expected, abs=1e-9)
    low, high = found["auroc_interval"]
    assert low < expected < high
    text = gatemark("score", "calibration", write_jsonl("c.jsonl", rows)).out
    assert "AUROC (resolution)" in text
    assert score(stated([0.7, 0.9], [True, True])).json["auroc"] is None
