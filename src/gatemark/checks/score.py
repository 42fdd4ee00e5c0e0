"""Score an exam: the code behind ``gatemark score KIND`` and ``gatemark.score("KIND", …)``.

An exam can be scored from its declaration alone. One that takes more than its options, or writes
files of its own, declares a ``ScoreVerb`` named ``SCORE`` in its ``score.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property, partial
from os import PathLike, fspath
from typing import Any, Final, Literal

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Evidence
from gatemark.core.policy import Outcome, Waiver
from gatemark.core.progress import Progress
from gatemark.core.registry import Registry
from gatemark.core.result import Result
from gatemark.evidence.exam import ExamRun
from gatemark.evidence.exam_inputs import EXAM_INPUTS, EXPECTED_IDS, write_exam_inputs
from gatemark.evidence.exam_options import checked_options
from gatemark.evidence.exam_suite import EvidenceRole, ExamSuite, suites
from gatemark.evidence.fold_cache import CachePolicy
from gatemark.evidence.judge_exam import Scored, judge_exam
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.small_file import read_expected_ids
from gatemark.evidence.source import STDIN
from gatemark.workspace import Workspace

Feature = Literal[
    "cache", "engine", "expected_ids", "jobs", "out", "reading", "seal", "unpaired", "waivers"
]
"""Features that a scoring command can offer besides its files and parameters."""

EVERY_EXAM: Final[frozenset[Feature]] = frozenset(
    {"engine", "expected_ids", "jobs", "out", "reading", "seal", "waivers"}
)


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """What to score: files by role, the command's parameters, and how to run.

    ``expected_ids`` are the pinned ids, or the path of a file with them.
    """

    files: Sequence[tuple[str, str]]
    parameters: Any = None
    reading: ReadingChoices = field(default_factory=ReadingChoices)
    expected_ids: str | frozenset[str] | None = None
    waivers: Sequence[Waiver] = ()
    seal: bool = False
    title: str | None = None
    cache: bool = False
    on_progress: Progress | None = None


@dataclass(frozen=True, kw_only=True)
class ScoreReport:
    """The outcome of scoring: a JSON document, a text, files, and a result if one was made.

    ``verdict`` is None if there was no rule to judge by. Files are rendered on first use.
    """

    document: Any
    verdict: Outcome | None
    text: Callable[[bool], str]
    render_files: Callable[[], Mapping[str, bytes]] = dict
    result: Result | None = None

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """The files for ``--out``, by name."""
        return self.render_files()


@dataclass(frozen=True)
class ReportFile:
    """A JSON file that a command writes when it is given ``--name FILE``."""

    name: str
    help: str
    render: Callable[[Any], bytes]


@dataclass(frozen=True, kw_only=True)
class ScoreVerb:
    """A scoring command: its parameters and what it runs.

    ``help`` follows the summary; ``writes`` describes the files of ``--out``.
    """

    name: str
    kind: str
    summary: str
    roles: tuple[EvidenceRole, ...]
    parameters: type[msgspec.Struct]
    score: Callable[[Workspace, ScoreRequest], ScoreReport]
    help: str = ""
    features: frozenset[Feature] = EVERY_EXAM
    report_files: tuple[ReportFile, ...] = ()
    writes: str = "the files of the exam"


def score_verb(
    suite: ExamSuite,
    *,
    help: str = "",  # noqa: A002 - as click calls it
    summary: str | None = None,
    features: frozenset[Feature] = EVERY_EXAM,
    parameters: type[msgspec.Struct] | None = None,
    to_options: Callable[[Any, datetime], dict[str, object]] | None = None,
    report_files: tuple[ReportFile, ...] = (),
    writes: str = ScoreVerb.writes,
) -> ScoreVerb:
    """Return the command of an exam.

    ``to_options`` turns the command's parameters into the exam's options.
    """
    return ScoreVerb(
        name=suite.kind,
        kind=suite.kind,
        summary=summary or suite.summary,
        help=help,
        roles=suite.roles,
        parameters=parameters or suite.options,
        score=partial(_score, suite=suite, to_options=to_options),
        features=features,
        report_files=report_files,
        writes=writes,
    )


@cache
def score_verbs() -> Registry[ScoreVerb]:
    """Return the commands that exams declare themselves."""
    return Registry(
        kind="score",
        places=("gatemark.checks.*.score",),
        attribute="SCORE",
        plugin_type=ScoreVerb,
        name_of=lambda verb: verb.name,
    )


def find_verb(name: str) -> ScoreVerb | None:
    """Return the scoring command of that name, or None."""
    if name in score_verbs():
        return score_verbs().get(name)
    suite = suites().get(name) if name in suites() else None
    return score_verb(suite) if isinstance(suite, ExamSuite) else None


def list_verbs() -> tuple[str, ...]:
    """Return the names of all exams that can be scored."""
    declared = {verb.name: verb.kind for verb in score_verbs()}
    exams = {suite.kind for suite in suites() if isinstance(suite, ExamSuite)}
    return tuple(sorted({*declared, *(exams - set(declared.values()))}))


def score(
    kind: str,
    *paths: str | PathLike[str],
    store: str | PathLike[str] | None = None,
    seal: bool = False,
    title: str | None = None,
    expected_ids: str | PathLike[str] | None = None,
    waivers: Sequence[Waiver] = (),
    reading: ReadingChoices | None = None,
    **given: Any,
) -> ScoreReport:
    """Score evidence files by an exam and judge them.

    ``paths`` are for exams that read files of one role. Everything else is named as on the command
    line: a file by its role (``pairs="pairs.jsonl"``), an option by its name (``kappa_gate=0.7``).
    """
    verb = find_verb(kind)
    if verb is None:
        raise UsageError(f"no exam is called {kind!r} (known: {', '.join(list_verbs())})")
    asked = {
        "seal": seal,
        "title": title is not None,
        "expected_ids": expected_ids is not None,
        "waivers": bool(waivers),
        "reading": reading is not None,
    }
    for name, is_asked in asked.items():
        # Raise instead of ignoring a request that the exam cannot meet.
        if is_asked and ("seal" if name == "title" else name) not in verb.features:
            raise UsageError(f"{kind} does not take {name}")
    files = [(_find_only_role(verb).name, fspath(path)) for path in paths]
    for role in verb.roles:
        value = given.pop(role.name, None)
        if value is None:
            continue
        if role.named:
            files.extend((name, fspath(path)) for name, path in value.items())
        else:
            values = value if role.many and isinstance(value, list | tuple) else (value,)
            files.extend((role.name, fspath(path)) for path in values)
    parameters = checked_options(kind, given, verb.parameters)
    unknown = sorted(set(given) - {one.name for one in msgspec.structs.fields(verb.parameters)})
    if unknown:
        raise UsageError(f"{kind} has no option {unknown[0]!r}")
    workspace = Workspace() if store is None else Workspace(store=fspath(store))
    request = ScoreRequest(
        files=files,
        parameters=parameters,
        reading=reading or ReadingChoices(),
        expected_ids=None if expected_ids is None else fspath(expected_ids),
        waivers=waivers,
        seal=seal,
        title=title,
    )
    return verb.score(workspace, request)


def _find_only_role(verb: ScoreVerb) -> EvidenceRole:
    for role in verb.roles:
        if role.positional:
            return role
    names = ", ".join(role.name for role in verb.roles)
    raise UsageError(f"{verb.name} reads files by name: {names}")


def require_one_path(request: ScoreRequest) -> str:
    """Return the path of a command that reads one file."""
    if len(request.files) != 1:
        raise UsageError(f"expected one file, got {len(request.files)}")
    return request.files[0][1]


def score_exam(
    workspace: Workspace,
    kind: str,
    options: dict[str, object],
    request: ScoreRequest,
    *,
    started_at: datetime,
) -> Scored:
    """Run an exam, judge it, and seal it when asked."""
    # 1. Sealed evidence must be a file, so that it can be read again.
    if request.seal and STDIN in (path for _, path in request.files):
        raise UsageError("sealed evidence must be a file; save standard input first")
    # 2. Run the exam.
    pinned = request.expected_ids
    if isinstance(pinned, str):
        pinned = read_expected_ids(pinned)
    run = ExamRun(
        kind=kind,
        options=options,
        files=request.files,
        reading=request.reading,
        engine=workspace.engine,
        expected_ids=pinned,
        cache=CachePolicy(workspace.facts_folder, workspace.clock, trusted=not request.seal)
        if request.cache
        else None,
        on_progress=request.on_progress,
        now=started_at,
    )
    outcome = run_exam(run)
    # 3. Judge it, and record what is needed to derive it again.
    roles = _find_file_roles(run, outcome.evidence)
    kept = {EXAM_INPUTS: write_exam_inputs(kind, options, request.reading, roles)}
    if pinned is not None:
        kept[EXPECTED_IDS] = "\n".join(sorted(pinned)).encode()
    scored = judge_exam(
        kind,
        outcome,
        actor=workspace.actor,
        started_at=started_at,
        finished_at=workspace.clock(),
        waivers=request.waivers,
        title=request.title or outcome.exam.title(outcome.report),
        kept=kept,
    )
    # 4. Seal it.
    if request.seal:
        names = [file.name for file in outcome.evidence.files]
        if not names:
            raise UsageError("there is no evidence file to seal")
        workspace.keep(scored.result, scored.stored_files, {name: name for name in names})
    return scored


def exam_report(
    scored: Scored, files_of: Callable[[Scored], Mapping[str, bytes]] | None = None
) -> ScoreReport:
    """Return a judged exam as a report."""
    return ScoreReport(
        document=scored.summary,
        verdict=scored.result.verdict,
        text=partial(_render_verdict, scored.result),
        render_files=lambda: scored.attachments if files_of is None else files_of(scored),
        result=scored.result,
    )


def _score(
    workspace: Workspace,
    request: ScoreRequest,
    *,
    suite: ExamSuite,
    to_options: Callable[[object, datetime], dict[str, object]] | None,
) -> ScoreReport:
    started_at = workspace.clock()
    if to_options is None:
        options: dict[str, object] = msgspec.to_builtins(request.parameters)
    else:
        options = to_options(request.parameters, started_at)
    for name, why in suite.own_options.items():
        if options.get(name):
            raise UsageError(f"{suite.kind}: {name} cannot be set: {why}")
    scored = score_exam(workspace, suite.kind, options, request, started_at=started_at)
    return exam_report(scored)


def _render_verdict(result: Result, color: bool) -> str:
    # Imported late: JSON output does not need it.
    from gatemark.report.terminal import verdict_table  # noqa: PLC0415

    return verdict_table(result, color=color)


def _find_file_roles(run: ExamRun, evidence: Evidence) -> list[str]:
    """Return the role of each evidence file; a missing file has none."""
    if len(set(run.roles)) == 1:
        # A folder is one path and many files.
        return [run.roles[0]] * len(evidence.files)
    if len(run.files) == len(evidence.files):
        return list(run.roles)
    left = list(run.files)
    roles = []
    for file in evidence.files:
        found = next(given for given in left if given[1] == file.name)
        left.remove(found)
        roles.append(found[0])
    return roles
