"""An exam: which evidence it reads, what it measures, by which rules it is judged.

``judge_exam`` puts what an exam found, its findings and its verdict into one sealed result.
"""

from __future__ import annotations

import mimetypes
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

import gatemark
from gatemark.core.canonical import canonical_bytes, digest, digest_bytes, plain
from gatemark.core.errors import IntegrityError, NewerFormatError, UsageError
from gatemark.core.fold import AnyMeasure, Measure
from gatemark.core.measurement import Direction, Evidence, Measurement, measured
from gatemark.core.policy import Policy, Verdict, Waiver, decide
from gatemark.core.reason import Reason
from gatemark.core.record import Problem, RecordSchema
from gatemark.core.registry import Registry
from gatemark.core.result import AssetRef, Blob, Cost, Figure, PackRef, Result, seal
from gatemark.core.rules import RulesVersions
from gatemark.core.stored import FORMAT, convert_stored, is_newer, newer_format

if TYPE_CHECKING:
    from gatemark.core.progress import Progress
    from gatemark.evidence.engines.port import Engine
    from gatemark.evidence.fold_cache import CachePolicy
    from gatemark.evidence.reading_choices import ReadingChoices

S = TypeVar("S", bound=msgspec.Struct)
K = TypeVar("K")


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


def added_counts(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    """Return the counts of two states together."""
    total = dict(left)
    for key, count in right.items():
        total[key] = total.get(key, 0) + count
    return total


def counted(
    name: str,
    count: int,
    n: int,
    *,
    direction: Direction = "lower_is_better",
    caveats: tuple[str, ...] = (),
) -> Measurement:
    """Return a number of items, rows or windows as a measurement over ``n`` of them."""
    return measured(name, count, n=n, direction=direction, unit="count", caveats=caveats)


class NumberedRecord(NamedTuple):
    """A record and its line."""

    line: int
    record: Any


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


EXAM_INPUTS_FORMAT: Final = "gatemark.sitting/1"
EXAM_INPUTS: Final = "sitting.json"
"""The name of the inputs that are stored with a result."""
EXPECTED_IDS: Final = "expected_ids.txt"
"""The name of a list of pinned ids that is stored with a result."""


class ExamInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The inputs of an exam: its options, how evidence was read, and the role of each file.

    ``left_out`` counts pinned items that could not be shown to reviewers.
    """

    kind: str
    options: dict[str, Any]
    reading: dict[str, str]
    roles: tuple[str, ...]
    left_out: Annotated[int, msgspec.Meta(ge=0)] = 0


def write_exam_inputs(
    kind: str,
    options: Mapping[str, object],
    choices: ReadingChoices,
    roles: Sequence[str],
    *,
    left_out: int = 0,
) -> bytes:
    """Return an exam's inputs as bytes; the same inputs give the same bytes."""
    sitting = ExamInputs(kind, dict(options), choices.checks(), tuple(roles), left_out)
    return canonical_bytes({**plain(sitting), FORMAT: EXAM_INPUTS_FORMAT})


def read_exam_inputs(data: bytes) -> ExamInputs:
    """Return the inputs that ``write_exam_inputs`` wrote."""
    try:
        content = msgspec.json.decode(data, type=dict[str, object])
        name = content.pop(FORMAT, EXAM_INPUTS_FORMAT)
        if isinstance(name, str) and is_newer(name, EXAM_INPUTS_FORMAT):
            raise NewerFormatError(f"its {EXAM_INPUTS} {newer_format(name)}")
        return convert_stored(content, ExamInputs)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"its {EXAM_INPUTS} is not valid: {error}") from error


class EvidenceRole(msgspec.Struct, frozen=True):
    """A file that an exam reads. A pack names it by ``name``, a command by ``--name FILE``.

    Without a ``required`` file, a result cannot be derived again. A ``positional`` file needs no
    option. ``many`` files may share a role. In a ``named`` role, every file brings a name of its
    own (NAME=FILE). A file of an ``alone`` role is the only one of its run.
    """

    name: str
    help: str
    required: bool = False
    positional: bool = False
    many: bool = False
    named: bool = False
    alone: bool = False


RECORDS: Final = EvidenceRole("records", "Evidence, one record per line.", positional=True)


class DocumentType(msgspec.Struct, frozen=True):
    """A document that an exam writes, for ``gatemark schema``."""

    name: str
    summary: str
    type: type[msgspec.Struct]


class Suite(msgspec.Struct, frozen=True):
    """A suite kind: its name, what it is for, and its options."""

    kind: str
    summary: str
    options: type[msgspec.Struct]

    @property
    def is_built_in(self) -> bool:
        """Whether the kind is part of this build, and not of another distribution."""
        return self.options.__module__.partition(".")[0] == gatemark.__name__


class ExamSuite(Suite, frozen=True):
    """An exam as a plugin: the whole declaration.

    ``gatemark score``, the suite kind in packs, sealing and ``ledger verify --rescore`` follow from
    it. ``examine`` runs the exam over its files; without it, the records of one role are folded.
    ``role_options`` gives the options that follow from which roles have a file. ``own_options`` say
    what no record proves, so that only Gatemark's own features set them, and no pack may. ``rules``
    are the versions of its rules (default: version 1 only); results name the current one.
    """

    build: Callable[[Any, Registry[AnyMeasure]], AnyExam]
    roles: tuple[EvidenceRole, ...] = (RECORDS,)
    examine: Callable[[ExamRun], ExamOutcome] | None = None
    role_options: Callable[[Collection[str]], dict[str, object]] | None = None
    own_options: Mapping[str, str] = {}
    documents: tuple[DocumentType, ...] = ()
    rules: RulesVersions | None = None

    @property
    def rules_versions(self) -> RulesVersions:
        """The versions of the exam's rules."""
        return self.rules or RulesVersions(self.kind)

    @property
    def is_built_in(self) -> bool:
        return self.build.__module__.partition(".")[0] == gatemark.__name__


def file_option(description: str, *, metavar: str = "FILE") -> Meta:
    """Describe an option that is the path of a file or folder."""
    return Meta(description=description, extra={"metavar": metavar})


def option(
    description: str,
    *flags: str,
    metavar: str | None = None,
    low: float | None = None,
    high: float | None = None,
    is_open: bool = False,
    hint: str = "",
) -> Meta:
    """Describe an option of an exam; ``flags`` are its names, if not ``--`` and that of the field.

    The command line checks the bounds; with ``is_open``, the bounds themselves are refused.
    ``hint`` ends the error message.
    """
    bounds = {"low": low, "high": high, "is_open": is_open, "hint": hint}
    return Meta(description=description, extra={"flags": flags, "metavar": metavar, **bounds})


@cache
def schemas() -> Registry[RecordSchema]:
    """Return the registry of evidence schemas."""
    return Registry(
        kind="schema",
        places=(
            "gatemark.*.records",
            "gatemark.exams.*.records",
            "gatemark.exams.*.record_schema",
            "gatemark.exams.runlog.records.*",
        ),
        attribute="SCHEMA",
        plugin_type=RecordSchema,
        name_of=lambda schema: schema.name,
    )


def schema_of(exam: AnyExam) -> RecordSchema:
    """Return the schema of an exam's records, without loading all others if possible."""
    own = exam.own_schema()
    return own or schemas().get(exam.schema, near=type(exam).__module__.split(".")[-2])


@cache
def measures() -> Registry[AnyMeasure]:
    """Return the registry of measures."""
    return Registry(
        kind="measure",
        places=("gatemark.*.measure", "gatemark.exams.*.measure"),
        attribute="MEASURE",
        plugin_type=Measure,
        name_of=lambda measure: measure.name,
    )


@cache
def suites() -> Registry[Suite]:
    """Return the registry of suite kinds."""
    return Registry(
        kind="suite",
        places=("gatemark.packs.suites.*", "gatemark.exams.*.exam"),
        attribute="SUITE",
        plugin_type=Suite,
        name_of=lambda suite: suite.kind,
    )


def checked_options(kind: str, given: Mapping[str, object], model: type[S]) -> S:
    """Return the options of an exam as their type; refuse wrong ones."""
    try:
        return msgspec.convert(given, model)
    except msgspec.ValidationError as error:
        raise UsageError(f"{kind}: {error}") from error


def exam_suite(kind: str) -> ExamSuite:
    """Return the declaration of an exam."""
    suite = suites().get(kind)
    if not isinstance(suite, ExamSuite):
        raise UsageError(f"suite {kind} does not read evidence files")
    return suite


SCORE_PACK: Final = "score-"
"""Prefix of the pack name of a result that comes from one exam."""


class Scored(msgspec.Struct, frozen=True):
    """A judged exam: the result, its JSON summary and the files that belong to it.

    ``kept`` goes into the store alongside the attachments, so that the exam can be run again.
    """

    result: Result
    summary: dict[str, Any]
    attachments: dict[str, bytes]
    kept: dict[str, bytes] = {}

    @property
    def stored_files(self) -> tuple[bytes, ...]:
        """The files that go into the store with the result, besides its evidence."""
        return (*self.attachments.values(), *self.kept.values())


def judge_exam(
    kind: str,
    examined: ExamOutcome,
    *,
    actor: str,
    started_at: datetime,
    finished_at: datetime,
    waivers: Sequence[Waiver] = (),
    title: str | None = None,
    kept: Mapping[str, bytes] | None = None,
    about: tuple[AssetRef | None, AssetRef | None] = (None, None),
) -> Scored:
    """Judge one exam; ``about`` is the candidate and the baseline."""
    policy: Policy = examined.exam.policy()
    report = examined.report
    verdict = decide(policy, (examined.evidence,), report.measurements, waivers, now=finished_at)
    verdict = _in_plain_words(verdict, examined.exam.reasons(report, verdict))
    closing = examined.exam.closing(report, examined.evidence, verdict)
    blobs = tuple(
        Blob(name, digest_bytes(data), mimetypes.guess_type(name)[0] or "application/octet-stream")
        for name, data in sorted({**report.attachments, **(kept or {})}.items())
    )
    result = seal(
        title=title or f"{kind} exam",
        pack=PackRef(
            name=f"{SCORE_PACK}{kind}", version=1, digest=digest({"kind": kind, "policy": policy})
        ),
        policy=policy,
        policy_digest=policy.digest,
        rules={kind: exam_suite(kind).rules_versions.current},
        candidate=about[0],
        baseline=about[1],
        snapshots=tuple(file.digest for file in examined.evidence.files),
        runtime=runtime_versions(),
        evidence=(examined.evidence,),
        measurements=report.measurements,
        findings=verdict.findings,
        bench=verdict.bench,
        regression=verdict.regression,
        verdict=verdict.outcome,
        blockers=verdict.blockers,
        caveats=(*verdict.caveats, *closing.caveats),
        figures=(*closing.figures, *report.figures),
        blobs=blobs,
        waivers=tuple(waivers),
        started_at=started_at,
        finished_at=finished_at,
        actor=actor,
        cost=Cost(calls=0),
    )
    summary = {
        **examined.exam.summary(report, examined.evidence, verdict),
        "policy_digest": policy.digest,
        "result_id": result.id,
    }
    return Scored(
        result=result,
        summary=summary,
        attachments=report.attachments,
        kept=dict(kept or {}),
    )


def _in_plain_words(verdict: Verdict, reasons: Mapping[str, str]) -> Verdict:
    """Replace the words of findings, and of the blockers that they gave."""
    findings = tuple(
        msgspec.structs.replace(found, reason=_reworded(found.reason, reasons[found.rule]))
        if found.rule in reasons
        else found
        for found in verdict.findings
    )
    said = {
        str(before.reason): str(after.reason)
        for before, after in zip(verdict.findings, findings, strict=True)
    }
    blockers = tuple(said.get(text, text) for text in verdict.blockers)
    return msgspec.structs.replace(verdict, findings=findings, blockers=blockers)


def _reworded(reason: Reason, text: str) -> Reason:
    return msgspec.structs.replace(reason, text=text)


PACKAGES = ("msgspec", "numpy", "scipy", "rfc8785")


def runtime_versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that numbers come from."""
    versions = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.machine()}",
        # What runs counts, not what was installed before the source changed.
        "gatemark": gatemark.__version__,
    }
    return versions | {package: _installed_version(package) for package in PACKAGES}


@cache
def _installed_version(package: str) -> str:
    """Return the version of a package; reading it takes milliseconds, so it is read once."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
