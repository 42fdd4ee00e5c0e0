"""Observations for drift monitoring from run logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from gatemark.evidence.observations import Hit, Observation, PointSource
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.runlog.records.run import RunLog
from gatemark.plugins.runlog.traces.files import read_run_log


def _read(
    paths: Sequence[str], choices: ReadingChoices
) -> Iterator[tuple[str, Iterator[Observation]]]:
    for path in paths:
        yield path, _observe_log(read_run_log(path, choices=choices))


def _observe_log(log: RunLog) -> Iterator[Observation]:
    """Yield held-back texts as blocks, and summaries that fail their schema as rejections."""
    for decision in log.decisions:
        hit = Hit(decision.decision != "summarize")
        moment = datetime.fromisoformat(decision.timestamp)
        yield Observation(decision.variant_id, "verifier_block_ratio", moment, hit)
    for event in log.events:
        moment = datetime.fromisoformat(event.timestamp)
        yield Observation(event.variant_id, "rejection_ratio", moment, Hit(not event.schema_ok))


POINTS = PointSource("runlog", _read)
