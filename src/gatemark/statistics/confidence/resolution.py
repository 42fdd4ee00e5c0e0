"""Resolution of confidences: whether they are higher where answers are right.

Reliability alone can be had by always naming the mean accuracy; such a confidence says nothing
about any one answer. The area under the ROC curve is the chance that a right answer has a higher
confidence than a wrong one, with ties as one half.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
import scipy
from numpy.typing import NDArray

from gatemark.core.reason import Reason, ReasonKind
from gatemark.statistics.confidence.calibration import Groups, bin_index

SIGNIFICANCE = 0.05
LEVEL = 0.95
METHOD = "DeLong"
CONSTANT_CONFIDENCE: Final = ReasonKind(
    "constant_confidence",
    "every answer has the same confidence, which says nothing about any of them",
)
INVERTED_CONFIDENCE: Final = ReasonKind(
    "inverted_confidence",
    "right answers have lower confidences than wrong ones (AUROC {auroc:.4g}, "
    "p {p_value:.4g} < {alpha:g})",
)
ONE_FILLED_BIN: Final = ReasonKind(
    "one_filled_bin",
    "all confidences are in one bin and do not tell right answers from wrong ones "
    "(AUROC {auroc:.4g}, p {p_value:.4g})",
)


class Resolution(msgspec.Struct, frozen=True):
    """How well confidences tell right answers from wrong ones.

    ``auroc`` is null if all answers are right or all are wrong, and then so are the p-values:
    ``p_above`` that confidences without any information rank right answers as high, ``p_below`` as
    low (Mann and Whitney, with ties). ``interval`` is null with fewer than two answers of a kind.
    """

    auroc: float | None
    interval: tuple[float, float] | None
    p_above: float | None
    p_below: float | None
    distinct_count: int
    filled_bin_count: int

    @property
    def is_shown(self) -> bool:
        """Whether right answers have higher confidences, by more than chance."""
        return self.p_above is not None and self.p_above < SIGNIFICANCE

    @property
    def is_inverted(self) -> bool:
        """Whether right answers have lower confidences, by more than chance."""
        return self.p_below is not None and self.p_below < SIGNIFICANCE

    def explain_uninformative(self) -> Reason | None:
        """Return why the confidences say nothing about single answers, or None if they may."""
        if self.distinct_count == 1:
            return CONSTANT_CONFIDENCE()
        if self.is_inverted:
            return INVERTED_CONFIDENCE(auroc=self.auroc, p_value=self.p_below, alpha=SIGNIFICANCE)
        if self.filled_bin_count == 1 and self.auroc is not None and not self.is_shown:
            return ONE_FILLED_BIN(auroc=self.auroc, p_value=self.p_above)
        return None


def measure_resolution(groups: Groups, bins: int) -> Resolution:
    """Return the resolution of groups of equal confidence."""
    right = groups.correct.astype(np.float64)
    wrong = (groups.items - groups.correct).astype(np.float64)
    rights, wrongs = float(right.sum()), float(wrong.sum())
    filled = len(set(bin_index(groups.confidence, bins).tolist()))
    if not rights or not wrongs:
        return Resolution(None, None, None, None, groups.confidence.size, filled)
    # For each right answer, the share of wrong ones that it beats; and the other way round.
    beaten = (np.cumsum(wrong) - wrong / 2) / wrongs
    beating = (rights - np.cumsum(right) + right / 2) / rights
    auroc = math.fsum((right * beaten).tolist()) / rights
    below, above = _test_ranks(groups.items.astype(np.float64), auroc, rights, wrongs)
    return Resolution(
        auroc=auroc,
        interval=_find_interval(auroc, (right, beaten), (wrong, beating)),
        p_above=above,
        p_below=below,
        distinct_count=groups.confidence.size,
        filled_bin_count=filled,
    )


def _test_ranks(
    items: NDArray[np.float64], auroc: float, rights: float, wrongs: float
) -> tuple[float, float]:
    """Return the one-sided p-values that the area is so low, and so high, by chance."""
    total = rights + wrongs
    ties = math.fsum((items**3 - items).tolist()) / (total * (total - 1))
    deviation = math.sqrt(max(0.0, (total + 1 - ties) / (12 * rights * wrongs)))
    if deviation == 0:
        return 1.0, 1.0
    z = (auroc - 0.5) / deviation
    return float(scipy.special.ndtr(z)), float(scipy.special.ndtr(-z))


def _find_interval(
    auroc: float, *sides: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> tuple[float, float] | None:
    """Return DeLong's interval, from the spread of the shares on both sides."""
    variance = 0.0
    for counts, shares in sides:
        count = float(counts.sum())
        if count < 2:
            return None
        spread = math.fsum((counts * (shares - auroc) ** 2).tolist()) / (count - 1)
        variance += spread / count
    reach = float(scipy.special.ndtri((1 + LEVEL) / 2)) * math.sqrt(variance)
    return max(0.0, auroc - reach), min(1.0, auroc + reach)
