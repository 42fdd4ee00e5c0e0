"""``gatemark run`` and ``gatemark gate``: answer, score, judge, seal.

(1) Read the pack and freeze its data. (2) Run the exams over evidence files. (3) Get the answers of
both arms and the judges' grades, with journals that survive a crash. (4) Judge. (5) Seal and store.
Stopping before (5) leaves only the journals.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, GatemarkError, IncomparableError, UsageError
from gatemark.core.policy import Waiver
from gatemark.core.result import AnswerTime, AssetRef, Result, answer_time_of
from gatemark.evidence.result_rules import check_result_rules
from gatemark.packs.answering import ArmAnswers, OnProgress, answer_all
from gatemark.packs.answers import Answer
from gatemark.packs.arms import ArmSource, open_arm, reopen_arm
from gatemark.packs.baselines import choose_baseline
from gatemark.packs.conditions import ASKED, read_conditions
from gatemark.packs.embeddings import make_embedding_spec, parse_embedding_options
from gatemark.packs.exam_suites import SuiteOutcome, examine_suite, write_evidence_files
from gatemark.packs.graders import Graders, RecordedGraders
from gatemark.packs.judge import find_looks, is_settled
from gatemark.packs.judge_qualification import SuiteQualification, qualify_judges
from gatemark.packs.limited_runs import read_limit
from gatemark.packs.live_graders import LiveGraders
from gatemark.packs.looks import PackLook
from gatemark.packs.pack_evidence import PackEvidence
from gatemark.packs.pack_file import (
    BASELINE,
    CANDIDATE,
    OpenPack,
    SuiteFiles,
    describe_scoring,
    list_pack_files,
    open_pack,
)
from gatemark.packs.policy import check_waivers_and_rules
from gatemark.packs.recordings import open_recording
from gatemark.packs.seal import (
    BASELINE_CHOSEN,
    JUDGED_AGAIN,
    PackRun,
    find_arm_conditions,
    read_reused,
    refuse_changed_version,
    seal_run,
)
from gatemark.targets.identity import refuse_unpinned
from gatemark.targets.journal import Reuse
from gatemark.targets.journals import Journals, read_journal_key
from gatemark.targets.spec import parse_spec
from gatemark.workspace import Workspace

MAX_LISTED = 20
SET_ASIDE = ".interrupted"

OnNotice = Callable[[str], None]
Arms = dict[str, ArmAnswers]
Qualifications = dict[str, SuiteQualification]


class RunChoices(msgspec.Struct, frozen=True):
    """Options of a run."""

    jobs: int = 1
    resume: bool = False
    cache: bool = False
    limit: int | None = None
    candidate: Mapping[str, object] | None = None
    baseline: Mapping[str, object] | str | None = None
    names: dict[str, AssetRef] = {}
    """The registered version that an arm is, if the user vouches for it."""
    baseline_how: str | None = None
    """How a baseline other than the pack's own was chosen."""
    answered_at: datetime | None = None
    """When recorded answers were given, as stated by the user for answers that do not say."""


def run_pack(
    workspace: Workspace,
    path: str,
    choices: RunChoices,
    *,
    waivers: Sequence[Waiver] = (),
    on_progress: OnProgress | None = None,
    on_notice: OnNotice | None = None,
) -> Result:
    """Run a pack's targets and seal the result."""
    started_at = workspace.clock()
    opened = open_pack(path)
    if opened.pack.matrix:
        raise UsageError(
            f"{path}: has a matrix of candidates, which only the command line runs: "
            f"gatemark run {path} (all of them), or with --cell {opened.pack.cells()[0].name} (one)"
        )
    choices = prepare_run(workspace, opened, path, choices, waivers)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        exams = run_exams(
            workspace, opened, find_exam_files(workspace, opened, choices, Path(folder))
        )
        if choices.cache:
            refuse_unpinned_arms(opened, choices)
        graders = open_graders(workspace, opened, choices, on_progress)
        with close_on_error({}, graders):
            arms = open_arms(workspace, opened, choices)
        session = open_session(
            workspace, opened, arms, graders, choices, on_progress=on_progress, on_notice=on_notice
        )
        result = _answer_and_seal(workspace, session, exams, waivers=waivers, started_at=started_at)
    remove_journals(session, [result], on_notice)
    return result


def prepare_run(
    workspace: Workspace,
    opened: OpenPack,
    path: str,
    choices: RunChoices,
    waivers: Sequence[Waiver],
) -> RunChoices:
    """Refuse what could not be judged, before any call is made; find the baseline by its name."""
    if choices.cache and opened.pack.adaptive is not None:
        # A cache stores no errors, so a later round would repeat a call that crashed.
        raise UsageError("--cache and an adaptive pack do not go together; leave one of them out")
    describe_scoring(opened)
    if choices.limit is None:
        refuse_changed_version(workspace, opened, path)
    if isinstance(choices.baseline, str) and choices.baseline != "none":
        chosen = choose_baseline(workspace, opened.pack, opened.folder, choices.baseline)
        choices = msgspec.structs.replace(choices, baseline=chosen.result, baseline_how=chosen.how)
    check_waivers_and_rules(
        opened.pack,
        has_baseline=find_wanted_baseline(opened, choices) != "none",
        limit=choices.limit,
        waivers=waivers,
    )
    return choices


def open_graders(
    workspace: Workspace, opened: OpenPack, choices: RunChoices, on_progress: OnProgress | None
) -> LiveGraders:
    """Open the judges of a pack, before any code of an arm runs."""
    cache = workspace.cache_folder if choices.cache else None
    return LiveGraders(
        opened.pack,
        opened.folder,
        jobs=choices.jobs,
        open_recording=open_recording,
        journals=Journals(cache, is_new=not choices.resume, key=read_journal_key(os.environ)),
        on_progress=on_progress,
    )


def open_session(
    workspace: Workspace,
    opened: OpenPack,
    arms: Mapping[str, ArmSource],
    graders: LiveGraders,
    choices: RunChoices,
    *,
    on_progress: OnProgress | None,
    on_notice: OnNotice | None,
) -> Session:
    """Open journals for open arms and judges; close the arms and judges if that fails."""
    with close_on_error(arms, graders):
        folder = workspace.run_folder(
            _make_run_key(opened, arms, graders, describe_scoring(opened))
        )
        if not choices.resume:
            _set_aside(folder, on_notice)
        graders.journals.folder, graders.journals.on_notice = folder, on_notice
        return Session(opened, arms, graders, choices, graders.journals, on_progress, folder)


def remove_journals(
    session: Session, results: Sequence[Result], on_notice: OnNotice | None
) -> None:
    """Remove the journals of a complete run; otherwise say how to continue."""
    if not any(ASKED in read_conditions(result) for result in results):
        if session.folder is not None:
            _remove_folder(session.folder)
    elif on_notice is not None:
        on_notice("some calls could not be asked; --resume asks those again and keeps the others")


def rejudge(
    workspace: Workspace, reference: str, path: str, *, waivers: Sequence[Waiver] = ()
) -> Result:
    """Judge the recorded evidence of a result by another pack, without calling any target."""
    started_at = workspace.clock()
    earlier = workspace.existing_results().get(reference)
    check_result_rules(earlier)
    opened = open_pack(path)
    _refuse_other_data(earlier, opened)
    arms = {}
    if opened.pack.targets is not None:
        arms[CANDIDATE] = reopen_arm(earlier, CANDIDATE, workspace)
        if opened.pack.has_baseline:
            arms[BASELINE] = reopen_arm(earlier, BASELINE, workspace)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        exams = run_exams(
            workspace, opened, _write_kept_files(workspace, opened, earlier, Path(folder))
        )
        graders = RecordedGraders(earlier, workspace.blobs)
        return _answer_and_seal(
            workspace,
            Session(
                opened,
                arms,
                graders,
                _make_recorded_choices(earlier, arms),
                None,
                None,
                answer_time=answer_time_of(earlier),
                reused=read_reused(earlier),
            ),
            exams,
            waivers=waivers,
            started_at=started_at,
            judged_again=_find_earlier_result(earlier, opened),
        )


def _find_earlier_result(earlier: Result, opened: OpenPack) -> str | None:
    """Return the result to judge by another pack; by its own pack it gets its own id again."""
    if earlier.pack.digest == digest(opened.pack):
        return earlier.runtime.get(JUDGED_AGAIN)
    return earlier.id


def _make_recorded_choices(earlier: Result, arms: Mapping[str, ArmSource]) -> RunChoices:
    how = earlier.runtime.get(BASELINE_CHOSEN) if BASELINE in arms else None
    return RunChoices(limit=read_limit(earlier), baseline_how=how)


class Session(msgspec.Struct, frozen=True):
    """Open arms, open judges, and the folder of the journals."""

    opened: OpenPack
    arms: Mapping[str, ArmSource]
    graders: Graders
    choices: RunChoices
    journals: Journals | None
    on_progress: OnProgress | None
    folder: Path | None = None
    """Folder of the journals."""
    answer_time: AnswerTime | None = None
    """What an earlier result says about answers that lack it themselves."""
    reused: dict[str, str] = {}
    """What an earlier result says about answers that were reused."""


def _answer_and_seal(
    workspace: Workspace,
    session: Session,
    exams: dict[str, SuiteOutcome],
    *,
    waivers: Sequence[Waiver],
    started_at: datetime,
    judged_again: str | None = None,
) -> Result:
    def gathered(arm_answers: Arms, qualifications: Qualifications) -> PackRun:
        return PackRun(
            opened=session.opened,
            arms=session.arms,
            arm_answers=arm_answers,
            exams=exams,
            qualifications=qualifications,
            judge_cost=session.graders.spent(),
            limit=session.choices.limit,
            conditions=find_arm_conditions(
                session.arms, arm_answers, session.graders, suites=session.opened.pack.suites
            ),
            names=session.choices.names,
            baseline_how=session.choices.baseline_how,
            judged_again=judged_again,
            reused=session.reused,
            answer_time=find_answer_time(session, arm_answers, exams, actor=workspace.actor),
        )

    def settled(look: PackLook, arm_answers: Arms, qualifications: Qualifications) -> bool:
        evidence = gathered(arm_answers, qualifications).evidence({})
        return is_settled(session.opened, evidence, look, now=started_at)

    run = gathered(*answer_session(session, workspace.clock, settled))
    return seal_run(workspace, run, waivers=waivers, started_at=started_at)


def find_answer_time(
    session: Session,
    arm_answers: Mapping[str, ArmAnswers],
    exams: Mapping[str, SuiteOutcome],
    *,
    actor: str,
) -> AnswerTime | None:
    """Return when the candidate answered: by its answers and records, or as stated by the caller.

    What is known bounds what is stated: nobody makes dated records younger.
    """
    candidate = arm_answers.get(CANDIDATE)
    known = [exam.answered_at for exam in exams.values() if exam.answered_at is not None]
    is_recorded = len(known) == len(exams) > 0
    if candidate is not None:
        is_recorded = candidate.answered_at is not None
        known.extend([] if candidate.answered_at is None else [candidate.answered_at])
    recorded = min(known) if is_recorded else None
    stated = session.choices.answered_at
    if stated is None:
        return session.answer_time if recorded is None else AnswerTime(recorded)
    if recorded is not None:
        raise UsageError(
            f"--answered-at is for answers that do not say when they were given; these are from "
            f"{recorded:%Y-%m-%d %H:%M:%SZ}"
        )
    return AnswerTime(min([stated.astimezone(UTC), *known]), stated_by=actor)


def run_exams(
    workspace: Workspace, opened: OpenPack, files: Mapping[str, SuiteFiles]
) -> dict[str, SuiteOutcome]:
    """Run the exams over evidence files; records dated in the future are refused."""
    return {
        name: examine_suite(workspace, opened.pack.suite(name), files[name], now=workspace.clock())
        for name in files
    }


def find_exam_files(
    workspace: Workspace, opened: OpenPack, choices: RunChoices, folder: Path
) -> dict[str, SuiteFiles]:
    """Return the evidence that the pack names; a baseline result brings its own."""
    files = list_pack_files(opened)
    if not isinstance(choices.baseline, str) or choices.baseline == "none":
        return files
    earlier = workspace.existing_results().get(choices.baseline)
    for name, named in files.items():
        kept = write_evidence_files(earlier, opened.pack.suite(name), workspace.blobs, folder)
        files[name] = SuiteFiles(candidate=named.candidate, baseline=kept[CANDIDATE])
    return files


def _write_kept_files(
    workspace: Workspace, opened: OpenPack, earlier: Result, folder: Path
) -> dict[str, SuiteFiles]:
    """Return the evidence that a result stores for the suites of a pack."""
    files = {}
    for suite in opened.pack.suites:
        if suite.evidence is None:
            continue
        kept = write_evidence_files(earlier, suite, workspace.blobs, folder)
        wants_baseline = isinstance(suite.baseline_evidence, dict)
        if wants_baseline and BASELINE not in kept:
            raise UsageError(f"result {earlier.id} holds no baseline evidence of {suite.id!r}")
        files[suite.id] = SuiteFiles(kept[CANDIDATE], kept[BASELINE] if wants_baseline else None)
    return files


def refuse_unpinned_arms(opened: OpenPack, choices: RunChoices) -> None:
    """Refuse to reuse answers of an arm or a judge that may have changed without a trace."""
    pack = opened.pack
    asked: dict[str, object] = {
        f"judges.{name}.target": judge.target for name, judge in pack.judges.items()
    }
    if pack.targets is not None:
        asked["targets.candidate"] = choices.candidate or pack.targets.candidate
        asked["targets.baseline"] = find_wanted_baseline(opened, choices)
    for suite in pack.suites:
        if suite.is_embedded:
            spec = make_embedding_spec(parse_embedding_options(suite))
            refuse_unpinned(spec, f"suite {suite.id}: scorer.options")
    for place, raw in asked.items():
        if not isinstance(raw, str):
            refuse_unpinned(parse_spec(raw, f"{pack.name}: {place}"), place)


def _set_aside(journals: Path, on_notice: OnNotice | None) -> None:
    """Move the journals of an interrupted run aside before a new run."""
    if not journals.exists():
        return
    aside = journals.with_name(journals.name + SET_ASIDE)
    _remove_folder(aside)
    try:
        journals.rename(aside)
    except OSError as error:
        raise BadInputError(f"{journals}: cannot be moved: {error.strerror or error}") from error
    if on_notice is not None:
        on_notice(
            f"an interrupted run of this pack was set aside as {aside}; "
            "--resume would have gone on with it"
        )


def _remove_folder(journals: Path) -> None:
    """Remove the journals of a run, so that they cannot answer for a new one."""
    if not journals.exists():
        return
    try:
        shutil.rmtree(journals)
    except OSError as error:
        raise BadInputError(f"{journals}: cannot be removed: {error.strerror or error}") from error


def _refuse_other_data(earlier: Result, opened: OpenPack) -> None:
    now = set(opened.references)
    before = set(earlier.snapshots)
    if now == before:
        return
    only_now = [f"only in the pack: {name}" for name in sorted(now - before)]
    only_before = [f"only in the result: {name}" for name in sorted(before - now)]
    raise IncomparableError(
        f"result {earlier.id} was made on other data than the pack names",
        tuple((only_now + only_before)[:MAX_LISTED]),
    )


def _refuse_cut_short(earlier: Result, limit: int | None) -> None:
    """Refuse a limited result as baseline: a baseline must have answered all items."""
    answered = read_limit(earlier)
    if answered is not None and (limit is None or limit > answered):
        raise IncomparableError(
            f"result {earlier.id} was limited to {answered} items per suite; use an unlimited one",
            ("run it again without --limit",),
        )


def find_wanted_baseline(opened: OpenPack, choices: RunChoices) -> Mapping[str, object] | str:
    """Return what the candidate is compared with, or ``none``."""
    targets = opened.pack.targets
    return choices.baseline or ("none" if targets is None else targets.baseline)


def open_arms(workspace: Workspace, opened: OpenPack, choices: RunChoices) -> dict[str, ArmSource]:
    """Open the candidate and the baseline, if there is one."""
    pack = opened.pack
    if pack.targets is None:
        if choices.candidate is not None or isinstance(choices.baseline, Mapping):
            raise UsageError(
                f"pack {pack.name} has no targets to ask: it reads evidence files only"
            )
        return {}
    raw = choices.candidate or pack.targets.candidate
    private = workspace.private_paths
    wanted = find_wanted_baseline(opened, choices)
    # The baseline is read first, because opening a candidate runs its code.
    baseline: dict[str, ArmSource] = {}
    if isinstance(wanted, str) and wanted != "none":
        earlier = workspace.existing_results().get(wanted)
        _refuse_other_data(earlier, opened)
        _refuse_cut_short(earlier, choices.limit)
        baseline[BASELINE] = reopen_arm(earlier, CANDIDATE, workspace)
    elif not isinstance(wanted, str):
        baseline[BASELINE] = open_arm(
            opened, BASELINE, wanted, jobs=choices.jobs, private=private, other=raw
        )
    with close_on_error(baseline):
        candidate = open_arm(
            opened, CANDIDATE, raw, jobs=choices.jobs, private=private, other=wanted
        )
    return {CANDIDATE: candidate, **baseline}


@contextmanager
def close_on_error(arms: Mapping[str, ArmSource], graders: Graders | None = None) -> Iterator[None]:
    """Close what was opened for a run that cannot start."""
    try:
        yield
    except GatemarkError:
        asyncio.run(_close(arms, graders))
        raise


async def _close(arms: Mapping[str, ArmSource], graders: Graders | None) -> None:
    for arm in arms.values():
        await arm.close()
    if graders is not None:
        await graders.close()


def _make_run_key(
    opened: OpenPack,
    arms: Mapping[str, ArmSource],
    graders: LiveGraders,
    scoring: dict[str, dict[str, str]],
) -> str:
    """Return the identity of a run; a resumed run must have the same."""
    return digest(
        {
            "judges": graders.identities,
            "labels": {name: found.reference for name, found in opened.labels.items()},
            "pack": digest(opened.pack),
            "snapshots": list(opened.references),
            "arms": {name: dict(arm.identity) for name, arm in arms.items()},
            "scoring": scoring,
        }
    )


def answer_session(
    session: Session,
    now: Callable[[], datetime],
    settled: Callable[[PackLook, Arms, Qualifications], bool] | None = None,
) -> tuple[Arms, Qualifications]:
    """Ask every arm of an open session, and close it."""
    answered: list[tuple[Arms, Qualifications]] = []

    async def work() -> None:
        # Returning 10,000 answers would cost asyncio 0.1 s: it formats the result of its main task.
        answered.append(await _answer_session(session, now, settled))

    asyncio.run(work())
    return answered[0]


async def _answer_session(
    session: Session,
    now: Callable[[], datetime],
    settled: Callable[[PackLook, Arms, Qualifications], bool] | None,
) -> tuple[Arms, Qualifications]:
    """Qualify judges first: an unqualified judge is found before anything else is asked.

    An adaptive pack is asked in rounds until one settles the verdict. A round asks for everything
    that is due by then; answers of earlier rounds come from the journals.
    """
    arm_answers: Arms = {}
    try:
        qualifications = await qualify_judges(
            session.opened.pack, session.graders, session.opened.labels.__getitem__
        )
        looks = () if settled is None else _find_session_looks(session)
        for look in looks or (None,):
            due = None if look is None else look.due
            for name in session.arms:
                arm_answers[name] = await _answer_arm(session, name, due, now)
            if any(suite.comparing_judge for suite in session.opened.pack.suites):
                # Only packs with a suite that compares should load this.
                from gatemark.packs.comparing import compare_arms  # noqa: PLC0415

                arm_answers = await compare_arms(session.opened, arm_answers, session.graders)
            if look is None or settled is None or settled(look, arm_answers, qualifications):
                break
    finally:
        await _close(session.arms, session.graders)
    return arm_answers, qualifications


def _find_session_looks(session: Session) -> tuple[PackLook, ...]:
    nobody: dict[str, tuple[Answer, ...]] = {}
    baseline = nobody if BASELINE in session.arms else None
    return find_looks(session.opened, PackEvidence(nobody, baseline, limit=session.choices.limit))


async def _answer_arm(
    session: Session,
    name: str,
    due: Mapping[str, frozenset[str]] | None,
    now: Callable[[], datetime],
) -> ArmAnswers:
    arm, journal = session.arms[name], None
    reuse: Reuse = "nothing"
    if session.journals is not None:
        journal = session.journals.open(name, arm.identity)
        # A recording needs no journal, which could only disagree with it.
        reuse = session.journals.reuse if arm.spec.recorded is None else "nothing"
    try:
        return await answer_all(
            session.opened,
            arm,
            journal,
            session.graders,
            arm=name,
            jobs=session.choices.jobs,
            clock=time.monotonic,
            limit=session.choices.limit,
            due=due,
            on_progress=_find_labels(session.on_progress, name),
            reuse=reuse,
            now=now,
        )
    finally:
        if journal is not None:
            journal.close()


def _find_labels(on_progress: OnProgress | None, arm: str) -> OnProgress | None:
    if on_progress is None:
        return None
    return lambda suite, progress: on_progress(f"{arm} {suite}", progress)
