"""Agreement of any number of raters over nominal labels, with missing ratings.

A ``RatingTable`` has a row per item and a column per rater. Every coefficient is a function of sums
over items, so its standard error follows from its derivatives by those sums (the delta method): the
derivative in the direction of one item is the imaginary part of the coefficient with a tiny
imaginary share of that item added, which is exact for quotients of sums. This gives the standard
errors of Gwet (Handbook of Inter-Rater Reliability), which irrCAC prints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.core.reason import ReasonKind
from gatemark.statistics.contingency import NO_PAIRS
from gatemark.statistics.proportion import Estimate, wilson_interval

MISSING: Final = -1
ALL_ONE_LABEL: Final = ReasonKind(
    "all_one_label", "chance agreement is 1: every rating is one and the same label"
)
_STEP: Final = 1e-30
_SMALLEST_ROOM: Final = 1e-12

Codes = npt.NDArray[np.int32]
Numbers = npt.NDArray[Any]
Coefficient = Callable[["_Sums"], Numbers]


class RaterEstimate(NamedTuple):
    """A coefficient with its intervals; without a value there is a reason.

    ``delta`` is the interval of the delta method, which is too narrow if few items have any but the
    most used label, and has no width if raters never differ. ``interval`` is widened to the values
    of the coefficient at both ends of Wilson's interval of percent agreement.
    """

    estimate: Estimate
    standard_error: float | None = None
    delta: Interval | None = None
    interval: Interval | None = None


class LabelAgreement(NamedTuple):
    """How raters used one label: its uses, the items that have it, and the agreement on it.

    ``value`` is the specific agreement: the share of the label's pairs of ratings, one of which has
    the label, in which the other has it too. The interval is Wilson's for the items, each counted
    as if it were one pair: with more raters than two it is too wide rather than too narrow.
    """

    uses: int
    items: int
    value: float
    low: float
    high: float


class _Sums(NamedTuple):
    """Sums over items, a row per set of weights.

    ``all`` counts the items with a rating, ``paired`` those with two; ``agreed`` adds up the
    agreement of each paired item, ``shares`` the share of each label, ``by_rater`` the labels of
    each rater. The last three are for alpha, over paired items.
    """

    all: Numbers
    paired: Numbers
    agreed: Numbers
    shares: Numbers
    by_rater: Numbers
    ratings: Numbers
    uses: Numbers
    clashes: Numbers


class RatingTable:
    """Labels as codes, a row per item and a column per rater; ``MISSING`` where there is none."""

    def __init__(self, codes: npt.ArrayLike, label_count: int) -> None:
        self.codes: Codes = np.asarray(codes, dtype=np.int32)
        if self.codes.ndim != 2:
            raise InvalidValueError(f"expected items by raters, got {self.codes.ndim} axes")
        if self.codes.size and not MISSING <= self.codes.min() <= self.codes.max() < label_count:
            raise InvalidValueError(f"codes must be in [{MISSING}, {label_count})")
        self.label_count = label_count
        patterns, weights = np.unique(self.codes, axis=0, return_counts=True)
        has_rating = (patterns != MISSING).any(axis=1)
        self._patterns: Codes = patterns[has_rating]
        self._weights = weights[has_rating]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many raters gave each label to each item."""
        return _count_codes(self.codes, self.label_count)

    @cached_property
    def rated(self) -> npt.NDArray[np.int64]:
        """The number of ratings of each item."""
        ratings: npt.NDArray[np.int64] = self.counts.sum(axis=1)
        return ratings

    @property
    def paired_count(self) -> int:
        """The number of items with at least two ratings."""
        return int((self.rated >= 2).sum())

    @cached_property
    def _parts(self) -> _Sums:
        """What one item of each pattern adds to the sums."""
        counts = _count_codes(self._patterns, self.label_count).astype(np.float64)
        rated = counts.sum(axis=1)
        paired = rated >= 2
        others = np.where(paired, rated - 1, 1.0)
        same = (counts * (counts - 1)).sum(axis=1)
        one_hot = self._patterns[:, :, np.newaxis] == np.arange(self.label_count)
        return _Sums(
            all=np.ones(rated.size),
            paired=paired.astype(np.float64),
            agreed=same / (rated * others),
            shares=counts / rated[:, np.newaxis],
            by_rater=one_hot.astype(np.float64),
            ratings=np.where(paired, rated, 0.0),
            uses=np.where(paired[:, np.newaxis], counts, 0.0),
            clashes=np.where(paired, rated - same / others, 0.0),
        )

    @cached_property
    def _totals(self) -> _Sums:
        return _Sums(*(np.tensordot(self._weights, part, axes=1) for part in self._parts))

    def estimate(
        self, coefficient: Coefficient, level: float, *, empty_differ: bool = False
    ) -> RaterEstimate:
        """Return a coefficient over all items, with its interval.

        With ``empty_differ`` the interval covers the value that the coefficient has if every empty
        cell differs from all other labels of its item.
        """
        totals = self._totals
        if not totals.paired:
            return RaterEstimate(Estimate(None, NO_PAIRS()))
        value = float(coefficient(_Sums(*(total[np.newaxis] for total in totals)))[0])
        if math.isnan(value):
            return RaterEstimate(Estimate(None, ALL_ONE_LABEL()))
        n = int(totals.paired if coefficient is krippendorff_alpha else totals.all)
        if n < 2:
            return RaterEstimate(Estimate(value))
        nudged = _Sums(
            *(
                total + 1j * _STEP * (n * part - total)
                for total, part in zip(totals, self._parts, strict=True)
            )
        )
        slopes = coefficient(nudged).imag / _STEP
        error = math.sqrt(float(self._weights @ slopes**2) / (n * (n - 1)))
        half_width = float(scipy.special.stdtrit(n - 1, (1 + level) / 2)) * error
        low, high = max(-1.0, value - half_width), min(1.0, value + half_width)
        delta = Interval(low=low, high=high, level=level, method="delta")
        ends = [low, high, *self._evaluate_ends(coefficient, level, empty_differ)]
        interval = Interval(
            low=max(-1.0, min(ends)), high=min(1.0, max(ends)), level=level, method="delta_wilson"
        )
        return RaterEstimate(Estimate(value), error, delta, interval)

    def _evaluate_ends(
        self, coefficient: Coefficient, level: float, empty_differ: bool
    ) -> list[float]:
        """Return the coefficient at both ends of percent agreement, chance being the same."""
        agreement = self.agreement_interval(level, empty_differ=empty_differ)
        totals = self._totals
        if agreement is None:
            return []
        ends = np.array([agreement.low, agreement.high])
        found = _Sums(*(np.stack([total, total]) for total in totals))
        at_ends = found._replace(agreed=ends * totals.paired, clashes=(1 - ends) * totals.ratings)
        return [float(value) for value in coefficient(at_ends)]

    @property
    def least_agreed(self) -> float:
        """The agreement of all items together, if no empty cell has the label of another cell."""
        raters = int(self.codes.shape[1])
        same = int((self.counts * (self.counts - 1)).sum())
        return float(same / max(1, raters * (raters - 1)))

    def agreement_interval(self, level: float, *, empty_differ: bool = False) -> Interval | None:
        """Return Wilson's interval of percent agreement; an item counts as one pair of ratings.

        With ``empty_differ`` the lower end is the one that it has if every empty cell differs from
        all other labels of its item. Then no empty cell can hide a label that lowers it further.
        """
        n = self.paired_count
        if not n:
            return None
        low, high = wilson_interval(min(float(self._totals.agreed), n), n, level)
        if empty_differ:
            low = wilson_interval(min(self.least_agreed, n), n, level)[0]
        return Interval(low=low, high=high, level=level, method="wilson")

    def label_agreement(self, label: int, level: float) -> LabelAgreement | None:
        """Return the agreement of all raters on a label; None if no comparable item has it."""
        has = (self.rated >= 2) & (self.counts[:, label] > 0)
        uses = self.counts[has, label]
        return _compute_label_agreement(
            int(uses.sum()),
            int(has.sum()),
            float((uses * (uses - 1)).sum()),
            float((uses * (self.rated[has] - 1)).sum()),
            level,
        )

    def rater_agreement(self, rater: int, label: int, level: float) -> LabelAgreement | None:
        """Return the agreement of one rater with the others on a label."""
        own = self.codes[:, rater] == label
        has = (self.codes[:, rater] != MISSING) & (self.rated >= 2) & (self.counts[:, label] > 0)
        own, others = own[has], self.counts[has, label] - own[has]
        shared = 2.0 * float((own * others).sum())
        total = float((own * (self.rated[has] - 1)).sum() + others.sum())
        return _compute_label_agreement(int(own.sum()), int(has.sum()), shared, total, level)

    def pair_agreement(self, first: int, second: int) -> tuple[int, int]:
        """Return how many items two raters both rated, and how many of those alike."""
        one, other = self.codes[:, first], self.codes[:, second]
        both = (one != MISSING) & (other != MISSING)
        return int(both.sum()), int((both & (one == other)).sum())


def percent_agreement(sums: _Sums) -> Numbers:
    """Return the mean over items of the share of rating pairs that agree."""
    # The number of paired items is taken as fixed, as in irrCAC, so the interval is slightly wide.
    return _divide(sums.agreed, sums.paired.real)


def fleiss_kappa(sums: _Sums) -> Numbers:
    """Return Fleiss' kappa: chance is two ratings drawn from the labels of all raters together."""
    chance = (_divide_each(sums.shares, sums.all) ** 2).sum(axis=-1)
    return _correct_for_chance(sums, chance)


def multi_rater_gwet_ac1(sums: _Sums) -> Numbers:
    """Return Gwet's AC1 over the labels of the table; 1 if there is only one label."""
    shares = _divide_each(sums.shares, sums.all)
    if shares.shape[-1] < 2:
        return np.ones_like(sums.agreed)
    return _correct_for_chance(sums, (shares * (1 - shares)).sum(axis=-1) / (shares.shape[-1] - 1))


def conger_kappa(sums: _Sums) -> Numbers:
    """Return Conger's kappa: chance is one rating of each of two raters; Cohen's for two raters."""
    ratings = sums.by_rater.sum(axis=-1)
    has_ratings = ratings.real > 0
    raters = has_ratings.sum(axis=-1)
    shares = sums.by_rater / np.where(has_ratings, ratings, 1.0)[..., np.newaxis]
    total, squares = shares.sum(axis=-2), (shares**2).sum(axis=(-2, -1))
    pairs = np.where(raters > 1, raters * (raters - 1), 1)
    return _correct_for_chance(sums, ((total**2).sum(axis=-1) - squares) / pairs)


def krippendorff_alpha(sums: _Sums) -> Numbers:
    """Return Krippendorff's alpha for nominal labels."""
    expected = sums.ratings**2 - (sums.uses**2).sum(axis=-1)
    expected = np.where(expected.real < _SMALLEST_ROOM * sums.ratings.real**2, 0.0, expected)
    # The factor is the correction for few ratings; as a constant, it has no derivative.
    factor = 1 - 1 / np.where(sums.ratings.real > 0, sums.ratings.real, 1.0)
    return 1 - factor * _divide(sums.ratings * sums.clashes, expected)


COEFFICIENTS: Final[dict[str, Coefficient]] = {
    "percent_agreement": percent_agreement,
    "fleiss_kappa": fleiss_kappa,
    "conger_kappa": conger_kappa,
    "ac1": multi_rater_gwet_ac1,
    "krippendorff_alpha": krippendorff_alpha,
}


def _correct_for_chance(sums: _Sums, chance: Numbers) -> Numbers:
    room = 1 - chance
    above_chance = percent_agreement(sums) - chance * _divide(sums.paired, sums.paired.real)
    return _divide(above_chance, np.where(room.real < _SMALLEST_ROOM, 0.0, room))


def _divide_each(parts: Numbers, total: Numbers) -> Numbers:
    quotient: Numbers = parts / total[..., np.newaxis]
    return quotient


def _divide(numerator: Numbers, denominator: Numbers) -> Numbers:
    """Divide; NaN where the denominator is zero."""
    is_zero = denominator == 0
    return np.where(is_zero, np.nan, numerator / np.where(is_zero, 1.0, denominator))


def _count_codes(codes: Codes, label_count: int) -> npt.NDArray[np.int64]:
    counts = np.zeros((codes.shape[0], label_count), dtype=np.int64)
    rows, raters = np.nonzero(codes != MISSING)
    np.add.at(counts, (rows, codes[rows, raters]), 1)
    return counts


def _compute_label_agreement(
    uses: int, items: int, shared: float, total: float, level: float
) -> LabelAgreement | None:
    if not total:
        return None
    value = shared / total
    # Among items of two ratings, s of which are alike, specific agreement is 2 s / (1 + s).
    alike = value / (2 - value)
    low, high = (2 * end / (1 + end) for end in wilson_interval(alike * items, items, level))
    return LabelAgreement(uses, items, value, low, high)


def tail_probability(drawn: int, marked: int, marked_drawn: int, total: int) -> float:
    """Return the probability of at least this many marked ones among ``drawn`` of ``total``."""
    top = min(drawn, marked)
    ways: Sequence[float] = [
        _log_choose(marked, k) + _log_choose(total - marked, drawn - k)
        for k in range(marked_drawn, top + 1)
        if drawn - k <= total - marked
    ]
    whole = _log_choose(total, drawn)
    return min(1.0, math.fsum(math.exp(way - whole) for way in ways))


def at_most_probability(count: int, trials: int, chance: float) -> float:
    """Return the probability of at most ``count`` successes in that many trials."""
    return float(scipy.special.bdtr(count, trials, chance))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
