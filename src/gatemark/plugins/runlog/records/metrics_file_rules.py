"""The rules across the records of metrics. Those of each record are rows in ``metrics_rules``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gatemark.core.record import FileRules, Grade, Remark
from gatemark.evidence.inputs import SameInput, normalize_id
from gatemark.plugins.runlog.records.metrics import MetricsRecord, PerCaseMetrics
from gatemark.plugins.runlog.records.metrics_rules import NUMBERS

METRICS_RULES: Final[Mapping[str, str]] = {
    "once_per_variant": "a case occurs once per variant",
    "numbers_agree": "the numbers of a row do not contradict each other",
}
"""Every rule."""


class MetricsRules(FileRules):
    """A case occurs once per variant, and the numbers of a row agree.

    A row that contradicts itself is a warning; ``strict`` makes it an error, for verdicts.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._grade: Grade = "error" if strict else "warning"

    def see(self, lines: Sequence[int], records: Sequence[MetricsRecord]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            if not isinstance(record, PerCaseMetrics):
                continue
            name = f"{record.case_id} under {record.variant_id}"
            key = (normalize_id(record.case_id), record.variant_id)
            first, first_name = self._first.setdefault(key, (line, name))
            if first != line:
                same = SameInput.named(name, first_name, f"on line {first}")
                yield Remark(line, "once_per_variant", "$.case_id", same.describe())
            for problem in NUMBERS.find_problems(record):
                yield Remark(line, "numbers_agree", problem.path, problem.message, self._grade)

    def lost(self) -> None:
        """Do nothing; no rule depends on lost lines."""

    def end(self) -> Iterator[Remark]:
        yield from ()
