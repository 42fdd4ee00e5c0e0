"""Observations for drift monitoring from advisory decisions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import UNSET

from gatemark.evidence.observations import ConfidenceValue, Observation, Occurrence, PointSource
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import find_sources
from gatemark.evidence.whole_file import admitted_batches
from gatemark.plugins.advisory.record import AdvisoryDecision, parse_moment
from gatemark.plugins.advisory.record_schema import SCHEMA


def _read(
    paths: Sequence[str], choices: ReadingChoices
) -> Iterator[tuple[str, Iterator[Observation]]]:
    """Read files of decisions one by one."""
    form = SCHEMA.form("decision")
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        for source in find_sources(paths, choices.limits, Path(folder)):
            batches = admitted_batches(source, form, choices)
            found = (
                one
                for batch in batches
                for _, decision in batch
                for one in _derive_observations(decision)
            )
            yield source.name, found


def _derive_observations(decision: AdvisoryDecision) -> Iterator[Observation]:
    """Yield a decision's error, its confidence, and whether it was right."""
    name, moment = decision.service.name, parse_moment(decision.timestamp)
    error = decision.outcome.error_type
    kind = Occurrence(str(error) if error else "none")
    yield Observation(name, "tool_error_classes", moment, kind)
    score = decision.confidence.score
    if score is None or score is UNSET:
        return
    yield Observation(name, "confidence_kl", moment, ConfidenceValue(score))
    if decision.outcome.comparison in ("agree", "disagree"):
        is_correct = decision.outcome.comparison == "agree"
        yield Observation(name, "calibration_ece", moment, ConfidenceValue(score, is_correct))


POINTS = PointSource("advisory", _read)
