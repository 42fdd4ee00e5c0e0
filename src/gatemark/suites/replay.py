"""``replay``: recent production runs again; what they said is a reference for change, not truth.

The baseline answers the same runs, so that its own distance from what production said tells how
much change is mere noise. The score is the closeness to production; what counts is how much
further the candidate is from it than the baseline.
"""

from __future__ import annotations

import msgspec

from gatemark.core.answers import baseline_per_item, paired, per_item
from gatemark.core.exam import ArmsEvidence, ArmsReport, PackSuite
from gatemark.core.exhibit import Table
from gatemark.core.measurement import Measurement, measured
from gatemark.core.pack import SuiteSpec
from gatemark.core.policy import Rule
from gatemark.statistics.arms import (
    baseline_score,
    chance_of_drop,
    delta_error,
    drop,
    mean_score,
    smallest_visible_drop,
)

SHOWN_ITEMS = 50


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A replay suite has nothing to set."""


def rules(_spec: SuiteSpec, _options: Options) -> tuple[Rule, ...]:
    """A replay suite has no rules besides those of every suite."""
    return ()


def examine(evidence: ArmsEvidence, _options: Options) -> ArmsReport:
    """Behavioural change of both arms against production, and the change beyond noise."""
    lane = evidence.spec.id
    candidate = per_item(evidence.candidate)
    baseline = baseline_per_item(evidence.baseline)
    pairs = paired(candidate, baseline)
    score = mean_score("score", lane, list(candidate.values()))
    noise = baseline_score(lane, list(baseline.values()))
    numbers: list[Measurement] = [
        _distance("behavioural_delta", lane, score),
        _distance("noise_band", lane, noise),
    ]
    if evidence.baseline is not None:
        numbers.append(smallest_visible_drop(lane, pairs, alpha=evidence.alpha))
        numbers.append(chance_of_drop(lane, pairs))
        numbers.append(drop(lane, pairs, margin=evidence.margin, alpha=evidence.alpha))
    further = sorted(
        (pair for pair in pairs if pair.candidate.mean < pair.baseline.mean),
        key=lambda pair: (pair.candidate.mean - pair.baseline.mean, pair.id),
    )
    rows = tuple(
        (pair.id, round(pair.baseline.mean, 4), round(pair.candidate.mean, 4))
        for pair in further[:SHOWN_ITEMS]
    )
    table = Table(
        f"{lane}: further from production than the baseline",
        ("item", "baseline", "candidate"),
        rows,
        len(further),
    )
    return ArmsReport(
        score=score,
        baseline_score=noise,
        measurements=tuple(numbers),
        exhibits=(table,) if rows else (),
        delta_error=delta_error(pairs),
    )


def _distance(name: str, lane: str, closeness: Measurement) -> Measurement:
    if closeness.value is None:
        return msgspec.structs.replace(closeness, name=name, direction="lower_is_better")
    return measured(
        name, 1 - closeness.value, n=closeness.n, direction="lower_is_better", lane=lane
    )


SUITE = PackSuite(
    kind="replay",
    summary="Recent runs again: how far each arm is from what production said, beyond noise.",
    options=Options,
    rules=rules,
    examine=examine,
    scorer="normalised",
    default_regression="non_inferiority",
)
