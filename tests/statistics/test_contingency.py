from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from gatemark.core.errors import InvalidValueError
from gatemark.statistics import contingency
from gatemark.statistics.contingency import (
    affordable_resamples,
    build_confusion,
    cohen_kappa,
    cohen_kappa_each,
    gwet_ac1,
    gwet_ac1_each,
    kappa_analytic_interval,
    kappa_variance,
    multinomial_bootstrap,
)

Table = np.ndarray[Any, np.dtype[np.int64]]

DEGENERATE = {
    "one cell on the diagonal": [[50, 0], [0, 0]],
    "one cell off the diagonal": [[0, 7], [0, 0]],
    "first rater constant": [[30, 4, 6], [0, 0, 0], [0, 0, 0]],
    "second rater constant": [[0, 5], [0, 15]],
    "a label nobody uses": [[10, 2, 0], [3, 12, 0], [0, 0, 0]],
    "a label one rater never uses": [[10, 2, 1], [0, 0, 0], [3, 1, 9]],
    "one item agreed": [[0, 0], [0, 1]],
    "one item disagreed": [[0, 1], [0, 0]],
    "full agreement": [[5, 0, 0], [0, 6, 0], [0, 0, 7]],
    "full disagreement": [[0, 5], [8, 0]],
    "two items, two labels": [[1, 0], [0, 1]],
}


def random_tables(count: int = 240) -> list[Table]:
    rng = np.random.default_rng(4)
    tables: list[Table] = []
    for index in range(count):
        size = int(rng.integers(2, 7))
        n = int(rng.integers(1, 400))
        match index % 4:
            case 0:  # even
                shares = np.full(size * size, 1 / (size * size))
            case 1:  # most on the diagonal
                shares = (np.eye(size) * 4 + 0.2).ravel()
            case 2:  # one label dominates
                label = rng.dirichlet(np.full(size, 0.15))
                shares = np.outer(label, label).ravel() + np.diag(label).ravel()
            case _:  # most cells empty
                shares = rng.dirichlet(np.full(size * size, 0.05))
        tables.append(rng.multinomial(n, shares / shares.sum()).reshape(size, size))
    return tables


TABLES = [*(np.array(rows) for rows in DEGENERATE.values()), *random_tables()]


def kappa_by_definition(table: Table) -> Fraction | None:
    cells = table.tolist()
    labels = range(len(cells))
    n = sum(map(sum, cells))
    agreement = sum(Fraction(cells[i][i], n) for i in labels)
    by_chance = sum(
        Fraction(sum(cells[i]), n) * Fraction(sum(row[i] for row in cells), n) for i in labels
    )
    return None if by_chance == 1 else (agreement - by_chance) / (1 - by_chance)


def ac1_by_definition(table: Table, categories: int) -> Fraction:
    if categories == 1:
        return Fraction(1)
    cells = table.tolist()
    labels = range(len(cells))
    n = sum(map(sum, cells))
    agreement = sum(Fraction(cells[i][i], n) for i in labels)
    prevalence = [Fraction(sum(cells[i]) + sum(row[i] for row in cells), 2 * n) for i in labels]
    by_chance = sum(share * (1 - share) for share in prevalence) / (categories - 1)
    return (agreement - by_chance) / (1 - by_chance)


def ratings(table: Table) -> tuple[list[int], list[int]]:
    pairs = [pair for pair, count in np.ndenumerate(table) for _ in range(int(count))]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def test_the_tables_include_enough_defined_and_undefined_ones() -> None:
    undefined_count = sum(kappa_by_definition(table) is None for table in TABLES)
    assert undefined_count >= 10
    assert len(TABLES) - undefined_count >= 200


@pytest.mark.parametrize("table", TABLES)
def test_kappa_equals_its_definition_in_exact_fractions(table: Table) -> None:
    expected = kappa_by_definition(table)
    found = cohen_kappa(table)
    if expected is None:
        assert found.value is None
        assert found.reason == contingency.ONE_LABEL()
    else:
        assert found.value == float(expected)


def test_kappa_equals_scikit_learn() -> None:
    for table in TABLES:
        first, second = ratings(table)
        labels = range(len(table))
        found = cohen_kappa(table)
        if found.value is None:
            with pytest.warns(UndefinedMetricWarning):
                assert math.isnan(cohen_kappa_score(first, second, labels=labels))
        else:
            expected = cohen_kappa_score(first, second, labels=labels)
            assert found.value == pytest.approx(expected, abs=1e-12)


def test_kappa_its_variance_and_its_interval_equal_statsmodels() -> None:
    for table in TABLES:
        kappa, variance = cohen_kappa(table), kappa_variance(table)
        interval = kappa_analytic_interval(table).interval
        if kappa.value is None:
            assert (variance.value, interval) == (None, None)
            continue
        assert interval is not None
        with np.errstate(all="ignore"):  # its test statistic divides by a variance of zero
            expected = cohens_kappa(table)
            std = math.sqrt(max(0.0, expected.var_kappa))
        assert kappa.value == pytest.approx(expected.kappa, abs=1e-12)
        assert variance.value == pytest.approx(expected.var_kappa, abs=1e-12)
        assert interval.low == pytest.approx(
            max(-1, expected.kappa - 1.959963984540054 * std), abs=1e-7
        )
        assert interval.high == pytest.approx(
            min(1, expected.kappa + 1.959963984540054 * std), abs=1e-7
        )
        if expected.var_kappa > 1e-9 and expected.kappa_upp < 1 and expected.kappa_low > -1:
            assert interval.low == pytest.approx(expected.kappa_low, abs=1e-9)
            assert interval.high == pytest.approx(expected.kappa_upp, abs=1e-9)


@pytest.mark.parametrize("table", TABLES)
def test_ac1_equals_its_definition_for_both_label_spaces(table: Table) -> None:
    occurring = int(((table.sum(axis=0) + table.sum(axis=1)) > 0).sum())
    assert gwet_ac1(table, label_space="occurring").value == float(
        ac1_by_definition(table, occurring)
    )
    assert gwet_ac1(table, label_space="table").value == float(ac1_by_definition(table, len(table)))


def test_published_agreement_tables() -> None:
    # Gwet (2008), table of 125 items: agreement .944, kappa -.023, AC1 .941.
    skewed = [[118, 5], [2, 0]]
    assert cohen_kappa(skewed).value == pytest.approx(-0.0234, abs=5e-5)
    assert gwet_ac1(skewed, label_space="table").value == pytest.approx(0.9408, abs=5e-5)
    # Three abstractors' table from irrCAC's documentation: AC1 .84933.
    abstractors = [[13, 0, 0], [0, 20, 7], [0, 4, 56]]
    assert gwet_ac1(abstractors, label_space="table").value == pytest.approx(0.84933, abs=5e-6)


def test_an_unused_label_changes_ac1_only_when_it_counts_as_a_category() -> None:
    two, three = [[8, 2], [1, 9]], [[8, 2, 0], [1, 9, 0], [0, 0, 0]]
    # pi = 19/40, 21/40: chance is 2 * 399/1600 over 1, or over 2 with the third label.
    assert gwet_ac1(two, label_space="table").value == pytest.approx((0.85 - 0.49875) / 0.50125)
    assert gwet_ac1(three, label_space="occurring") == gwet_ac1(two, label_space="table")
    assert gwet_ac1(three, label_space="table").value == pytest.approx((0.85 - 0.249375) / 0.750625)


def test_one_category_gives_ac1_of_one_and_no_kappa() -> None:
    assert gwet_ac1([[50]], label_space="table").value == 1.0
    assert gwet_ac1([[50, 0], [0, 0]], label_space="occurring").value == 1.0
    assert cohen_kappa([[50]]).value is None


@pytest.mark.parametrize("table", [np.zeros((0, 0), dtype=int), [[0, 0], [0, 0]]])
def test_no_items_give_reasons_and_no_numbers(table: Any) -> None:
    for found in (
        cohen_kappa(table),
        gwet_ac1(table, label_space="table"),
        gwet_ac1(table, label_space="occurring"),
        kappa_variance(table),
    ):
        assert (found.value, found.reason) == (None, contingency.NOTHING_TO_COMPARE())
    assert kappa_analytic_interval(table).reason == contingency.NOTHING_TO_COMPARE()
    drawn = multinomial_bootstrap(table, cohen_kappa_each, seed=1)
    assert (drawn.interval, drawn.reason) == (None, contingency.NOTHING_TO_COMPARE())


def test_a_stack_gives_what_its_tables_give_one_by_one() -> None:
    for size in range(2, 7):
        stack = np.array([table for table in TABLES if len(table) == size])
        assert len(stack) > 10
        for each, single in (
            (cohen_kappa_each, cohen_kappa),
            (lambda t: gwet_ac1_each(t, "table"), lambda t: gwet_ac1(t, label_space="table")),
            (
                lambda t: gwet_ac1_each(t, "occurring"),
                lambda t: gwet_ac1(t, label_space="occurring"),
            ),
        ):
            expected = [single(table).value for table in stack]
            found = [None if math.isnan(value) else value for value in each(stack)]
            assert found == expected


def test_the_order_of_the_labels_changes_no_bit() -> None:
    rng = np.random.default_rng(8)
    for table in TABLES:
        order = rng.permutation(len(table))
        moved = table[np.ix_(order, order)]
        assert cohen_kappa(moved) == cohen_kappa(table)
        assert gwet_ac1(moved, label_space="table") == gwet_ac1(table, label_space="table")


def test_kappa_of_a_million_items_is_still_defined_when_one_item_differs() -> None:
    found = cohen_kappa([[10**6 - 1, 1], [0, 0]])
    assert found.value == 0.0


def test_confusion_sorts_labels_and_keeps_raters_apart() -> None:
    labels, table = build_confusion({"b": {"a": 2}, "a": {"c": 1, "a": 5}})
    assert labels == ("a", "b", "c")
    assert table.tolist() == [[5, 0, 1], [2, 0, 0], [0, 0, 0]]
    assert build_confusion({})[1].shape == (0, 0)


class Recorder:
    def __init__(self, statistic: Callable[[Table], Any]) -> None:
        self.statistic = statistic
        self.values: list[float] = []
        self.tables: list[Table] = []

    def __call__(self, tables: Table) -> Any:
        values = self.statistic(tables)
        self.tables.extend(tables)
        self.values.extend(values.tolist())
        return values


def test_table_draws_spread_like_index_draws() -> None:
    table = np.array([[30, 6], [8, 16]])
    recorder = Recorder(cohen_kappa_each)
    interval = multinomial_bootstrap(table, recorder, resamples=4000, seed=3).interval
    assert interval is not None

    first, second = (np.array(side) for side in ratings(table))
    rng = np.random.default_rng(9)
    by_index = []
    for _ in range(4000):
        chosen = rng.integers(0, 60, size=60)
        redrawn = np.zeros((2, 2), dtype=np.int64)
        np.add.at(redrawn, (first[chosen], second[chosen]), 1)
        exact = kappa_by_definition(redrawn)
        assert exact is not None
        by_index.append(float(exact))

    # 4,000 draws each: an SD has a relative error near 1.1 %, an end point one near .005.
    assert np.std(recorder.values) == pytest.approx(np.std(by_index), rel=0.06)
    assert interval.low == pytest.approx(np.quantile(by_index, 0.025), abs=0.025)
    assert interval.high == pytest.approx(np.quantile(by_index, 0.975), abs=0.025)


def test_bootstrap_and_analytic_interval_agree_on_a_large_table() -> None:
    table = [[3000, 250], [400, 1350]]
    analytic = kappa_analytic_interval(table).interval
    drawn = multinomial_bootstrap(table, cohen_kappa_each, seed=5).interval
    assert analytic is not None
    assert drawn is not None
    assert (drawn.low, drawn.high) == pytest.approx((analytic.low, analytic.high), abs=0.002)


def test_every_draw_keeps_the_total_and_leaves_empty_cells_empty() -> None:
    table = np.array([[3, 0, 1], [0, 0, 0], [2, 0, 7]])
    recorder = Recorder(cohen_kappa_each)
    multinomial_bootstrap(table, recorder, resamples=500, seed=2)
    drawn = np.array(recorder.tables)
    assert drawn.shape == (500, 3, 3)
    assert (drawn.sum(axis=(1, 2)) == 13).all()
    assert (drawn[:, table == 0] == 0).all()
    assert (drawn[:, table > 0].std(axis=0) > 0).all()


def test_the_same_seed_gives_the_same_interval_in_chunks_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = [[40, 3, 2], [5, 20, 1], [2, 2, 9]]
    whole = multinomial_bootstrap(table, cohen_kappa_each, seed=6, resamples=999)
    other_seed = multinomial_bootstrap(table, cohen_kappa_each, seed=7, resamples=999)
    monkeypatch.setattr(contingency, "_CELLS_PER_CHUNK", 9 * 100)
    chunked = multinomial_bootstrap(table, cohen_kappa_each, seed=6, resamples=999)
    assert chunked == whole
    assert other_seed != whole


@pytest.mark.parametrize(
    ("used_count", "draw_count"),
    [(0, 10_000), (16, 10_000), (2_000, 10_000), (4_000, 5_000), (65_536, 1_000)],
)
def test_large_tables_get_fewer_draws_by_a_fixed_rule(used_count: int, draw_count: int) -> None:
    table = np.zeros(70_000, dtype=np.int64)
    table[:used_count] = 3
    assert affordable_resamples(table) == draw_count


def test_a_wider_level_gives_a_wider_interval() -> None:
    table = [[40, 8], [5, 20]]
    narrow = multinomial_bootstrap(table, cohen_kappa_each, seed=6, level=0.8).interval
    wide = multinomial_bootstrap(table, cohen_kappa_each, seed=6, level=0.99).interval
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_many_undefined_draws_refuse_the_interval_and_are_counted() -> None:
    drawn = multinomial_bootstrap([[1, 0], [0, 1]], cohen_kappa_each, seed=1)
    assert drawn.interval is None
    assert drawn.undefined_count == pytest.approx(5000, abs=250)
    assert drawn.reason is not None
    assert drawn.reason.values == {"undefined": drawn.undefined_count, "draws": 10_000}
    assert str(drawn.reason) == (
        f"{drawn.undefined_count} of 10000 bootstrap draws were undefined, more than 5 %"
    )
    assert drawn.caveats == (f"no bootstrap interval: {drawn.reason}",)


def test_few_undefined_draws_keep_the_interval_and_are_counted() -> None:
    # Undefined when all 20 items fall on one label: .85 ** 20 + .15 ** 20 = .0388.
    drawn = multinomial_bootstrap([[17, 0], [0, 3]], cohen_kappa_each, seed=1)
    assert drawn.interval is not None
    assert drawn.undefined_count == pytest.approx(388, abs=80)
    assert drawn.caveats == (f"{drawn.undefined_count} of 10000 bootstrap draws were undefined",)


@pytest.mark.parametrize(
    ("table", "finding"),
    [
        ([[1, 2, 3], [4, 5, 6]], "must be square"),
        ([1, 2], "must be square"),
        ([[1, -1], [0, 2]], "must not hold -1"),
        ([[0.5, 0.5], [0.0, 1.0]], "whole numbers"),
    ],
)
def test_a_table_that_is_none_is_refused(table: Any, finding: str) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        cohen_kappa(table)


@pytest.mark.parametrize("options", [{"resamples": 0}, {"level": 1.0}, {"level": math.nan}])
def test_an_impossible_bootstrap_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        multinomial_bootstrap([[1, 1], [1, 1]], cohen_kappa_each, seed=1, **options)
