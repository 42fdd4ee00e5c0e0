"""Run the run-log exam over files of per-case metrics."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence
from gatemark.core.record import Remark
from gatemark.evidence.exam import ExamOutcome, ExamRun
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.inputs import SeenInputs
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import Source, digest_source, find_sources
from gatemark.evidence.whole_file import read_tagged
from gatemark.plugins.runlog.records.metrics import MetricsRecord, PerCaseMetrics
from gatemark.plugins.runlog.records.metrics_file_rules import MetricsRules

ROLE: Final = "metrics"


class _RowCollector(MetricsRules):
    """The rules of a metrics file; keeps the rows."""

    def __init__(self) -> None:
        super().__init__(strict=True)
        self.rows: list[PerCaseMetrics] = []

    def see(self, lines: Sequence[int], records: Sequence[MetricsRecord]) -> Iterator[Remark]:
        self.rows.extend(record for record in records if isinstance(record, PerCaseMetrics))
        return super().see(lines, records)


def read_rows(source: Source, choices: ReadingChoices) -> list[PerCaseMetrics]:
    """Return the per-case records of a metrics file, or raise with every problem."""
    rules = _RowCollector()
    reading = read_tagged(source, schemas().get("exaid.metrics"), rules, choices)
    if not reading.is_valid:
        raise BadInputError(reading.problems, unlisted_count=reading.unlisted)
    if not rules.rows:
        raise BadInputError(f"{source.name}: holds no per_case records")
    return rules.rows


def examine_metrics(run: ExamRun) -> ExamOutcome:
    """Run the exam over files of per-case metrics."""
    if set(run.roles) != {ROLE}:
        raise UsageError(f"runlog reads files of one role, {ROLE!r}")
    return examine_metrics_files(
        run.paths, dict(run.options), run.reading, expected_ids=run.expected_ids
    )


def examine_metrics_files(
    paths: Sequence[str],
    options: dict[str, object],
    choices: ReadingChoices,
    *,
    expected_ids: frozenset[str] | None = None,
) -> ExamOutcome:
    """Run the exam over per-case metrics; a case may occur once per variant.

    ``expected_ids`` are the cases that every variant must have; without them, those that any
    variant has.
    """
    exam = build_exam(ExamJob("runlog", options, choices))
    state = exam.zero(0)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        sources = find_sources(paths, choices.limits, Path(folder))
        seen: dict[tuple[str, str], str] = {}
        known: dict[str, SeenInputs] = {}
        for source in sources:
            rows = read_rows(source, choices)
            for row in rows:
                inputs = known.setdefault(row.variant_id, SeenInputs("case"))
                same = inputs.see(row.case_id, f"in {source.name}")
                if same is not None:
                    raise BadInputError(
                        f"{source.name}: {row.variant_id}: {same.describe()}; name each file once"
                    )
                seen[row.variant_id, row.case_id] = source.name
            state = exam.step(state, rows)
        files = tuple(digest_source(source) for source in sources)
    variants = {variant for variant, _ in seen}
    cases = {case for _, case in seen} if expected_ids is None else expected_ids
    wanted = {(variant, case) for variant in variants for case in cases}
    strangers = sorted(seen.keys() - wanted)
    if strangers:
        variant, case = strangers[0]
        raise BadInputError(f"{seen[variant, case]}: {case!r} is not among the expected ids")
    evidence = Evidence(
        received=len(seen),
        accepted=len(seen),
        rejected=0,
        usable=len(seen),
        missing=len(wanted - seen.keys()),
        expected=len(wanted),
        files=files,
        checks=choices.checks(),
    )
    return ExamOutcome(exam, exam.finish(state), evidence)
