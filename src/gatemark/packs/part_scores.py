"""Measure each part of a combined score on its own, so that a rule can check one.

A weighted mean can hide that one part dropped, such as a reply that is better worded but no longer
valid JSON. A part is a scope of its suite, such as ``golden/is_json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.packs.answers import Answer
from gatemark.packs.sample_lines import PART_MARK
from gatemark.packs.suites.suite import ArmsEvidence, PackSuite

PART_METRICS: Final = {
    "score": "part_score",
    "baseline_score": "part_baseline_score",
    "regression": "part_regression",
}
"""The suite's metrics, and the names of the same metrics for one part.

Separate names keep the parts out of the tests over all suites.
"""


def measure_parts(
    evidence: ArmsEvidence, plugin: PackSuite, options: msgspec.Struct
) -> list[Measurement]:
    """Return the numbers of every part that the candidate's answers have."""
    # Slices of parts would be too small to tell anything.
    spec = msgspec.structs.replace(
        evidence.spec, slices=(), slice_min=None, slice_regression_max=None
    )
    found: list[Measurement] = []
    for part in dict.fromkeys(name for answer in evidence.candidate for name in answer.parts):
        own = msgspec.structs.replace(
            evidence,
            spec=spec,
            candidate=_select_part(evidence.candidate, part),
            baseline=None if evidence.baseline is None else _select_part(evidence.baseline, part),
        )
        report = plugin.examine(own, options)
        numbers = [report.score, *report.measurements]
        if evidence.baseline is not None:
            numbers.append(report.baseline_score)
        found.extend(
            msgspec.structs.replace(
                number, name=PART_METRICS[number.name], scope=f"{spec.id}{PART_MARK}{part}"
            )
            for number in numbers
            if number.name in PART_METRICS and number.scope == spec.id
        )
    return found


def _select_part(answers: Sequence[Answer], part: str) -> tuple[Answer, ...]:
    """Return the answers with the score of one part; those without it stay without a score."""
    return tuple(
        msgspec.structs.replace(answer, score=answer.parts.get(part)) for answer in answers
    )
