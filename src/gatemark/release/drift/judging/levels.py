"""The level of each window, decided in numbered steps.

(1) A window without points, or with too few items, is STALE.
(2) Too few baseline windows: INSUFFICIENT_BASELINE.
(3) A harmful change that reaches the breach threshold in enough windows: BREACH.
(4) A harmful change beyond the warning threshold that is rare enough: WARN.
(5) A harmful change from a constant baseline: DEGENERATE.
(6) A class that the baseline never had: NEW_CLASS.
(7) Beyond the warning threshold, but harmless or not rare enough: INFO.
(8) Everything else is OK.
"""

from __future__ import annotations

from functools import reduce
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatemark.core.levels import Level
from gatemark.release.drift.judging.detector import Readings
from gatemark.release.drift.judging.policy import DriftPolicy, Watch
from gatemark.release.drift.signal import LEVELS, Mode
from gatemark.statistics.control_chart import normal_scores

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]

CODE: Final[dict[Level, int]] = {level: place for place, level in enumerate(LEVELS)}


class Scores(NamedTuple):
    """The two signed numbers that decide about each series; zero where the change is too small.

    ``warn`` is compared with the warning threshold and ``breach`` with the breach threshold.
    ``is_judged`` marks the series that could be judged, ``is_sigma`` those whose ``breach`` is in
    standard deviations of their baseline and not a normal score, ``matters`` those that changed
    enough to count.
    """

    warn: Floats
    breach: Floats
    is_judged: Flags
    is_enough: Flags
    harm: Flags
    is_sigma: Flags
    matters: Flags

    def rows(self, chosen: Flags) -> Scores:
        """Return the scores of the chosen series."""
        return Scores(
            warn=self.warn[chosen],
            breach=self.breach[chosen],
            is_judged=self.is_judged[chosen],
            is_enough=self.is_enough[chosen],
            harm=self.harm[chosen],
            is_sigma=self.is_sigma[chosen],
            matters=self.matters[chosen],
        )


def score_readings(
    found: Readings,
    is_enough: Flags,
    watch: Watch,
    mode: Mode,
    *,
    by_z: bool = False,
    sealed: Floats | None = None,
) -> Scores:
    """Return the scores of a detector's readings under a watch; ``by_z`` uses z for both.

    ``is_enough`` marks the series with a sufficient baseline. ``sealed`` is the score of a sealed
    result, NaN if there is none: a drop that stays at or above it is not harmful.
    """
    is_sigma = np.isfinite(found.sigma) & (not by_z)
    sigma = np.where(is_sigma, found.sigma, found.z)
    warn = sigma if mode == "literal" else found.z
    moved = np.abs(found.value - found.mu)
    matters = found.is_material & ~(moved < watch.min_effect)
    is_judged = is_enough & np.isfinite(found.z)
    counted = is_judged & matters
    direction = np.where(np.isfinite(sigma), np.sign(sigma), np.sign(found.value - found.mu))
    harm = {
        "both": np.ones(sigma.shape, dtype=bool),
        "up": direction > 0,
        "down": direction < 0,
    }[watch.harm]
    if sealed is not None and watch.harm == "down" and mode == "corrected":
        # A percentage must not be compared with a share.
        harm &= ~((found.value >= sealed) & (found.value <= 1))
    return Scores(
        warn=np.where(counted, warn, 0.0),
        breach=np.where(counted, sigma, 0.0),
        is_judged=is_judged,
        is_enough=is_enough,
        harm=harm,
        is_sigma=is_sigma,
        matters=matters,
    )


class Rarity(NamedTuple):
    """How often a healthy series reads like this, and how often it may before a warning.

    Both are counts per year, or both are shares of a tick.
    """

    found: Floats
    allowed: Floats

    def rows(self, chosen: Flags) -> Rarity:
        """Return the rarity of the chosen series."""
        return Rarity(*(part[chosen] for part in self))


class Trail(NamedTuple):
    """The scores of the latest judged windows of each series, oldest first; NaN if missing."""

    warn: Floats
    breach: Floats

    def followed_by(self, scores: Scores) -> Trail:
        """Return the trail with one more window; series that were not judged keep theirs."""
        return Trail(
            _push_score(self.warn, scores.warn, scores.is_judged),
            _push_score(self.breach, scores.breach, scores.is_judged),
        )


class Breaches(NamedTuple):
    """The series that breach, and those of them that breach only by the mean of their windows."""

    found: Flags
    by_mean: Flags


def find_breaches(
    trail: Trail, scores: Scores, baseline_windows: Floats, watch: Watch, policy: DriftPolicy
) -> Breaches:
    """Return the series whose latest windows together are a breach.

    Each of the last ``sustained`` windows is beyond the breach threshold on one side; in corrected
    mode the mean of sigmas must be so after correction for the small baseline, too. Or, in
    corrected mode, ``sustained`` + 1 windows all warn on one side and their mean is beyond the
    threshold.
    """
    nobody = np.zeros(scores.harm.shape, dtype=bool)
    if watch.warn_only:
        return Breaches(nobody, nobody)
    last = trail.breach[:, -watch.sustained :]
    found, by_mean = _are_all_beyond(last, watch.breach), nobody
    if policy.mode == "corrected":
        # Few series get here, so tail probabilities are computed for these only.
        far = np.flatnonzero(found & scores.is_sigma)
        if far.size:
            with np.errstate(divide="ignore", invalid="ignore"):
                t = last[far].mean(axis=1) / np.sqrt(1 + 1 / baseline_windows[far])
            together, _ = normal_scores(t, baseline_windows[far] - 1)
            found[far] = np.abs(together) >= watch.breach
        if policy.breach_by_mean and watch.sustained > 1:
            on_average = np.abs(trail.breach.mean(axis=1)) >= watch.breach
            by_mean = _are_all_beyond(trail.warn, watch.warn) & on_average & ~found
    counted = scores.is_judged & scores.harm
    return Breaches((found | by_mean) & counted, by_mean & counted)


def grade_windows(
    found: Readings,
    scores: Scores,
    is_breach: Flags,
    rarity: Rarity,
    *,
    watch: Watch,
    policy: DriftPolicy,
) -> Codes:
    """Return the level of each window that has points, as a code."""
    beyond = scores.is_judged & (np.abs(scores.warn) >= watch.warn)
    stands_out = policy.mode == "literal" or rarity.found <= rarity.allowed
    # Step 8.
    level = np.full(scores.warn.shape, CODE["OK"], dtype=np.int8)
    # Step 7.
    level[beyond] = CODE["INFO"]
    is_apart = found.is_degenerate & scores.matters
    level[scores.is_enough & is_apart & ~scores.harm] = CODE["INFO"]
    # Step 6.
    level[scores.is_enough & found.is_new] = CODE["NEW_CLASS"]
    # Step 5.
    level[scores.is_enough & is_apart & scores.harm] = CODE["DEGENERATE"]
    # Step 4.
    level[beyond & scores.harm & stands_out] = CODE["WARN"]
    # Step 3.
    level[is_breach] = CODE["BREACH"]
    # Step 2.
    unjudged = ~(scores.is_judged | (scores.is_enough & (found.is_degenerate | found.is_new)))
    level[unjudged] = CODE["INSUFFICIENT_BASELINE"]
    return level


def _push_score(trail: Floats, score: Floats, is_judged: Flags) -> Floats:
    moved = np.concatenate([trail[:, 1:], score[:, None]], axis=1)
    return np.where(is_judged[:, None], moved, trail)


def _are_all_beyond(trail: Floats, line: float) -> Flags:
    above, below = trail >= line, trail <= -line
    # np.all along an axis this short is slow.
    windows = range(trail.shape[1])
    both = (reduce(np.logical_and, (side[:, at] for at in windows)) for side in (above, below))
    return np.logical_or(*both)
