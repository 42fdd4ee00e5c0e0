"""``gatemark run``: open, answer, judge, seal.

(1) Open the pack and freeze its data; refuse what could not be judged. (2) Run the exams over
evidence files. (3) Get the answers of both arms and the judges' grades, with journals that survive
a crash. (4) Judge. (5) Seal and store. Stopping before (5) leaves only the journals.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gatemark.core.errors import UsageError
from gatemark.core.policy import Waiver
from gatemark.core.result import AnswerTime, Result
from gatemark.packs.answering import OnProgress
from gatemark.packs.arms import ArmSource
from gatemark.packs.baselines import ChosenBaseline
from gatemark.packs.chosen_arms import ChosenArms, choose_arms, open_arms, refuse_unpinned_arms
from gatemark.packs.evidence_files import SuiteFiles, find_baseline_evidence, list_pack_files
from gatemark.packs.exam_suites import SuiteOutcome, examine_suite
from gatemark.packs.frozen_version import refuse_changed_version
from gatemark.packs.judge import judge_run
from gatemark.packs.live_graders import LiveGraders
from gatemark.packs.origin import Origin, describe_origin
from gatemark.packs.pack_file import OpenPack, describe_scoring, open_pack
from gatemark.packs.policy import check_waivers_and_rules
from gatemark.packs.recordings import open_recording
from gatemark.packs.run import AnsweredRun, Claims, Run
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_journals import (
    OnNotice,
    make_run_key,
    remove_journals,
    set_journals_aside,
)
from gatemark.packs.seal import seal_run
from gatemark.packs.session import Session, ask_arms, close_on_error, make_answered_run
from gatemark.targets.journals import Journals, read_journal_key
from gatemark.workspace import Workspace


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
    chosen = prepare_run(workspace, opened, path, choices, waivers)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        run = open_run(workspace, opened, chosen, choices, Path(folder))
        if choices.cache:
            refuse_unpinned_arms(opened, chosen)
        graders = open_graders(workspace, opened, choices, on_progress)
        with close_on_error([graders]):
            arms = open_arms(workspace, opened, chosen, choices)
        session = open_session(
            workspace, opened, arms, graders, choices, on_progress=on_progress, on_notice=on_notice
        )
        asked = ask_arms(run, session, started_at=started_at, now=workspace.clock)
        answered = make_answered_run(run, asked)
        origin = describe_origin(answered, asked, graders.spent())
        result = judge_and_seal(workspace, answered, origin, waivers=waivers, started_at=started_at)
    remove_journals(graders.journals.folder, [result], on_notice)
    return result


def prepare_run(
    workspace: Workspace,
    opened: OpenPack,
    path: str,
    choices: RunChoices,
    waivers: Sequence[Waiver],
) -> ChosenArms:
    """Refuse what could not be judged, before any call is made; return who answers."""
    if choices.cache and opened.pack.adaptive is not None:
        # A cache stores no errors, so a later round would repeat a call that crashed.
        raise UsageError("--cache and an adaptive pack do not go together; leave one of them out")
    describe_scoring(opened)
    if choices.limit is None:
        refuse_changed_version(workspace, opened, path)
    chosen = choose_arms(workspace, opened, choices)
    check_waivers_and_rules(
        opened.pack,
        has_baseline=chosen.baseline is not None,
        limit=choices.limit,
        waivers=waivers,
    )
    return chosen


def open_run(
    workspace: Workspace, opened: OpenPack, chosen: ChosenArms, choices: RunChoices, folder: Path
) -> Run:
    """Run the exams over the evidence that the pack names; a baseline result brings its own."""
    files = list_pack_files(opened)
    if files and isinstance(chosen.baseline, ChosenBaseline):
        earlier = workspace.existing_results().get(chosen.baseline.result)
        files = find_baseline_evidence(opened, earlier, workspace.blobs, folder)
    stated = choices.answered_at
    return Run(
        opened,
        run_exams(workspace, opened, files),
        choices.limit,
        Claims(
            names=choices.names,
            baseline_how=chosen.baseline.how
            if isinstance(chosen.baseline, ChosenBaseline)
            else None,
            stated_time=None
            if stated is None
            else AnswerTime(stated.astimezone(UTC), stated_by=workspace.actor),
        ),
    )


def run_exams(
    workspace: Workspace, opened: OpenPack, files: Mapping[str, SuiteFiles]
) -> dict[str, SuiteOutcome]:
    """Run the exams over evidence files; records dated in the future are refused."""
    return {
        name: examine_suite(workspace, opened.pack.suite(name), files[name], now=workspace.clock())
        for name in files
    }


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
    with close_on_error([*arms.values(), graders]):
        journals = graders.journals
        journals.folder = workspace.run_folder(make_run_key(opened, arms, graders))
        journals.on_notice = on_notice
        if not choices.resume:
            set_journals_aside(journals.folder, on_notice)
        return Session(arms, graders, choices.jobs, journals, on_progress)


def judge_and_seal(
    workspace: Workspace,
    answered: AnsweredRun,
    origin: Origin,
    *,
    waivers: Sequence[Waiver],
    started_at: datetime,
) -> Result:
    """Judge a run by everybody's answers, and seal the result."""
    finished_at = workspace.clock()
    judged = judge_run(answered, waivers=waivers, now=finished_at)
    return seal_run(
        workspace,
        answered,
        judged,
        origin,
        waivers=waivers,
        started_at=started_at,
        finished_at=finished_at,
    )
