from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from gatemark.evidence.measures import measures
from gatemark.samples import compare_verdict
from gatemark.samples.compare_verdict import CompareSettings, ComparisonVerdict, judge_comparison
from gatemark.samples.measure import MEASURE
from gatemark.samples.pairing import pair_samples
from gatemark.samples.read_samples import SampleSet
from gatemark.samples.records import Sample

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "compare.md"


def side(scores: list[float], clusters: list[str] | None = None) -> SampleSet:
    found = SampleSet("side", "gatemark.sample/1")
    for number, score in enumerate(scores):
        cluster = clusters[number] if clusters else None
        record = Sample("gatemark.sample/1", f"q{number:04d}", {"s": score}, cluster=cluster)
        found.add(record, "cluster" if clusters else None)
    return found


def judged(
    base: list[float], cand: list[float], clusters: list[str] | None = None, **settings: float
) -> ComparisonVerdict:
    sides = side(base, clusters), side(cand, clusters)
    clustered = clusters is not None
    pairing = pair_samples(*sides, "s", clustered=clustered)
    return judge_comparison(
        measures(), pairing, *sides, CompareSettings(**settings), clustered=clustered
    )


def test_code_docstring_and_page_number_the_same_steps():
    promised = re.findall(r"^\((\d)\)", compare_verdict.__doc__ or "", re.MULTILINE)
    coded = re.findall(r"# Step (\d)\.", Path(compare_verdict.__file__).read_text())
    told = re.findall(r"^### \((\d)\)", PAGE.read_text(), re.MULTILINE)
    assert promised == coded == told == ["1", "2", "3", "4"]


def test_the_numbers_are_the_paired_measures_own():
    base, cand = [0.2, 0.4, 0.9, 0.5] * 8, [0.3, 0.4, 0.5, 0.6] * 8
    found = judged(base, cand).comparison
    by_name = {
        m.name: m for m in MEASURE.measure([(b, c, None) for b, c in zip(base, cand, strict=True)])
    }
    assert found is not None
    assert found.delta == by_name["delta"].value
    assert found.interval == by_name["delta"].interval
    assert found.p_value == by_name["p_value"].value


def test_a_few_identical_graded_runs_do_not_pass_by_a_zero_width_interval():
    few = judged([0.5] * 10, [0.5] * 10)
    assert few.comparison is not None
    assert few.comparison.interval is not None
    assert few.comparison.interval.low == few.comparison.interval.high == 0
    assert few.outcome == "inconclusive"
    assert judged([0.5] * 100, [0.5] * 100).outcome == "pass"


def test_a_drop_without_any_spread_can_still_fail():
    clusters = [f"c{i % 30}" for i in range(60)]
    found = judged([1.0] * 60, [0.0] * 60, clusters)
    assert found.comparison is not None
    assert found.comparison.p_value is None
    assert found.outcome == "fail"


def test_clusters_make_a_verdict_more_careful():
    clusters = [f"c{i // 10}" for i in range(100)]
    base = [1.0] * 100
    cand = [0.0] * 10 + [1.0] * 90
    assert judged(base, cand).outcome == "fail"
    found = judged(base, cand, clusters)
    assert found.outcome == "inconclusive"
    assert found.permutation_p_value == 1.0


@pytest.mark.parametrize("lost", range(0, 60, 6))
@pytest.mark.parametrize("margin", [None, 0.02, 0.1])
def test_more_losses_never_make_a_verdict_milder(lost: int, margin: float | None):
    order = {"pass": 0, "inconclusive": 1, "fail": 2}
    base = [1.0] * 300

    def outcome(count: int) -> int:
        cand = [0.0] * count + [1.0] * (300 - count)
        return order[judged(base, cand, margin=margin).outcome]

    assert outcome(lost) <= outcome(lost + 6)


def test_equal_models_rarely_fail():
    # 400 right-or-wrong comparisons of equal models: the exact test fails at most 2.5 % of them.
    import random

    draw = random.Random(4)
    fails = 0
    for _ in range(400):
        base, cand = ([float(draw.random() < 0.8) for _ in range(40)] for _ in range(2))
        fails += judged(base, cand).outcome == "fail"
    assert fails <= 18


def test_what_so_few_items_can_show_is_never_more_than_scores_can_differ():
    one = judged([1.0], [1.0])
    assert one.blockers[0].endswith("neither shown nor ruled out; 1 item cannot show any")
    many = judged([1.0] * 30, [1.0] * 29 + [0.0])
    assert "; 30 items can show 0." in many.blockers[0]


@pytest.mark.parametrize(
    ("lost", "outcome"), [(0, "pass"), (20, "inconclusive"), (28, "inconclusive"), (60, "fail")]
)
def test_with_a_margin_only_evidence_beyond_it_fails(lost: int, outcome: str):
    """Losing 28 of 400 is surely a drop and above 0.05, but may be a drop of 0.05."""
    found = judged([1.0] * 400, [0.0] * lost + [1.0] * (400 - lost), margin=0.05)
    assert found.outcome == outcome
    drop = found.non_inferiority
    assert drop is not None
    assert drop.lower is not None
    assert (found.outcome == "fail") == (drop.lower > 0.05)


def test_the_kind_of_score_chooses_the_bound():
    """Right or wrong: the bound of packs. Graded: the same if its range is declared."""
    rights = [1.0] * 500
    binary = judged(rights, [0.0] * 4 + rights[4:], margin=0.02)
    assert (binary.outcome, binary.non_inferiority.method) == ("pass", "score")
    assert judged(rights, [0.0] * 5 + rights[5:], margin=0.02).outcome == "inconclusive"

    base = [0.5, 0.7] * 60
    near = [score + (0.05 if n % 2 else -0.05) for n, score in enumerate(base)]
    unstated = judged(base, near, margin=0.02)
    assert (unstated.outcome, unstated.non_inferiority.method) == ("inconclusive", "gaffke")
    declared = judged(base, near, margin=0.02, largest_drop=0.2)
    assert (declared.outcome, declared.non_inferiority.method) == ("pass", "score")


def test_a_declared_range_that_does_not_hold_is_void():
    base = [0.5, 0.7] * 60
    near = [0.1, *(score + (0.05 if n % 2 else -0.05) for n, score in enumerate(base))][:120]
    found = judged(base, near, margin=0.02, largest_drop=0.2)
    assert found.outcome == "inconclusive"
    assert found.caveats[-1] == (
        "an item moved by more than largest_drop 0.2, so 1 is used instead"
    )
    assert found.non_inferiority.upper == pytest.approx(
        judged(base, near, margin=0.02, largest_drop=1.0).non_inferiority.upper
    )


def test_clusters_of_right_or_wrong_items_count_as_units():
    clusters = [f"c{n // 5}" for n in range(500)]
    rights = [1.0] * 500
    found = judged(rights, rights, clusters, margin=0.02)
    assert (found.outcome, found.non_inferiority.method) == ("inconclusive", "score")
    assert found.non_inferiority.upper == pytest.approx(-math.log(0.05) / 100)
