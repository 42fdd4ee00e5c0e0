from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from gatemark.core.errors import InvalidValueError
from gatemark.samples.measure import MEASURE, build_paired_table, compare_paired
from gatemark.statistics.clustered_means import mean_estimate
from gatemark.testing.folds import check_fold

BINARY = st.none() | st.sampled_from([0, 1])
GRADED = st.none() | st.sampled_from([0.0, 0.1, 0.35, 0.7, 1.0]) | st.floats(0, 1)
NO_CLUSTER = st.none()
CLUSTER = st.none() | st.sampled_from(["a", "b", "c", "d", ""])


def _items(score, cluster):
    return st.lists(st.tuples(score, score, cluster), max_size=25)


# A graded fold resamples each time it finishes, so few examples must do.
@pytest.mark.parametrize(
    ("score", "cluster", "examples"),
    [(BINARY, NO_CLUSTER, 15), (GRADED, NO_CLUSTER, 4), (BINARY, CLUSTER, 4), (GRADED, CLUSTER, 4)],
)
def test_it_keeps_the_laws_of_a_fold(score, cluster, examples):
    @settings(deadline=None, max_examples=examples, derandomize=True)
    @given(_items(score, cluster))
    def laws(items):
        check_fold(MEASURE, [items])

    laws()


@settings(deadline=None, max_examples=15)
@given(_items(GRADED, CLUSTER))
def test_counted_items_give_what_single_items_give(items):
    counted = MEASURE.step(MEASURE.zero(), Counter(items))
    assert build_paired_table(counted).deltas.tolist() == (
        build_paired_table(MEASURE.step(MEASURE.zero(), items)).deltas.tolist()
    )
    assert MEASURE.finish(counted) == MEASURE.measure(items)


def _found(items):
    return {m.name: m for m in MEASURE.measure(items)}


def test_right_or_wrong_answers_give_the_cells_and_mcnemar():
    rng = np.random.default_rng(1)
    for _ in range(50):
        items = [(int(b), int(c), None) for b, c in rng.integers(0, 2, (60, 2))]
        found = _found(items)
        cells = [[items.count((i, j, None)) for j in (1, 0)] for i in (1, 0)]
        assert found["both_right"].value == cells[0][0]
        assert found["lost"].value == cells[0][1]
        assert found["gained"].value == cells[1][0]
        assert found["both_wrong"].value == cells[1][1]
        assert found["p_value"].value == pytest.approx(mcnemar(cells).pvalue)
        assert found["delta"].value == pytest.approx((cells[1][0] - cells[0][1]) / 60)
        assert found["delta"].interval.method == "melded exact"


def test_errors_stay_out_of_the_delta_and_are_counted_by_side():
    found = _found([(1, 1, None), (None, 1, None), (0, None, None), (None, None, None)])
    assert found["delta"].n == 1
    assert found["delta"].excluded == {"base_error": 1, "cand_error": 1, "both_error": 1}
    assert (found["base_errors"].value, found["cand_errors"].value) == (2, 2)
    assert found["base_errors"].n == 4


def test_one_graded_score_makes_the_whole_comparison_graded():
    found = _found([(1, 0, None)] * 5 + [(0, 1, None), (0.5, 1, None)])
    assert found["lost"].value is None
    assert str(found["lost"].reason) == "1 of 7 items have graded scores"
    assert found["delta"].interval.method == "bca"


def test_clusters_are_those_of_the_items():
    rng = np.random.default_rng(2)
    names = [f"doc-{i}" for i in rng.integers(0, 12, 80)]
    base, cand = rng.random(80), rng.random(80)
    items = list(zip(base.tolist(), cand.tolist(), names, strict=True))
    state = MEASURE.step(MEASURE.zero(), items)
    found = compare_paired(state)
    expected = mean_estimate(cand - base, names)
    assert found.delta == pytest.approx(expected.mean)
    assert (found.interval.low, found.interval.high) == pytest.approx(expected.bounds(0.025))
    assert found.p_value == pytest.approx(expected.p_value())


def test_items_without_a_cluster_stand_alone_among_clusters():
    state = MEASURE.step(
        MEASURE.zero(), [(0, 1, None), (1, 0, None), (0, 1, None), (0, 1, "a"), (1, 0, "a")]
    )
    pairs = build_paired_table(state)
    assert len(set(pairs.clusters.tolist())) == 4
    assert pairs.n == 5


def test_clusters_make_right_or_wrong_answers_less_certain():
    alone = [(0, 1, None)] * 20 + [(1, 1, None)] * 80
    together = [(b, c, f"doc-{i // 20}") for i, (b, c, _) in enumerate(alone)]
    assert _found(alone)["p_value"].value < 1e-4
    assert _found(together)["p_value"].value > 0.1


def test_another_seed_moves_a_resampled_interval_a_little():
    rng = np.random.default_rng(3)
    items = [(float(b), float(c), None) for b, c in rng.random((80, 2))]
    state = MEASURE.step(MEASURE.zero(), items)
    one, two = (
        compare_paired(state, seed=1, resamples=999),
        compare_paired(state, seed=2, resamples=999),
    )
    assert one != two
    assert one.interval.low == pytest.approx(two.interval.low, abs=0.02)
    assert compare_paired(state, seed=1, resamples=999) == one
    assert compare_paired(MEASURE.zero()) is None


def test_right_or_wrong_answers_need_three_rows_of_state():
    items = [(i % 2, i % 3 == 0, None) for i in range(6000)]
    state = MEASURE.step(MEASURE.zero(), [(b, int(c), k) for b, c, k in items])
    assert sum(map(len, state.runs)) == 3 * 33


@pytest.mark.parametrize("item", [(float("nan"), 1, None), (1, float("inf"), None)])
def test_a_broken_score_is_refused(item):
    with pytest.raises(InvalidValueError, match="paired scores must be finite"):
        MEASURE.step(MEASURE.zero(), [item])
