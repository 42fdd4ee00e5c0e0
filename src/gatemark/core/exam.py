"""An exam: which evidence it reads, what it measures, by which rules it is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.figure import Figure
from gatemark.core.fold import Measure
from gatemark.core.measurement import Evidence, Measurement
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.record import Problem
from gatemark.core.registry import Registry
from gatemark.evidence.rows import Row
from gatemark.packs.answers import Answer
from gatemark.packs.pack import RegressionMode, SuiteSpec

S = TypeVar("S", bound=msgspec.Struct)


class ExamReport(msgspec.Struct, frozen=True):
    """What an exam found, before anyone has judged it.

    ``score`` is the oriented number in [0, 1] that a pack weighs; None when it has none.
    ``attachments`` are files to write beside the report, by name; ``facts`` are the exam's own
    plain counts for its summary.
    """

    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    attachments: dict[str, bytes]
    facts: dict[str, Any]
    score: Measurement | None = None


class VerdictNotes(NamedTuple):
    """What an exam adds to its report once there is a verdict."""

    caveats: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


class NumberedRecord(NamedTuple):
    """A record and the line it stood on."""

    line: int
    record: Any


class Joined(msgspec.Struct, frozen=True):
    """Several files of one-sided records made into whole items.

    ``unmatched`` names, per file, the items that the file has and another lacks.
    """

    rows: Sequence[Any]
    state: Any
    unmatched: dict[str, tuple[NumberedRecord, ...]]


class Exam(ABC, Generic[S]):
    """A fold over records with rules of its own.

    ``zero`` takes the number of the shard it starts, so that a state which must keep order can
    carry it; ``merge`` stays free of order.
    """

    schema: ClassVar[str]
    form: ClassVar[str]
    one_sided_form: ClassVar[str | None] = None
    state: ClassVar[type[Any]]

    @abstractmethod
    def zero(self, shard: int) -> S:
        """The state before any record."""

    @abstractmethod
    def step(self, state: S, batch: Sequence[Any]) -> S:
        """The state after some more records; may change ``state`` and return it."""

    @abstractmethod
    def merge(self, left: S, right: S) -> S:
        """One state for two disjoint sets of records."""

    def join(self, tables: Mapping[str, Sequence[NumberedRecord]]) -> Joined:
        """Whole items from one-sided ones, for exams that can read them apart."""
        raise UsageError(f"this exam cannot join {', '.join(tables)}")

    @abstractmethod
    def policy(self) -> Policy:
        """The rules this exam is judged by when nobody brings others."""

    @abstractmethod
    def finish(self, state: S) -> ExamReport:
        """The measurements and figures that the state holds."""

    def finalize_shard(self, state: S) -> S:
        """The state as it leaves the process that folded it."""
        return state

    def account(self, state: S, evidence: Evidence) -> ExamReport:
        """The report, for exams whose numbers must allow for evidence that was lost."""
        del evidence
        return self.finish(state)

    @property
    def facts_key(self) -> str | None:
        """Names all that a state depends on besides the records; None when it must not be kept."""
        return None

    def rebase_shard(self, state: S, shard: int) -> S:
        """A kept state as if its records had begun at this shard."""
        del state
        raise UsageError(f"a state cannot be moved to shard {shard}")

    def needs_strict_pass(self, state: S) -> bool:
        """Whether some record that was counted must first be asked by ``problems``."""
        del state
        return False

    def problems(self, record: Any) -> Sequence[Problem]:
        """What keeps a sound record out of this exam; asked only where there are doubts."""
        del record
        return ()

    def closing(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> VerdictNotes:
        """What the verdict lets the exam say, for people who read the report."""
        del report, evidence, verdict
        return VerdictNotes()

    @abstractmethod
    def summary(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
        """The JSON document that scripts read."""


class Suite(msgspec.Struct, frozen=True):
    """A suite kind: its name, what it is for, and its options."""

    kind: str
    summary: str
    options: type[msgspec.Struct]


class ExamSuite(Suite, frozen=True):
    """A suite that is a fold over evidence files."""

    build: Callable[[Any, Registry[Measure[Any]]], Exam[Any]]


class ArmsEvidence(msgspec.Struct, frozen=True):
    """The answers of both arms to one suite's items, and what they are judged against.

    ``baseline`` is None when the pack says that there is none.
    """

    spec: SuiteSpec
    rows: tuple[Row, ...]
    candidate: tuple[Answer, ...]
    baseline: tuple[Answer, ...] | None
    margin: float
    alpha: float


class ArmsReport(msgspec.Struct, frozen=True):
    """What a suite found about two arms.

    ``score`` and ``baseline_score`` are oriented numbers in [0, 1]; ``delta_error`` is the
    standard error of their difference, None when it is not known.
    """

    score: Measurement
    baseline_score: Measurement
    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...]
    delta_error: float | None


class PackSuite(Suite, frozen=True):
    """A suite that looks at the answers of two arms.

    ``rules`` sees only the pack, so that no rule can bend to the evidence; ``scorer`` is the
    scorer used when the pack names none, and ``default_regression`` the mode.
    """

    rules: Callable[[SuiteSpec, Any], tuple[Rule, ...]]
    examine: Callable[[ArmsEvidence, Any], ArmsReport]
    scorer: str | None
    default_regression: RegressionMode
