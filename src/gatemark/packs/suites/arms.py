"""Two arms on the same items: means, the drop between them, and how sure one can be."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.special import ndtr

from gatemark.core.figure import Figure, Table
from gatemark.core.measurement import (
    COUNTED_AS_ONE,
    COUNTED_AS_ZERO,
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.packs.answers import Answer, AnswerPair, ItemScore
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.statistics.paired.cluster import mean_estimate
from gatemark.statistics.paired.mcnemar import detectable_effect
from gatemark.statistics.proportion import two_sided_z, wilson

SHOWN_ITEMS = 50
SHOWN_LENGTH = 200


def worse_items(
    evidence: ArmsEvidence, pairs: Sequence[AnswerPair], *, title: str, expected: str
) -> tuple[Figure, ...]:
    """The items that got worse, worst first; ``expected`` names what their target is."""
    worse = sorted(
        (pair for pair in pairs if pair.candidate.mean < pair.baseline.mean),
        key=lambda pair: (pair.candidate.mean - pair.baseline.mean, pair.id),
    )
    if not worse:
        return ()
    asked = {row.id: row for row in evidence.rows}
    now, before = first_answers(evidence.candidate), first_answers(evidence.baseline or ())
    rows = tuple(
        (
            pair.id,
            round(pair.baseline.mean, 4),
            round(pair.candidate.mean, 4),
            short_text(asked[pair.id].input) if pair.id in asked else None,
            short_text(asked[pair.id].target) if pair.id in asked else None,
            said(before[pair.id]),
            said(now[pair.id]),
        )
        for pair in worse[:SHOWN_ITEMS]
    )
    columns = ("item", "baseline", "candidate", "asked", expected)
    spoken = ("baseline said", "candidate said")
    return (Table(title, (*columns, *spoken), rows, len(worse)),)


def first_answers(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Each item's first answer."""
    return {answer.id: answer for answer in reversed(answers)}


def said(answer: Answer) -> str:
    """An answer's words, or what went wrong in their place."""
    if answer.error is not None:
        return short_text(f"({answer.error}: {answer.reason})")
    return short_text(answer.output)


def short_text(value: object) -> str:
    """A JSON value as one short text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


LEVEL = 0.95


UNKNOWN_BASELINE = "the baseline gave no answer that could be scored"


def mean_score(name: str, lane: str, items: Sequence[ItemScore]) -> Measurement:
    """The mean over items, with an interval; items without a score count as nothing achieved."""
    return _mean(name, lane, items, unscored=COUNTED_AS_ZERO)


def baseline_score(lane: str, items: Sequence[ItemScore]) -> Measurement:
    """The baseline's mean; items without a score count as right, and with no score there is none.

    Expects items as ``baseline_per_item`` gathers them.
    """
    if items and not any(item.scored for item in items):
        return unmeasured(
            "baseline_score", UNKNOWN_BASELINE, direction="higher_is_better", lane=lane
        )
    return _mean("baseline_score", lane, items, unscored=COUNTED_AS_ONE)


def _mean(name: str, lane: str, items: Sequence[ItemScore], *, unscored: str) -> Measurement:
    if not items:
        return unmeasured(name, "no items were answered", direction="higher_is_better", lane=lane)
    unscored_count = sum(not item.whole for item in items)
    values = np.array([item.mean for item in items])
    return measured(
        name,
        float(values.mean()),
        n=len(items),
        direction="higher_is_better",
        interval=_mean_interval(values, [item.cluster for item in items]),
        excluded={unscored: unscored_count} if unscored_count else None,
        lane=lane,
    )


def _mean_interval(values: np.ndarray, clusters: list[str | None]) -> Interval | None:
    if set(np.unique(values)) <= {0.0, 1.0} and not any(clusters):
        low, high = wilson(int(values.sum()), len(values), LEVEL)
        return Interval(low=low, high=high, level=LEVEL, method="wilson")
    estimate = mean_estimate(values, cluster_names(clusters))
    bounds = estimate.bounds((1 - LEVEL) / 2)
    if bounds is None:
        return None
    low, high = max(0.0, bounds[0]), min(1.0, bounds[1])
    return Interval(low=min(low, high), high=high, level=LEVEL, method="t")


def cluster_names(clusters: list[str | None]) -> list[str] | None:
    """Cluster labels for every item; an item of no cluster is a cluster of its own."""
    if not any(clusters):
        return None
    return [name if name is not None else f"\x00{index}" for index, name in enumerate(clusters)]


def unscored_counts(pairs: Sequence[AnswerPair]) -> dict[str, int]:
    """How many items without a score are in a drop all the same, by what they count as."""
    counts = {
        COUNTED_AS_ZERO: sum(not pair.candidate.whole for pair in pairs),
        COUNTED_AS_ONE: sum(not pair.baseline.whole for pair in pairs),
    }
    return {how: count for how, count in counts.items() if count}


def unpaired_reason(pairs: Sequence[AnswerPair]) -> str | None:
    """Why there is nothing to compare with."""
    if not pairs:
        return "no item was answered on both arms"
    return None if any(pair.baseline.scored for pair in pairs) else UNKNOWN_BASELINE


def delta_error(pairs: Sequence[AnswerPair]) -> float | None:
    """The standard error of the mean difference between the arms."""
    if len(pairs) < 2:
        return None
    deltas = np.array([pair.candidate.mean - pair.baseline.mean for pair in pairs])
    return mean_estimate(deltas, cluster_names([pair.candidate.cluster for pair in pairs])).error


def power(lane: str, pairs: Sequence[AnswerPair], *, margin: float, alpha: float) -> Measurement:
    """How often a true drop as large as the margin would be seen on this many items."""
    name = "power_at_margin"
    error = delta_error(pairs)
    if not error or unpaired_reason(pairs) is not None:
        reason = "the arms never differ" if error == 0 else "fewer than two paired items"
        return unmeasured(name, reason, direction="higher_is_better", n=len(pairs), lane=lane)
    chance = float(ndtr(margin / error - two_sided_z(1 - 2 * alpha)))
    return measured(name, chance, n=len(pairs), direction="higher_is_better", lane=lane)


def smallest_visible_drop(lane: str, pairs: Sequence[AnswerPair], *, alpha: float) -> Measurement:
    """The smallest true difference that this many items would show with 80 % power."""
    error = delta_error(pairs)
    if error is None or error == 0:
        reason = "the arms never differ" if error == 0 else "fewer than two paired items"
        return unmeasured("mde", reason, direction="neutral", n=len(pairs), lane=lane)
    effect = detectable_effect(error, alpha=alpha)
    return measured("mde", effect, n=len(pairs), direction="neutral", lane=lane)
