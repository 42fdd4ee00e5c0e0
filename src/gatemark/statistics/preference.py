"""Which of two did people prefer? Exact tests on decisive pairs, with or without peeking.

A tie decides nothing but is counted. If n was fixed beforehand, the exact one-sided binomial test
decides; if people may look at any time, an e-process does, because it stays valid at every look.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal

import msgspec
import numpy as np
import scipy

from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import Outcome
from gatemark.core.reason import Reason, ReasonKind
from gatemark.statistics.proportion import wilson_interval
from gatemark.statistics.significance import half_binomial_cdf, mcnemar_test

Choice = Literal["candidate", "baseline", "tie"]

MIN_DECISIVE = 20
POSITION_ALPHA = 0.01
TOO_FEW_DECISIVE: Final = ReasonKind(
    "too_few_decisive", "{decisive} decisive pairs, at least {needed} are needed"
)
NEITHER_PREFERRED: Final = ReasonKind(
    "neither_preferred",
    "neither is clearly preferred, {won}:{lost} ({test} {found:.4g} against {needed:.4g})",
)
CANDIDATE_PREFERRED: Final = ReasonKind(
    "candidate_preferred",
    "the candidate is preferred {won}:{lost} ({test} {found:.4g} against {needed:.4g})",
)
BASELINE_PREFERRED: Final = ReasonKind(
    "baseline_preferred",
    "the baseline is preferred {won}:{lost} ({test} {found:.4g} against {needed:.4g})",
)


class Preference(msgspec.Struct, frozen=True):
    """Wins, losses and ties of the candidate, and the statistics.

    Rates, interval and p-value are null if no pair was decisive (the half-tie rate: if there was no
    pair at all).
    """

    wins: int
    losses: int
    ties: int
    win_rate: float | None
    half_tie_win_rate: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    log_e_value: float
    one_sided_log_e_value: float
    anytime_p_value: float
    outcome: Outcome
    reason: Reason


class PositionBias(msgspec.Struct, frozen=True):
    """How often the answer shown first won, over decisive votes; p is two-sided and exact."""

    first_wins: int
    decisive: int
    first_win_rate: float | None
    p_value: float | None
    is_biased: bool


def choose_majority(votes: Iterable[Choice]) -> Choice:
    """Return the choice with strictly the most votes, otherwise a tie."""
    cast = list(votes)
    candidate, baseline, tie = (cast.count(c) for c in ("candidate", "baseline", "tie"))
    if candidate > max(baseline, tie):
        return "candidate"
    return "baseline" if baseline > max(candidate, tie) else "tie"


def judge_preference(
    wins: int,
    losses: int,
    ties: int,
    *,
    alpha: float = 0.05,
    peeking: bool = False,
    min_decisive: int = MIN_DECISIVE,
) -> Preference:
    """Return pass if the candidate is preferred, fail if the baseline is, else inconclusive.

    ``alpha`` is the level of each one-sided claim. With ``peeking`` the e-process at 1 / alpha
    decides instead of the binomial test. The Wilson interval is shown and decides nothing.
    """
    if min(wins, losses, ties) < 0:
        raise InvalidValueError(f"counts must be >= 0, got {wins}, {losses}, {ties}")
    if not 0 < alpha < 0.5:
        raise InvalidValueError(f"alpha must be inside (0, 0.5), got {alpha}")
    decisive = wins + losses
    log_e = log_e_value(wins, losses)
    outcome, reason = _decide(wins, losses, alpha=alpha, peeking=peeking, min_decisive=min_decisive)
    pairs = decisive + ties
    return Preference(
        wins=wins,
        losses=losses,
        ties=ties,
        win_rate=wins / decisive if decisive else None,
        half_tie_win_rate=(wins + ties / 2) / pairs if pairs else None,
        interval=wilson_interval(wins, decisive, 1 - alpha) if decisive else None,
        p_value=win_p_value(wins, losses) if decisive else None,
        log_e_value=log_e,
        one_sided_log_e_value=one_sided_log_e_value(wins, losses),
        anytime_p_value=min(1.0, math.exp(-log_e)),
        outcome=outcome,
        reason=reason,
    )


def win_p_value(wins: int, losses: int) -> float:
    """Return the exact one-sided p-value of "the candidate wins more than half"."""
    return half_binomial_cdf(losses, wins + losses)


Stratum = tuple[int, int]
"""The candidate's wins, and the decisive pairs."""


def order_p_value(candidate_first: Stratum, baseline_first: Stratum, both_ways: Stratum) -> float:
    """Return the exact one-sided p-value of a preference, whatever being shown first is worth.

    Without a preference, the answer shown first wins as often in one order as in the other (Gart's
    test); pairs that were shown both ways are fair coins.
    """
    (won, n), (other_won, m), (fair_won, fair) = candidate_first, baseline_first, both_ways
    if n + m == 0:
        return win_p_value(fair_won, fair - fair_won)
    first_wins = won + m - other_won
    possible = np.arange(max(0, first_wins - m), min(n, first_wins) + 1)
    # Each further win in the one order is, at the same number of first wins, one in the other too.
    needed = fair_won + 2 * (won - possible)
    chances = scipy.stats.hypergeom.pmf(possible, n + m, first_wins, n)
    return float(min(1.0, chances @ scipy.stats.binom.sf(needed - 1, fair, 0.5)))


def log_e_value(wins: int, losses: int) -> float:
    """Return the log e-value against a fair coin, for a win rate uniform over [0, 1]."""
    return float(scipy.special.betaln(1 + wins, 1 + losses)) + (wins + losses) * math.log(2)


def one_sided_log_e_value(wins: int, losses: int) -> float:
    """Return the log e-value with the win rate uniform over [1/2, 1] only."""
    share = float(scipy.special.betainc(1 + losses, 1 + wins, 0.5))
    log_share = math.log(share) if share > 0 else _log_far_tail(wins, losses)
    return log_e_value(wins, losses) + math.log(2) + log_share


def position_bias(first_wins: int, decisive: int) -> PositionBias:
    """Test whether being shown first helped or hurt; valid if positions were balanced."""
    if not 0 <= first_wins <= decisive:
        raise InvalidValueError(f"{first_wins} first-position wins do not fit {decisive} votes")
    if decisive == 0:
        return PositionBias(0, 0, None, None, is_biased=False)
    p = mcnemar_test(first_wins, decisive - first_wins).p_value
    return PositionBias(first_wins, decisive, first_wins / decisive, p, p < POSITION_ALPHA)


def _decide(
    wins: int, losses: int, *, alpha: float, peeking: bool, min_decisive: int
) -> tuple[Outcome, Reason]:
    decisive = wins + losses
    if decisive < min_decisive:
        return "inconclusive", TOO_FEW_DECISIVE(decisive=decisive, needed=min_decisive)
    if peeking:
        log_e = log_e_value(wins, losses)
        is_clear = log_e >= -math.log(alpha)
        test, found, needed = "log e-value", log_e, -math.log(alpha)
    else:
        p = win_p_value(max(wins, losses), min(wins, losses))
        is_clear = p <= alpha
        test, found, needed = "one-sided p", p, alpha
    kind, won, lost = NEITHER_PREFERRED, wins, losses
    outcome: Outcome = "inconclusive"
    if is_clear and wins > losses:
        outcome, kind = "pass", CANDIDATE_PREFERRED
    elif is_clear and losses > wins:
        outcome, kind, won, lost = "fail", BASELINE_PREFERRED, losses, wins
    return outcome, kind(won=won, lost=lost, test=test, found=found, needed=needed)


def _log_far_tail(wins: int, losses: int) -> float:
    """Return log P(X <= wins) for X ~ Binomial(n + 1, 1/2), summed from its largest term.

    Only for a sum too small for a float, where the terms shrink fast.
    """
    trials = wins + losses + 1
    log_largest = -float(scipy.special.betaln(wins + 1, losses + 1)) - math.log(losses + 1)
    total = term = 1.0
    for k in range(wins, 0, -1):
        term *= k / (trials - k + 1)
        total += term
        if term < 1e-17:
            break
    return log_largest + math.log(total) - trials * math.log(2)
