"""Bounds of pooled drops, against exact enumeration, the Poisson distribution and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, xlogy
from scipy.stats import chi2

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.clustered_means import Stratum, drop_of_counts, half_width, pooled_drop

ALPHA = 0.05


def drops(lost: int, gained: int, n: int) -> np.ndarray:
    return np.array([1.0] * lost + [-1.0] * gained + [0.0] * (n - lost - gained))


def trinomial(n: int, lost: float, gained: float) -> np.ndarray:
    """The chance of every (lost, gained) of n items."""
    a, b = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    rest = n - a - b
    logs = gammaln(n + 1) - gammaln(a + 1) - gammaln(b + 1) - gammaln(np.maximum(rest, 0) + 1)
    for count, share in ((a, lost), (b, gained), (rest, 1 - lost - gained)):
        logs = logs + xlogy(np.maximum(count, 0), share)
    return np.where(rest >= 0, np.exp(logs), 0.0)


def bounds_of_all(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of every (lost, gained), from the moments alone."""
    a, b = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    mean, square = (a - b) / n, (a + b) / n
    variance = np.maximum(square - mean**2, 0) / (n - 1)
    third = (mean - 3 * mean * square + 2 * mean**3) * (n / (n - 1)) ** 1.5 / n**2
    low = mean - half_width(variance, -third, 1 / n, ALPHA, n - 1)
    high = mean + half_width(variance, third, 1 / n, ALPHA, n - 1)
    return low, high


@pytest.mark.parametrize("n", [20, 50, 100, 150, 300])
def test_no_drop_of_the_margin_passes_or_fails_more_often_than_alpha(n: int) -> None:
    """Every outcome counted with its exact chance, for rare and for frequent differences."""
    low, high = bounds_of_all(n)
    for margin in (0.01, 0.02, 0.05, 0.1):
        for gained in (0.0, 0.002, 0.01, 0.02, 0.05, 0.2):
            chance = trinomial(n, margin + gained, gained)
            assert chance.sum() == pytest.approx(1)
            assert chance[high <= margin].sum() <= ALPHA + 1e-9, (margin, gained)
            assert chance[low > margin].sum() <= ALPHA + 1e-9, (margin, gained)


@pytest.mark.parametrize("lost", [0, 1, 2, 5, 10, 40])
def test_losses_alone_have_nearly_the_exact_poisson_bound(lost: int) -> None:
    n = 20_000
    _, high = pooled_drop([Stratum(1.0, drops(lost, 0, n))]).bounds(ALPHA)
    exact = chi2.ppf(1 - ALPHA, 2 * (lost + 1)) / 2
    assert high * n == pytest.approx(exact, rel=0.015)


def test_arms_that_never_differ_get_no_free_pass() -> None:
    found = pooled_drop([Stratum(1.0, np.zeros(100))])
    assert found.variance == 0
    assert found.bounds(ALPHA) == pytest.approx((-0.02996, 0.02996), abs=1e-5)


@pytest.mark.parametrize("margin", [0.0, 0.02, 0.05])
def test_the_p_value_is_where_the_lower_bound_crosses_the_margin(margin: float) -> None:
    found = pooled_drop([Stratum(1.0, drops(40, 5, 300))])
    p = found.beyond_p_value(margin)
    assert found.bounds(p)[0] == pytest.approx(margin, abs=1e-6)
    assert (p <= ALPHA) == (found.bounds(ALPHA)[0] > margin)
    assert found.beyond_p_value(0.5) == 1.0


def test_items_of_a_shared_unit_count_as_one() -> None:
    x = drops(4, 2, 60)
    alone = pooled_drop([Stratum(1.0, x)])
    doubled = pooled_drop(
        [Stratum(0.5, x, [str(i) for i in range(60)]), Stratum(0.5, x, [str(i) for i in range(60)])]
    )
    assert doubled.drop == pytest.approx(alone.drop)
    assert doubled.units == alone.units == 60
    assert doubled.variance == pytest.approx(alone.variance)
    assert doubled.leverage == pytest.approx(alone.leverage)
    assert doubled.bounds(ALPHA) == pytest.approx(alone.bounds(ALPHA))
    apart = pooled_drop([Stratum(0.5, x), Stratum(0.5, x)])
    assert (alone.groups, doubled.groups, apart.groups) == (1, 1, 2)
    assert apart.variance == pytest.approx(alone.variance / 2)


def test_the_variance_is_that_of_the_weighted_means() -> None:
    rng = np.random.default_rng(3)
    parts = [rng.uniform(-0.4, 0.5, size) for size in (30, 80)]
    found = pooled_drop([Stratum(0.3, parts[0]), Stratum(0.6, parts[1])])
    weights = (1 / 3, 2 / 3)
    drop = sum(w * part.mean() for w, part in zip(weights, parts, strict=True))
    variance = sum(
        w**2 * part.var(ddof=1) / part.size for w, part in zip(weights, parts, strict=True)
    )
    assert found.drop == pytest.approx(drop)
    assert found.variance == pytest.approx(variance)


def test_a_range_that_an_item_breaks_is_not_used() -> None:
    x = np.array([0.01, -0.01] * 50)
    narrow = pooled_drop([Stratum(1.0, x, largest_drop=0.2)])
    assert narrow.leverage == pytest.approx(0.002)
    broken = pooled_drop([Stratum(1.0, np.append(x, 0.3), largest_drop=0.2)])
    assert broken.leverage == pytest.approx(1 / 101)


def test_as_many_items_as_asked_for_decide() -> None:
    found = pooled_drop([Stratum(1.0, drops(12, 10, 300))])
    growth = found.growth_to_decide(0.02, ALPHA)
    assert growth is not None
    assert growth > 1
    times = math.ceil(growth)
    more = pooled_drop([Stratum(1.0, drops(12 * times, 10 * times, 300 * times))])
    assert more.bounds(ALPHA)[1] <= 0.02
    on_the_line = pooled_drop([Stratum(1.0, drops(6, 0, 300))])
    assert on_the_line.growth_to_decide(0.02, ALPHA) is None


RNG = np.random.default_rng(16)
TRIALS = 3_000


def passes(draw: np.ndarray, margin: float, size: float) -> float:
    """The share of samples, one a row, whose bound is within the margin."""
    n = draw.shape[1]
    mean = draw.mean(axis=1)
    rest = (draw - mean[:, None]) * math.sqrt(n / (n - 1))
    variance, third = (rest**2).sum(axis=1) / n**2, (rest**3).sum(axis=1) / n**3
    return float((mean + half_width(variance, third, size / n, ALPHA, n - 1) <= margin).mean())


@pytest.mark.parametrize("n", [30, 100, 300])
@pytest.mark.parametrize("margin", [0.02, 0.05])
def test_graded_scores_hold_their_level(n: int, margin: float) -> None:
    allowed = ALPHA + 2.33 * math.sqrt(ALPHA * (1 - ALPHA) / TRIALS)
    shape = (TRIALS, n)
    rare = np.where(RNG.random(shape) < margin, 1.0, RNG.normal(0, 0.05, shape)).clip(-1, 1)
    steps = RNG.choice([0.25, 0.5, 0.75, 1.0], shape)
    share = RNG.random(shape)
    graded = np.where(share < 0.05 + margin / 0.625, steps, np.where(share > 0.95, -steps, 0))
    narrow = RNG.normal(margin, 0.1, shape).clip(-0.4, 0.4)
    for draw, size in ((rare, 1.0), (graded, 1.0), (narrow, 0.4)):
        assert passes(draw, margin, size) <= allowed


def test_graded_scores_cost_less_than_the_bound_for_any_distribution() -> None:
    """100 items with a spread of 0.1: Gaffke's bound passes 95 % and 9 % of equal candidates."""
    same = RNG.normal(0, 0.1, (TRIALS, 100)).clip(-0.4, 0.4)
    assert passes(same, 0.05, 1.0) >= 0.96
    assert passes(same, 0.02, 1.0) >= 0.12
    assert passes(same, 0.02, 0.4) >= 0.40


def test_clusters_hold_their_level() -> None:
    """200 clusters of three items that fall together."""
    margin, wrong = 0.03, 0
    for _ in range(400):
        fell = RNG.random(200) < margin
        x = np.repeat(fell.astype(float), 3)
        names = [str(i // 3) for i in range(600)]
        wrong += pooled_drop([Stratum(1.0, x, names)]).bounds(ALPHA)[1] <= margin
    assert wrong / 400 <= ALPHA + 2.33 * math.sqrt(ALPHA * (1 - ALPHA) / 400)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(2, 40), st.integers(0, 10), st.integers(0, 10), st.integers(1, 9)),
        min_size=1,
        max_size=4,
    ),
)
def test_the_order_of_items_and_strata_changes_nothing(
    parts: list[tuple[int, int, int, int]],
) -> None:
    strata = [
        Stratum(weight, drops(lost, gained, n + lost + gained)) for n, lost, gained, weight in parts
    ]
    shuffled = [
        Stratum(one.weight, np.random.default_rng(1).permutation(one.drops))
        for one in reversed(strata)
    ]
    ours, theirs = pooled_drop(strata), pooled_drop(shuffled)
    assert ours.bounds(ALPHA) == pytest.approx(theirs.bounds(ALPHA), abs=1e-12)
    assert ours.bounds(ALPHA)[0] <= ours.drop + 1e-12 <= ours.bounds(ALPHA)[1] + 2e-12


@pytest.mark.parametrize(
    "strata",
    [
        [],
        [Stratum(0.0, np.zeros(3))],
        [Stratum(1.0, np.array([1.5]))],
        [Stratum(1.0, np.array([]))],
        [Stratum(1.0, np.zeros(3), largest_drop=0.0)],
    ],
)
def test_what_makes_no_sense_is_refused(strata: list[Stratum]) -> None:
    with pytest.raises(InvalidValueError):
        pooled_drop(strata)


def test_one_unit_per_stratum_says_nothing() -> None:
    found = pooled_drop([Stratum(1.0, np.zeros(50), ["same"] * 50)])
    assert found.bounds(ALPHA) == (-1.0, 1.0)
    assert pooled_drop([Stratum(1.0, np.zeros(9))]).bounds(ALPHA) == (-1.0, 1.0)
    assert pooled_drop([Stratum(1.0, np.zeros(10))]).bounds(ALPHA)[1] < 0.3
    assert found.growth_to_decide(0.02, ALPHA) is None


@pytest.mark.parametrize(
    ("lost", "gained", "n"), [(0, 0, 40), (40, 0, 40), (3, 1, 60), (9, 30, 80)]
)
def test_counts_say_what_their_items_say(lost: int, gained: int, n: int) -> None:
    items = pooled_drop((Stratum(1.0, drops(lost, gained, n)),))
    counts = drop_of_counts(lost, gained, n)
    for name in ("drop", "variance", "third", "leverage"):
        assert getattr(counts, name) == pytest.approx(getattr(items, name), abs=1e-15), name
    assert (counts.n, counts.units, counts.groups) == (items.n, items.units, items.groups)
    assert counts.bounds(0.05) == pytest.approx(items.bounds(0.05))


@pytest.mark.parametrize(("lost", "gained", "n"), [(0, 0, 0), (-1, 0, 5), (3, 3, 5)])
def test_counts_beyond_their_items_are_refused(lost: int, gained: int, n: int) -> None:
    with pytest.raises(InvalidValueError, match="within n"):
        drop_of_counts(lost, gained, n)
