"""Compare two arms on the same items: means, the drop between them, and its uncertainty.

A drop has bounds and the number of items that would decide it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import scipy

from gatemark.core.measurement import (
    COUNTED_AS_ONE,
    COUNTED_AS_ZERO,
    NOTHING_ANSWERED,
    Interval,
    Measurement,
    measured,
    unmeasured,
)
from gatemark.core.policy import ITEMS_NEEDED
from gatemark.core.reason import Reason, ReasonKind
from gatemark.core.result import Figure, Table
from gatemark.evidence.inputs import digest_inputs, join_keys, normalize_id
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.packs.item_scores import AnswerPair, ItemScore
from gatemark.packs.questions import list_fields_beside
from gatemark.packs.suites.suite import ArmsEvidence
from gatemark.statistics.clustered_means import PooledDrop, Stratum, mean_estimate, pooled_drop
from gatemark.statistics.proportion import two_sided_z, wilson_interval
from gatemark.statistics.significance import detectable_effect

SHOWN_ITEMS = 50
SHOWN_LENGTH = 200


def list_worse_items(
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
    now, before = (
        select_first_answers(evidence.candidate),
        select_first_answers(evidence.baseline or ()),
    )
    rows = tuple(
        (
            pair.id,
            round(pair.baseline.mean, 4),
            round(pair.candidate.mean, 4),
            shorten_text(asked[pair.id].input) if pair.id in asked else None,
            shorten_text(asked[pair.id].target) if pair.id in asked else None,
            describe_answer(before[pair.id]),
            describe_answer(now[pair.id]),
        )
        for pair in worse[:SHOWN_ITEMS]
    )
    columns = ("item", "baseline", "candidate", "asked", expected)
    spoken = ("baseline said", "candidate said")
    return (Table(title, (*columns, *spoken), rows, len(worse)),)


def select_first_answers(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Return each item's first answer."""
    return {answer.id: answer for answer in reversed(answers)}


def describe_answer(answer: Answer) -> str:
    """Return the text of an answer, or its error."""
    if answer.error is not None:
        return shorten_text(f"({answer.error}: {answer.reason})")
    return shorten_text(answer.output)


def shorten_text(value: object) -> str:
    """Return a JSON value as one short text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


LEVEL = 0.95
UNKNOWN_BASELINE: Final = ReasonKind(
    "unknown_baseline", "the baseline gave no answer that could be scored"
)
NO_COMMON_ITEM: Final = ReasonKind("no_common_item", "no item was answered on both arms")
ARMS_NEVER_DIFFER: Final = ReasonKind("arms_never_differ", "the arms never differ")
TOO_FEW_PAIRS: Final = ReasonKind("too_few_pairs", "fewer than two paired items")
DROP_ON_BOUND: Final = ReasonKind(
    "drop_on_bound", "the drop lies on the bound, which no number of items settles"
)
IN_PART: Final = ReasonKind("in_part", "{part}: {because}")


def measure_mean_score(name: str, scope: str, items: Sequence[ItemScore]) -> Measurement:
    """Return the mean over items with an interval; items without a score count as 0."""
    return _measure_mean(name, scope, items, unscored=COUNTED_AS_ZERO)


def measure_baseline_score(scope: str, items: Sequence[ItemScore]) -> Measurement:
    """Return the baseline's mean; unscored items count as right; None without any score.

    Expects items from ``baseline_per_item``.
    """
    if items and not any(item.scored for item in items):
        return unmeasured(
            "baseline_score", UNKNOWN_BASELINE(), direction="higher_is_better", scope=scope
        )
    return _measure_mean("baseline_score", scope, items, unscored=COUNTED_AS_ONE)


def _measure_mean(
    name: str, scope: str, items: Sequence[ItemScore], *, unscored: str
) -> Measurement:
    if not items:
        return unmeasured(name, NOTHING_ANSWERED(), direction="higher_is_better", scope=scope)
    unscored_count = sum(not item.whole for item in items)
    values = np.array([item.mean for item in items])
    return measured(
        name,
        float(values.mean()),
        n=len(items),
        direction="higher_is_better",
        interval=_estimate_mean_interval(values, [item.cluster for item in items]),
        excluded={unscored: unscored_count} if unscored_count else None,
        scope=scope,
    )


def _estimate_mean_interval(values: np.ndarray, clusters: list[str | None]) -> Interval | None:
    if set(np.unique(values)) <= {0.0, 1.0} and not any(clusters):
        low, high = wilson_interval(int(values.sum()), len(values), LEVEL)
        return Interval(low=low, high=high, level=LEVEL, method="wilson")
    estimate = mean_estimate(values, name_clusters(clusters))
    bounds = estimate.bounds((1 - LEVEL) / 2)
    if bounds is None:
        return None
    low, high = max(0.0, bounds[0]), min(1.0, bounds[1])
    return Interval(low=min(low, high), high=high, level=LEVEL, method="t")


def name_clusters(clusters: list[str | None]) -> list[str] | None:
    """Return cluster labels for every item; an item without a cluster is a cluster of its own."""
    if not any(clusters):
        return None
    return [name if name is not None else f"\x00{index}" for index, name in enumerate(clusters)]


def count_unscored(pairs: Sequence[AnswerPair]) -> dict[str, int]:
    """Return how many items without a score are part of a drop, by what they count as."""
    counts = {
        COUNTED_AS_ZERO: sum(not pair.candidate.whole for pair in pairs),
        COUNTED_AS_ONE: sum(not pair.baseline.whole for pair in pairs),
    }
    return {how: count for how, count in counts.items() if count}


def find_unpaired_reason(pairs: Sequence[AnswerPair]) -> Reason | None:
    """Return why there is nothing to compare with, or None."""
    if not pairs:
        return NO_COMMON_ITEM()
    return None if any(pair.baseline.scored for pair in pairs) else UNKNOWN_BASELINE()


def estimate_delta_error(pairs: Sequence[AnswerPair]) -> float | None:
    """Return the standard error of the mean difference between the arms."""
    if len(pairs) < 2:
        return None
    deltas = np.array([pair.candidate.mean - pair.baseline.mean for pair in pairs])
    return mean_estimate(deltas, name_clusters([pair.candidate.cluster for pair in pairs])).error


def measure_power(
    scope: str, pairs: Sequence[AnswerPair], *, margin: float, alpha: float
) -> Measurement:
    """Return the power to detect a true drop as large as the margin."""
    name = "power_at_margin"
    error = estimate_delta_error(pairs)
    if not error or find_unpaired_reason(pairs) is not None:
        reason = ARMS_NEVER_DIFFER() if error == 0 else TOO_FEW_PAIRS()
        return unmeasured(name, reason, direction="higher_is_better", n=len(pairs), scope=scope)
    chance = float(scipy.special.ndtr(margin / error - two_sided_z(1 - 2 * alpha)))
    return measured(name, chance, n=len(pairs), direction="higher_is_better", scope=scope)


def measure_smallest_visible_drop(
    scope: str, pairs: Sequence[AnswerPair], *, alpha: float
) -> Measurement:
    """Return the smallest true difference that this many items detect with 80 % power."""
    error = estimate_delta_error(pairs)
    if error is None or error == 0:
        reason = ARMS_NEVER_DIFFER() if error == 0 else TOO_FEW_PAIRS()
        return unmeasured("mde", reason, direction="neutral", n=len(pairs), scope=scope)
    effect = detectable_effect(error, alpha=alpha)
    return measured("mde", effect, n=len(pairs), direction="neutral", scope=scope)


HARM_P = "harm_p"
MEASURE_VERSION = 2
METHOD = "score"


class PairedItems(msgspec.Struct, frozen=True):
    """The items of one suite that both arms answered, with clusters and inputs."""

    scope: str
    weight: float
    pairs: tuple[AnswerPair, ...]
    rows: tuple[Row, ...]
    largest_drop: float = 1.0


def measure_suite_drop(evidence: ArmsEvidence, pairs: tuple[AnswerPair, ...]) -> list[Measurement]:
    """Return the drop of one suite: p-value, drop, and the items needed."""
    spec = evidence.spec
    items = PairedItems(spec.id, 1.0, pairs, evidence.rows, spec.largest_drop or 1.0)
    return measure_drop(
        "regression", spec.id, (items,), margin=evidence.margin, alpha=evidence.alpha
    )


def measure_drop(
    name: str, scope: str | None, suites: Sequence[PairedItems], *, margin: float, alpha: float
) -> list[Measurement]:
    """Return the weighted drop over suites: p-value, drop, and the items needed."""
    for items in suites:
        reason = find_unpaired_reason(items.pairs)
        if reason is not None:
            if scope is None:
                reason = IN_PART(part=items.scope, because=reason)
            return make_missing_drop(name, scope, reason)
    strata = make_strata(suites)
    found = pooled_drop(strata)
    low, high = found.bounds(alpha)
    counts: dict[str, int] = {}
    for items in suites:
        for how, count in count_unscored(items.pairs).items():
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
        caveats=_list_caveats(suites, strata),
        scope=scope,
    )
    chance = measured(
        HARM_P, found.beyond_p_value(margin), n=found.n, direction="neutral", scope=scope
    )
    needed = _estimate_items_needed(name + ITEMS_NEEDED, scope, found, margin, alpha)
    return [chance, drop, needed]


def make_missing_drop(name: str, scope: str | None, why: Reason) -> list[Measurement]:
    """Return the same three without numbers, and why there are none."""
    return [
        unmeasured(HARM_P, why, direction="neutral", scope=scope),
        unmeasured(name, why, direction="lower_is_better", version=MEASURE_VERSION, scope=scope),
        unmeasured(name + ITEMS_NEEDED, why, direction="neutral", unit="count", scope=scope),
    ]


def _list_caveats(suites: Sequence[PairedItems], strata: Sequence[Stratum]) -> tuple[str, ...]:
    return tuple(
        f"{items.scope}: an item moved by more than largest_drop {items.largest_drop:g}, "
        "so 1 is used instead"
        for items, stratum in zip(suites, strata, strict=True)
        if stratum.item_range != stratum.largest_drop
    )


def _estimate_items_needed(
    name: str, scope: str | None, found: PooledDrop, margin: float, alpha: float
) -> Measurement:
    """Return how many such items would decide with 80 % power."""
    growth = found.growth_to_decide(margin, alpha)
    if growth is None:
        reason = DROP_ON_BOUND()
        return unmeasured(name, reason, direction="neutral", n=found.n, unit="count", scope=scope)
    count = max(1, math.ceil(growth * found.n))
    return measured(name, count, n=found.n, direction="neutral", unit="count", scope=scope)


def make_strata(suites: Sequence[PairedItems]) -> list[Stratum]:
    """Return suites as strata; items with a shared cluster or input form one unit."""
    units = find_units(suites)
    strata, start = [], 0
    for items in suites:
        end = start + len(items.pairs)
        drops = [pair.baseline.mean - pair.candidate.mean for pair in items.pairs]
        strata.append(Stratum(items.weight, np.array(drops), units[start:end], items.largest_drop))
        start = end
    return strata


def find_units(suites: Sequence[PairedItems]) -> list[str]:
    """Return the unit of every item of the suites, in order."""
    found = [
        (items.scope, pair, row)
        for items in suites
        for pair, row in _pair_with_rows(items.pairs, items.rows)
    ]
    asked = digest_inputs(
        [(None, {}) if row is None else (row.input, _list_fields(row)) for _, _, row in found]
    )
    keys = [
        _list_keys(scope, pair, content)
        for (scope, pair, _), content in zip(found, asked, strict=True)
    ]
    numbers: dict[int, str] = {}
    return [numbers.setdefault(first, str(len(numbers))) for first in join_keys(keys)]


def _pair_with_rows(
    pairs: Sequence[AnswerPair], rows: Sequence[Row]
) -> Iterable[tuple[AnswerPair, Row | None]]:
    by_id = {row.id: row for row in rows}
    return ((pair, by_id.get(pair.id)) for pair in pairs)


def _list_fields(row: Row) -> dict[str, object]:
    """Return what goes with an input, but not what is right: what asks the same is one unit."""
    return {name: value for name, value in list_fields_beside(row).items() if name != "target"}


def _list_keys(scope: str, pair: AnswerPair, asked: int | None) -> tuple[str, ...]:
    named = pair.candidate.cluster
    cluster = () if named is None else (f"cluster:{normalize_id(named)}",)
    return (*cluster, f"item:{scope}/{pair.id}" if asked is None else f"input:{asked}")
