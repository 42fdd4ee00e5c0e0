"""An exam: a fold over records, with rules that judge what it finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Policy, Verdict
from gatemark.core.record import Problem, RecordSchema
from gatemark.core.result import Figure

if TYPE_CHECKING:
    from gatemark.core.progress import Progress
    from gatemark.evidence.engines.port import Engine
    from gatemark.evidence.fold_cache import CachePolicy
    from gatemark.evidence.reading_choices import ReadingChoices

S = TypeVar("S", bound=msgspec.Struct)


class ExamReport(msgspec.Struct, frozen=True):
    """What an exam found, before anyone has judged it.

    ``score`` is the oriented number in [0, 1] that a pack weighs; None when it has none.
    ``attachments`` are files to write alongside the report, by name; ``facts`` are the exam's own
    plain counts for its summary. ``answered_at`` is the time of the oldest record, if records say.
    """

    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    attachments: dict[str, bytes]
    facts: dict[str, Any]
    score: Measurement | None = None
    answered_at: datetime | None = None

    @property
    def by_name(self) -> dict[str, Measurement]:
        """The measurements by name."""
        return {number.name: number for number in self.measurements}


class VerdictNotes(NamedTuple):
    """What an exam adds to its report once there is a verdict."""

    caveats: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


class Exam(ABC, Generic[S]):
    """A fold over records with rules of its own.

    ``zero`` takes the number of its shard, so that a state can keep order; ``merge`` must not
    depend on order.
    """

    schema: ClassVar[str]
    form: ClassVar[str]
    state: ClassVar[type[Any]]

    @abstractmethod
    def zero(self, shard: int) -> S:
        """Return the state before any record."""

    @abstractmethod
    def step(self, state: S, batch: Sequence[Any]) -> S:
        """Return the state after some more records; may change and return ``state``."""

    @abstractmethod
    def merge(self, left: S, right: S) -> S:
        """Return one state for two disjoint sets of records."""

    def own_schema(self) -> RecordSchema | None:
        """Return the schema of the records where options change it; None for the registered one."""
        return None

    @abstractmethod
    def policy(self) -> Policy:
        """Return the rules of this exam."""

    @abstractmethod
    def finish(self, state: S) -> ExamReport:
        """Return the report of a state."""

    def finalize_shard(self, state: S) -> S:
        """Return the state in the form that leaves its process."""
        return state

    def account(self, state: S, evidence: Evidence) -> ExamReport:
        """Return the report of a state and its evidence; lost evidence can change the numbers."""
        del evidence
        return self.finish(state)

    @property
    def facts_key(self) -> str | None:
        """A key of all that a state depends on besides the records; None forbids caching."""
        return None

    def rebase_shard(self, state: S, shard: int) -> S:
        """Return a cached state as if its records began at this shard."""
        del state
        raise UsageError(f"this exam cannot move a state to shard {shard}")

    def needs_strict_pass(self, state: S) -> bool:
        """Return whether all records must be read again and checked by ``problems``."""
        del state
        return False

    def problems(self, record: object) -> Sequence[Problem]:
        """Return why this exam refuses a valid record; used in a strict pass only."""
        del record
        return ()

    def closing(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> VerdictNotes:
        """Return what the exam adds to the report once there is a verdict."""
        del report, evidence, verdict
        return VerdictNotes()

    def reasons(self, report: ExamReport, verdict: Verdict) -> Mapping[str, str]:
        """Return plain words for findings, by rule; the others keep their words."""
        del report, verdict
        return {}

    def title(self, report: ExamReport) -> str | None:
        """Return the default title of the result."""
        del report
        return None

    @abstractmethod
    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        """Return the JSON document for scripts."""


AnyExam = Exam[Any]
"""An exam whose state is its own affair."""


class ExamOutcome(msgspec.Struct, frozen=True):
    """What an exam found in some evidence, before it is judged."""

    exam: AnyExam
    report: ExamReport
    evidence: Evidence


@dataclass(frozen=True)
class ExamRun:
    """One run of an exam: its options, its files by role, and how to read them.

    ``left_out`` counts pinned items that could not be shown to reviewers. ``now`` is for exams that
    refuse records of the future; there is none when a sealed result is derived again.
    """

    kind: str
    options: Mapping[str, object]
    files: Sequence[tuple[str, str]]
    reading: ReadingChoices
    engine: Engine
    expected_ids: frozenset[str] | None = None
    cache: CachePolicy | None = None
    left_out: int = 0
    on_progress: Progress | None = None
    now: datetime | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The role of every file, in order."""
        return tuple(role for role, _ in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """The path of every file, in order."""
        return tuple(path for _, path in self.files)
