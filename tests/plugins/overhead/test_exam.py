"""The exam as a fold, as a suite, and as something a pack can weigh."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from gatemark.core.errors import UsageError
from gatemark.core.result import Shifts, Table
from gatemark.evidence.exam_suite import ExamSuite, suites
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.overhead.examine import examine_overhead
from gatemark.plugins.overhead.options import OverheadOptions
from gatemark.plugins.overhead.overhead_exam import OverheadExam
from gatemark.plugins.overhead.settings import Override
from gatemark.plugins.overhead.views import SHOWN_BINS
from gatemark.plugins.overhead.window_numbers import WindowPair
from gatemark.testing.exams import check_exam

from .arms import count_arm, loss_arm

DEV = Override("profile", "dev", "pilot", "ada", "runs/7")


def rows(count: int = 40, basis: Any = "loss") -> list[WindowPair]:
    draw = np.random.default_rng(1)
    if basis == "count":
        return [WindowPair(basis, f"w{i}", 5, 4, int(draw.integers(3, 6))) for i in range(count)]
    return [
        WindowPair(basis, f"w{i}", int(draw.integers(5, 50)), 2.0, 2 + draw.normal(0.01, 0.1), 2.0)
        for i in range(count)
    ]


@pytest.mark.parametrize("basis", ["loss", "count"])
@pytest.mark.parametrize("noise", [False, True])
def test_any_split_gives_the_same_report(basis: Any, noise: bool) -> None:
    exam = OverheadExam(OverheadOptions(profile="dev", overrides=(DEV,), noise=noise))
    check_exam(exam, rows(basis=basis))


def examined(folder: Path, bare: list[float], guarded: list[float], **options: Any) -> Any:
    paths = {
        "bare": str(loss_arm(folder / "b.jsonl", "bare", bare)),
        "guarded": str(loss_arm(folder / "g.jsonl", "guarded", guarded)),
    }
    return examine_overhead(paths, msgspec.to_builtins(options), ReadingChoices())


def test_the_suite_is_known_by_its_kind() -> None:
    suite = suites().get("overhead")
    assert isinstance(suite, ExamSuite)
    assert [rule.id for rule in suite.build(suite.options(), measures()).policy().rules] == [
        *("overhead.pairing", "overhead.quality", "overhead.plausible"),
        *("overhead.acts", "overhead.windows", "overhead.tokens"),
    ]


@pytest.mark.parametrize(
    ("shift", "expected"),
    [(0.0, 1.0), (math.log(1.01), 0.99), (math.log(1.5), 0.5), (math.log(3), 0), (-0.05, 1.0)],
)
def test_the_score_of_a_pack_is_one_minus_the_overhead(
    tmp_path: Path, shift: float, expected: float
) -> None:
    found = examined(tmp_path, [2.0] * 9, [2.0 + shift] * 9)
    assert found.report.score.value == pytest.approx(expected)
    assert found.report.score.direction == "higher_is_better"


def test_accuracy_scores_by_points(tmp_path: Path) -> None:
    paths = {
        "bare": str(count_arm(tmp_path / "b.jsonl", "bare", [(9, 10)] * 9)),
        "guarded": str(count_arm(tmp_path / "g.jsonl", "guarded", [(7, 10)] * 9)),
    }
    assert examine_overhead(paths, {}, ReadingChoices()).report.score.value == pytest.approx(0.8)


def test_without_a_measurement_there_is_no_score(tmp_path: Path) -> None:
    found = examined(tmp_path, [2.0] * 9, [2.0] * 8)
    assert found.report.score.value is None
    assert "arm.window_count" not in str(found.report.score.reason)
    assert "pair.plan" in str(found.report.score.reason)
    assert (found.evidence.usable, found.evidence.missing, found.evidence.expected) == (8, 1, 9)


def test_the_account_of_a_whole_pair_is_whole(tmp_path: Path) -> None:
    found = examined(tmp_path, [2.0] * 9, [2.0] * 9).evidence
    assert (found.received, found.accepted, found.usable, found.missing) == (20, 20, 9, 0)
    assert [file.name for file in found.files] == [
        str(tmp_path / "b.jsonl"),
        str(tmp_path / "g.jsonl"),
    ]


def test_the_plot_shows_every_window_or_ranges_of_neighbours(tmp_path: Path) -> None:
    for count in (50, SHOWN_BINS * 3 + 1):
        bare = np.full(count, 2.0)
        guarded = bare + np.random.default_rng(0).normal(0, 0.1, count)
        found = examined(tmp_path, bare.tolist(), guarded.tolist(), profile="dev", overrides=[DEV])
        (shifts,) = (e for e in found.report.figures if isinstance(e, Shifts))
        assert len(shifts.bins) <= SHOWN_BINS
        assert shifts.bins[-1].last == count
        assert max(bin_.high for bin_ in shifts.bins) == pytest.approx((guarded - bare).max())
        assert shifts.bound == pytest.approx(math.log(1.05))
    tables = [e.title for e in found.report.figures if isinstance(e, Table)]
    assert tables[0] == "Arms side by side"
    assert tables[1].startswith("Three axes")


def test_files_that_nobody_knows_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown file role 'third'"):
        examine_overhead({"bare": "a", "third": "b"}, {}, ReadingChoices())
    with pytest.raises(UsageError, match="overhead: "):
        examine_overhead({"bare": "a", "guarded": "b"}, {"budget": 1}, ReadingChoices())
