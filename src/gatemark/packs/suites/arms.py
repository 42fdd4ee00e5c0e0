"""Compare two arms on the same items: means, the drop between them, and its uncertainty.

A drop has bounds and the number of items that would decide it. Results judged by the rules of 0.1.0
keep the drop of those rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import scipy

from gatemark.core.measurement import (
    COUNTED_AS_ONE,
    COUNTED_AS_ZERO,
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.policy import ITEMS_NEEDED
from gatemark.core.result import Figure, Table
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer, AnswerPair, ItemScore
from gatemark.packs.pack import FIRST_RULES
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.statistics.clustered_means import PooledDrop, Stratum, mean_estimate, pooled_drop
from gatemark.statistics.paired.noninferiority import (
    NonInferiority,
    non_inferiority_of_counts,
    non_inferiority_of_deltas,
)
from gatemark.statistics.proportion import two_sided_z, wilson
from gatemark.statistics.significance import detectable_effect, loss_p_value

SHOWN_ITEMS = 50
SHOWN_LENGTH = 200


def worse_items(
    evidence: ArmsEvidence, pairs: Sequence[AnswerPair], *, title: str, expected: str
) -> tuple[Figure, ...]:
    """Return the items that got worse, worst first; ``expected`` labels their target."""
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
    """Return each item's first answer."""
    return {answer.id: answer for answer in reversed(answers)}


def said(answer: Answer) -> str:
    """Return the text of an answer, or its error."""
    if answer.error is not None:
        return short_text(f"({answer.error}: {answer.reason})")
    return short_text(answer.output)


def short_text(value: object) -> str:
    """Return a JSON value as one short text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


LEVEL = 0.95
UNKNOWN_BASELINE = "the baseline gave no answer that could be scored"


def mean_score(name: str, lane: str, items: Sequence[ItemScore]) -> Measurement:
    """Return the mean over items with an interval; items without a score count as 0."""
    return _mean(name, lane, items, unscored=COUNTED_AS_ZERO)


def baseline_score(lane: str, items: Sequence[ItemScore]) -> Measurement:
    """Return the baseline's mean; unscored items count as right; None without any score.

    Expects items from ``baseline_per_item``.
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
    """Return cluster labels for every item; an item without a cluster is a cluster of its own."""
    if not any(clusters):
        return None
    return [name if name is not None else f"\x00{index}" for index, name in enumerate(clusters)]


def unscored_counts(pairs: Sequence[AnswerPair]) -> dict[str, int]:
    """Return how many items without a score are part of a drop, by what they count as."""
    counts = {
        COUNTED_AS_ZERO: sum(not pair.candidate.whole for pair in pairs),
        COUNTED_AS_ONE: sum(not pair.baseline.whole for pair in pairs),
    }
    return {how: count for how, count in counts.items() if count}


def unpaired_reason(pairs: Sequence[AnswerPair]) -> str | None:
    """Return why there is nothing to compare with, or None."""
    if not pairs:
        return "no item was answered on both arms"
    return None if any(pair.baseline.scored for pair in pairs) else UNKNOWN_BASELINE


def delta_error(pairs: Sequence[AnswerPair]) -> float | None:
    """Return the standard error of the mean difference between the arms."""
    if len(pairs) < 2:
        return None
    deltas = np.array([pair.candidate.mean - pair.baseline.mean for pair in pairs])
    return mean_estimate(deltas, cluster_names([pair.candidate.cluster for pair in pairs])).error


def power(lane: str, pairs: Sequence[AnswerPair], *, margin: float, alpha: float) -> Measurement:
    """Return the power to detect a true drop as large as the margin."""
    name = "power_at_margin"
    error = delta_error(pairs)
    if not error or unpaired_reason(pairs) is not None:
        reason = "the arms never differ" if error == 0 else "fewer than two paired items"
        return unmeasured(name, reason, direction="higher_is_better", n=len(pairs), lane=lane)
    chance = float(scipy.special.ndtr(margin / error - two_sided_z(1 - 2 * alpha)))
    return measured(name, chance, n=len(pairs), direction="higher_is_better", lane=lane)


def smallest_visible_drop(lane: str, pairs: Sequence[AnswerPair], *, alpha: float) -> Measurement:
    """Return the smallest true difference that this many items detect with 80 % power."""
    error = delta_error(pairs)
    if error is None or error == 0:
        reason = "the arms never differ" if error == 0 else "fewer than two paired items"
        return unmeasured("mde", reason, direction="neutral", n=len(pairs), lane=lane)
    effect = detectable_effect(error, alpha=alpha)
    return measured("mde", effect, n=len(pairs), direction="neutral", lane=lane)


SEED = 20_261_115
"""Fixed, so that the same scores give the same bounds on every run."""


def first_drop(
    lane: str, pairs: Sequence[AnswerPair], *, margin: float, alpha: float
) -> Measurement:
    """Return how much lower the candidate is, with one-sided bounds at ``alpha``."""
    reason = unpaired_reason(pairs)
    if reason is not None:
        return unmeasured("regression", reason, direction="lower_is_better", lane=lane)
    found = _judged(pairs, margin=margin, alpha=alpha)
    if found.drop is None or found.lower is None or found.upper is None:
        return unmeasured("regression", found.reason, direction="lower_is_better", lane=lane)
    interval = Interval(
        low=min(found.lower, found.drop),
        high=max(found.upper, found.drop),
        level=1 - 2 * alpha,
        method=found.method,
    )
    return measured(
        "regression",
        found.drop,
        n=found.n,
        direction="lower_is_better",
        interval=interval,
        excluded=unscored_counts(pairs),
        lane=lane,
    )


def _judged(pairs: Sequence[AnswerPair], *, margin: float, alpha: float) -> NonInferiority:
    candidate = np.array([pair.candidate.mean for pair in pairs])
    baseline = np.array([pair.baseline.mean for pair in pairs])
    clusters = cluster_names([pair.candidate.cluster for pair in pairs])
    if _right_or_wrong(pairs) and clusters is None:
        lost = int(np.sum(baseline > candidate))
        gained = int(np.sum(candidate > baseline))
        return non_inferiority_of_counts(lost, gained, len(pairs), margin=margin, alpha=alpha)
    return non_inferiority_of_deltas(
        candidate - baseline,
        np.random.default_rng(SEED),
        margin=margin,
        alpha=alpha,
        clusters=clusters,
    )


def chance_of_drop(lane: str, pairs: Sequence[AnswerPair]) -> Measurement:
    """Return the one-sided p-value of a drop: how often equal arms lose at least as much."""
    name = "drop_p"
    reason = unpaired_reason(pairs)
    if reason is not None:
        return unmeasured(name, reason, direction="neutral", lane=lane)
    clusters = cluster_names([pair.candidate.cluster for pair in pairs])
    if _right_or_wrong(pairs) and clusters is None:
        lost = sum(pair.baseline.mean > pair.candidate.mean for pair in pairs)
        gained = sum(pair.candidate.mean > pair.baseline.mean for pair in pairs)
        p_value = loss_p_value(lost, gained)
    else:
        deltas = np.array([pair.candidate.mean - pair.baseline.mean for pair in pairs])
        estimate = mean_estimate(deltas, clusters)
        two_sided = estimate.p_value()
        if two_sided is None:
            p_value = 1.0 if estimate.mean >= 0 else 0.0
        else:
            p_value = two_sided / 2 if estimate.mean < 0 else 1 - two_sided / 2
    return measured(name, p_value, n=len(pairs), direction="neutral", lane=lane)


def _right_or_wrong(pairs: Sequence[AnswerPair]) -> bool:
    return {mean for pair in pairs for mean in (pair.candidate.mean, pair.baseline.mean)} <= {
        0.0,
        1.0,
    }


HARM_P = "harm_p"
MEASURE_VERSION = 2
METHOD = "score"


class PairedItems(msgspec.Struct, frozen=True):
    """The items of one suite that both arms answered, with clusters and inputs."""

    lane: str
    weight: float
    pairs: tuple[AnswerPair, ...]
    rows: tuple[Row, ...]
    largest_drop: float = 1.0


def suite_drop(
    evidence: ArmsEvidence, pairs: tuple[AnswerPair, ...], *, with_chance: bool = True
) -> list[Measurement]:
    """Return the drop of one suite by the rules that judge it.

    ``with_chance`` adds the p-value that the first rules gave for all kinds but one.
    """
    spec = evidence.spec
    if evidence.rules == FIRST_RULES:
        chance = [chance_of_drop(spec.id, pairs)] if with_chance else []
        return [*chance, first_drop(spec.id, pairs, margin=evidence.margin, alpha=evidence.alpha)]
    items = PairedItems(spec.id, 1.0, pairs, evidence.rows, spec.largest_drop or 1.0)
    return drop_numbers(
        "regression", spec.id, (items,), margin=evidence.margin, alpha=evidence.alpha
    )


def drop_numbers(
    name: str, lane: str | None, suites: Sequence[PairedItems], *, margin: float, alpha: float
) -> list[Measurement]:
    """Return the weighted drop over suites: p-value, drop, and the items needed."""
    for items in suites:
        reason = unpaired_reason(items.pairs)
        if reason is not None:
            return no_drop(name, lane, reason if lane is not None else f"{items.lane}: {reason}")
    strata = strata_of(suites)
    found = pooled_drop(strata)
    low, high = found.bounds(alpha)
    counts: dict[str, int] = {}
    for items in suites:
        for how, count in unscored_counts(items.pairs).items():
            counts[how] = counts.get(how, 0) + count
    drop = measured(
        name,
        found.drop,
        n=found.n,
        direction="lower_is_better",
        version=MEASURE_VERSION,
        interval=Interval(
            low=min(low, found.drop),
            high=max(high, found.drop),
            level=1 - 2 * alpha,
            method=METHOD,
        ),
        excluded=counts,
        caveats=_caveats(suites, strata),
        lane=lane,
    )
    chance = measured(
        HARM_P, found.beyond_p_value(margin), n=found.n, direction="neutral", lane=lane
    )
    needed = _items_needed(name + ITEMS_NEEDED, lane, found, margin, alpha)
    return [chance, drop, needed]


def no_drop(name: str, lane: str | None, why: str) -> list[Measurement]:
    """Return the same three without numbers, and why there are none."""
    return [
        unmeasured(HARM_P, why, direction="neutral", lane=lane),
        unmeasured(name, why, direction="lower_is_better", version=MEASURE_VERSION, lane=lane),
        unmeasured(name + ITEMS_NEEDED, why, direction="neutral", unit="count", lane=lane),
    ]


def _caveats(suites: Sequence[PairedItems], strata: Sequence[Stratum]) -> tuple[str, ...]:
    return tuple(
        f"{items.lane}: an item moved by more than largest_drop {items.largest_drop:g}, "
        "so 1 is used instead"
        for items, stratum in zip(suites, strata, strict=True)
        if stratum.item_range != stratum.largest_drop
    )


def _items_needed(
    name: str, lane: str | None, found: PooledDrop, margin: float, alpha: float
) -> Measurement:
    """Return how many such items would decide with 80 % power."""
    growth = found.growth_to_decide(margin, alpha)
    if growth is None:
        reason = "the drop lies on the bound, which no number of items settles"
        return unmeasured(name, reason, direction="neutral", n=found.n, unit="count", lane=lane)
    count = max(1, math.ceil(growth * found.n))
    return measured(name, count, n=found.n, direction="neutral", unit="count", lane=lane)


def strata_of(suites: Sequence[PairedItems]) -> list[Stratum]:
    """Return suites as strata; items with a shared cluster or input form one unit."""
    units = units_of(suites)
    strata, start = [], 0
    for items in suites:
        end = start + len(items.pairs)
        drops = [pair.baseline.mean - pair.candidate.mean for pair in items.pairs]
        strata.append(Stratum(items.weight, np.array(drops), units[start:end], items.largest_drop))
        start = end
    return strata


def units_of(suites: Sequence[PairedItems]) -> list[str]:
    """Return the unit of every item of the suites, in order."""
    keys = [
        _keys(items.lane, pair, row)
        for items in suites
        for pair, row in _with_rows(items.pairs, items.rows)
    ]
    return joined_units(keys)


def _with_rows(
    pairs: Sequence[AnswerPair], rows: Sequence[Row]
) -> Iterable[tuple[AnswerPair, Row | None]]:
    by_id = {row.id: row for row in rows}
    return ((pair, by_id.get(pair.id)) for pair in pairs)


def _keys(lane: str, pair: AnswerPair, row: Row | None) -> tuple[str, ...]:
    cluster = () if pair.candidate.cluster is None else (f"cluster:{pair.candidate.cluster}",)
    if row is None:
        return (*cluster, f"item:{lane}/{pair.id}")
    asked = msgspec.json.encode([row.input, row.extra], order="deterministic").decode()
    return (*cluster, f"input:{asked}")


def joined_units(keys: Sequence[tuple[str, ...]]) -> list[str]:
    """Return one name per item; items linked by shared keys share a name."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for first, *others in keys:
        for other in others:
            parent[root(other)] = root(first)
    numbers: dict[str, str] = {}
    return [numbers.setdefault(root(first), str(len(numbers))) for first, *_ in keys]
