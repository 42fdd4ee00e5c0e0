"""Variants compared case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gatemark.core.measurement import Direction
from gatemark.plugins.runlog.estimates import Draws
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.run_metrics import METRICS, get_value, has_substance
from gatemark.statistics.paired.permutation import signed_rank_p_value
from gatemark.statistics.resampling.percentile_bootstrap import percentile_mean
from gatemark.statistics.significance import holm_p_values

RowsByVariant = Mapping[str, Mapping[str, PerCaseMetrics]]
"""Rows by variant and case."""


class PairedComparison(msgspec.Struct, frozen=True):
    """One metric of the reference minus that of another variant, over shared cases."""

    metric: str
    variant: str
    reference: str
    direction: Direction
    n_pairs: int
    unpaired_cases: int
    null_pairs: int
    mean_difference: float | None
    ci_low: float | None
    ci_high: float | None
    wilcoxon_p_value: float | None
    wilcoxon_p_value_holm: float | None = None


def compare_variants(rows: RowsByVariant, reference: str, draws: Draws) -> list[PairedComparison]:
    """Compare every metric of the reference with each other variant, case by case.

    P-values of one metric are corrected over the variants it is compared with (Holm).
    """
    others = [variant for variant in sorted(rows) if variant != reference]
    if reference not in rows or not others:
        return []
    found = []
    for name in METRICS:
        found += _correct_p_values(
            [_compare_variant(name, rows, reference, other, draws) for other in others]
        )
    return found


def _compare_variant(
    name: str, by_variant: RowsByVariant, judged: str, variant: str, draws: Draws
) -> PairedComparison:
    reference, other = by_variant[judged], by_variant[variant]
    shared = sorted(set(reference) & set(other))
    is_sound = all(has_substance(name, rows.values()) for rows in (reference, other))
    differences = [
        left - right
        for case in shared
        if is_sound
        and (left := get_value(reference[case], name)) is not None
        and (right := get_value(other[case], name)) is not None
    ]
    found = percentile_mean(differences, **draws._asdict())
    return PairedComparison(
        metric=name,
        variant=variant,
        reference=judged,
        direction=METRICS[name].direction,
        n_pairs=len(differences),
        unpaired_cases=len(set(reference) ^ set(other)),
        null_pairs=len(shared) - len(differences),
        mean_difference=None if found is None else found.mean,
        ci_low=None if found is None else found.low,
        ci_high=None if found is None else found.high,
        wilcoxon_p_value=signed_rank_p_value(differences),
    )


def _correct_p_values(compared: Sequence[PairedComparison]) -> list[PairedComparison]:
    tested = {entry.variant: p for entry in compared if (p := entry.wilcoxon_p_value) is not None}
    corrected = map(float, holm_p_values(list(tested.values()))) if tested else ()
    by_variant = dict(zip(tested, corrected, strict=True))
    return [
        msgspec.structs.replace(entry, wilcoxon_p_value_holm=by_variant.get(entry.variant))
        for entry in compared
    ]


def list_worsening(
    name: str, judged: Mapping[str, PerCaseMetrics], reference: Mapping[str, PerCaseMetrics]
) -> list[float]:
    """Return by how much the judged variant is worse than the reference, case by case."""
    sign = 1 if METRICS[name].direction == "lower_is_better" else -1
    shared = sorted(set(judged) & set(reference))
    return [
        sign * (mine - theirs)
        for case in shared
        if (mine := get_value(judged[case], name)) is not None
        and (theirs := get_value(reference[case], name)) is not None
    ]
