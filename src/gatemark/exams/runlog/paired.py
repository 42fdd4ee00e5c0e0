"""Two variants over the same cases: the difference of each metric, with interval and p-value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gatemark.exams.runlog.aggregate import Draws
from gatemark.exams.runlog.rows import METRICS, RunRow
from gatemark.exams.runlog.substance import has_substance
from gatemark.statistics.multiplicity import holm
from gatemark.statistics.paired.permutation import signed_rank_p_value
from gatemark.statistics.resampling.percentile_bootstrap import percentile_mean

Rows = Mapping[str, Mapping[str, RunRow]]
"""Rows by variant and case."""


def paired_comparisons(rows: Rows, reference: str, draws: Draws) -> list[dict[str, Any]]:
    """Every metric of the reference minus that of each other variant, case by case.

    P-values of one metric are corrected over the variants it is compared with (Holm).
    """
    others = [variant for variant in sorted(rows) if variant != reference]
    if reference not in rows or not others:
        return []
    found = []
    for name in METRICS:
        compared = [
            _compared(name, rows[reference], rows[other], draws)
            | {"metric": name, "variant": other, "reference": reference}
            for other in others
        ]
        found += _corrected(compared)
    return found


def _compared(
    name: str, reference: Mapping[str, RunRow], other: Mapping[str, RunRow], draws: Draws
) -> dict[str, Any]:
    shared = sorted(set(reference) & set(other))
    is_sound = all(has_substance(name, rows.values()) for rows in (reference, other))
    differences = [
        left - right
        for case in shared
        if is_sound
        and (left := reference[case].values[name]) is not None
        and (right := other[case].values[name]) is not None
    ]
    found = percentile_mean(differences, **draws._asdict())
    return {
        "direction": METRICS[name].direction,
        "n_pairs": len(differences),
        "unpaired_cases": len(set(reference) ^ set(other)),
        "null_pairs": len(shared) - len(differences),
        "mean_difference": None if found is None else found.mean,
        "ci_low": None if found is None else found.low,
        "ci_high": None if found is None else found.high,
        "wilcoxon_p_value": signed_rank_p_value(differences),
    }


def _corrected(compared: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    tested = [entry for entry in compared if entry["wilcoxon_p_value"] is not None]
    corrected = holm([entry["wilcoxon_p_value"] for entry in tested]) if tested else ()
    by_variant = {
        entry["variant"]: float(value) for entry, value in zip(tested, corrected, strict=True)
    }
    return [
        entry | {"wilcoxon_p_value_holm": by_variant.get(entry["variant"])} for entry in compared
    ]
