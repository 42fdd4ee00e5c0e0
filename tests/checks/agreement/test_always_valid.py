"""A validator that gives every row the same label must not pass, however rare the others are."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gatemark.checks.agreement.measure import LABEL_AGREEMENT

Run = Callable[..., Any]
Write = Callable[..., Path]
V, N, R, A = "VALID", "NOT_IN_CONTEXT", "REJECT", "ABSTAIN"
SOURCE_GATE = (
    ".percent_agreement >= 0.90 and .kappa >= 0.75 and .abstain_rate <= 0.02 and .pass==true"
)


def rows(cells: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    labels = [pair for pair, count in cells.items() for _ in range(count)]
    return [
        {"qid": f"Q{number:04d}", "scholar": {"label": first}, "auditor": {"label": second}}
        for number, (first, second) in enumerate(labels)
    ]


@pytest.fixture
def score(gatemark: Run, write_jsonl: Write) -> Run:
    def run(cells: dict[tuple[str, str], int], *more: object) -> Any:
        path = write_jsonl("p.jsonl", rows(cells))
        return gatemark("score", "agreement", "--pairs", path, "--json", *more)

    return run


@pytest.mark.parametrize("rejections", [1, 2, 5, 8, 9, 10, 11, 15, 30])
def test_a_scholar_who_always_says_valid_does_not_pass(rejections: int, score: Run) -> None:
    ran = score({(V, V): 300 - rejections, (V, R): rejections})
    assert ran.code in (1, 3)
    assert ran.json["pass"] is False
    assert any("label_agreement_min" in text and R in text for text in ran.json["blockers"])


def test_the_verdict_has_no_cliff_between_9_and_10_rejections(score: Run) -> None:
    codes = [score({(V, V): 300 - k, (V, R): k}).code for k in range(16)]
    # Nothing to disagree on passes; few rejections leave it open; enough of them fail.
    assert codes[0] == 0
    assert codes[1] == 3
    assert codes[9] == codes[10] == 1
    order = {0: 0, 3: 1, 1: 2}
    assert [order[code] for code in codes] == sorted(order[code] for code in codes)


@pytest.mark.parametrize("caught", range(4))
def test_one_more_missed_rejection_of_few_never_turns_a_pass_into_a_fail(
    caught: int, score: Run
) -> None:
    order = {0: 0, 3: 1, 1: 2}
    codes = [
        order[score({(V, V): 290, (R, R): caught, (V, R): missed}).code] for missed in range(12)
    ]
    steps = [after - before for before, after in pairwise(codes)]
    assert set(steps) <= {0, 1}


def test_a_rare_label_that_one_side_never_uses_does_not_hide_behind_a_good_kappa(
    score: Run,
) -> None:
    ran = score({(V, V): 245, (N, N): 245, (V, R): 10})
    assert ran.json["kappa"] > 0.95
    assert ran.code == 1
    assert ran.json["labels"][R] == {
        "scholar": 0,
        "auditor": 10,
        "agreed": 0,
        "agreement": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.4345, abs=1e-4),
    }


def test_a_rare_label_that_both_recognise_passes(score: Run) -> None:
    assert score({(V, V): 299, (R, R): 1}).code == 0
    assert score({(V, V): 292, (R, R): 7, (V, R): 1}).code == 0


def test_abstentions_have_their_own_gate(score: Run) -> None:
    ran = score({(V, V): 100, (R, R): 100, (A, V): 2})
    assert ran.code == 0
    assert ran.json["labels"][A]["agreement"] == 0.0


def test_low_information_asks_wilson_and_ac1_even_when_kappa_is_high(score: Run) -> None:
    ran = score({(V, V): 27, (R, R): 4}, "--min-items", "1")
    assert ran.json["kappa"] == 1.0
    assert ran.json["kappa_low_information"] is True
    assert ran.code == 3
    assert any("percent_agreement" in text and "0.9" in text for text in ran.json["blockers"])


def test_the_smallest_number_of_items_is_stated(score: Run) -> None:
    ran = score({(V, V): 5, (R, R): 5})
    assert ran.code == 3
    assert ran.json["min_items"] == 30
    assert "pair_count must be >= 30, got 10 (n=10)" in ran.json["blockers"]


def test_one_label_only_passes_with_a_word_of_warning(score: Run) -> None:
    ran = score({(V, V): 50})
    assert ran.code == 0
    assert any("only VALID was used" in text for text in ran.json["caveats"])


def test_whoever_asks_for_two_labels_gets_no_pass_from_one(score: Run) -> None:
    ran = score({(V, V): 300}, "--min-labels", "2")
    assert ran.code == 3
    assert ran.json["blockers"] == ["label_count must be >= 2, got 1 (n=300)"]
    assert score({(V, V): 299, (R, R): 1}, "--min-labels", "2").code == 0


def test_an_abstention_is_no_second_label(score: Run) -> None:
    ran = score({(V, V): 299, (A, A): 1}, "--min-labels", "2")
    assert ran.code == 3
    assert any("only VALID was used" in text for text in ran.json["caveats"])


def test_label_agreement_of_each_label_counts_its_uses_by_both_sides() -> None:
    pairs = [("A", "A")] * 20 + [("A", "B")] * 5 + [("B", "A")] * 10 + [("B", "B")] * 15
    found = LABEL_AGREEMENT.finish(LABEL_AGREEMENT.step(LABEL_AGREEMENT.zero(), pairs))
    lowest = {number.name: number for number in found}["label_agreement_min"]
    # 2 * 15 / (25 + 20) for B, 2 * 20 / (25 + 30) for A.
    assert lowest.value == pytest.approx(30 / 45)
    assert lowest.n == 30
    assert lowest.caveats == ("worst in B",)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(
    ("cells", "line", "code"),
    [
        ({(V, V): 150, (R, R): 150}, SOURCE_GATE, 0),
        ({(V, V): 290, (V, R): 10}, SOURCE_GATE, 1),
        ({(V, V): 50}, SOURCE_GATE, 1),
        ({(V, V): 50}, '.verdict == "pass"', 0),
    ],
)
def test_the_sources_gate_line_works_where_kappa_is_defined(
    cells: dict[tuple[str, str], int], line: str, code: int, score: Run, tmp_path: Path
) -> None:
    path = tmp_path / "consistency.json"
    path.write_text(json.dumps(score(cells).json))
    ran = subprocess.run(["jq", "-e", line, path], capture_output=True, check=False)
    assert ran.returncode == code


def test_a_sealed_result_is_derived_again(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    path = write_jsonl("p.jsonl", rows({(V, V): 98, (V, R): 2}))
    store = tmp_path / "store"
    sealed = gatemark("score", "agreement", "--pairs", path, "--json", "--seal", "--store", store)
    assert sealed.code == 3
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0
