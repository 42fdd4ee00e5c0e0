"""What must hold in a file of metrics: in each record, and across the records of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gatemark.core.record import FileRules, Problem, Remark
from gatemark.core.runlog.fields import (
    CASE_PATTERN,
    VARIANT_PATTERN,
    VERSION_PATTERN,
    fits,
    must_be_moment,
    must_fit,
    text_problems,
)
from gatemark.core.runlog.metrics import AggregateMetrics, PerCaseMetrics

_PER_CASE: Final = (
    must_fit("case_id", CASE_PATTERN),
    must_fit("variant_id", VARIANT_PATTERN),
    must_fit("schema_version", VERSION_PATTERN),
)
_AGGREGATE: Final = (must_be_moment("computed_at"), must_fit("schema_version", VERSION_PATTERN))


def per_case_problems(record: PerCaseMetrics) -> Sequence[Problem]:
    """What no single field of a case's metrics can show."""
    return list(text_problems(record, _PER_CASE))


def aggregate_problems(record: AggregateMetrics) -> Sequence[Problem]:
    """What no single field of the report can show."""
    found = list(text_problems(record, _AGGREGATE))
    found.extend(
        Problem("$.variants", f"{name[:80]!r} is no variant")
        for name in record.variants
        if not fits(VARIANT_PATTERN, name)
    )
    return found


class MetricsRules(FileRules):
    """A case comes once per variant."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], int] = {}

    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            if not isinstance(record, PerCaseMetrics):
                continue
            key = (record.case_id, record.variant_id)
            first = self._lines.setdefault(key, line)
            if first != line:
                message = f"{key[0]} under {key[1]} was seen before on line {first}"
                yield Remark(line, "once_per_variant", "$.case_id", message)

    def lost(self) -> None:
        """Nothing here depends on what was lost."""

    def end(self) -> Iterator[Remark]:
        yield from ()
