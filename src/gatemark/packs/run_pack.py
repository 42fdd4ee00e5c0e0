"""``gatemark run``: open, answer, judge, seal.

(1) Open the pack and freeze its data; refuse what could not be judged. (2) Run the exams over
evidence files. (3) Get the answers of both arms and the judges' grades, with journals that survive
a crash. (4) Judge. (5) Seal and store. Stopping before (5) leaves only the journals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gatemark.core.errors import UsageError
from gatemark.core.result import AnswerTime, Result
from gatemark.packs.answering import OnProgress
from gatemark.packs.asked_arms import AskedArms
from gatemark.packs.baselines import ChosenBaseline
from gatemark.packs.evidence_files import SuiteFiles, find_baseline_evidence, list_pack_files
from gatemark.packs.exam_suites import SuiteOutcome, examine_suite
from gatemark.packs.judge import judge_run
from gatemark.packs.open_arms import open_arms, refuse_unpinned_arms
from gatemark.packs.origin import describe_origin
from gatemark.packs.pack_file import OpenPack, open_pack
from gatemark.packs.run import AnsweredRun, Claims, Run
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_journals import OnNotice, open_journals, remove_journals
from gatemark.packs.run_plan import RunPlan, plan_run
from gatemark.packs.seal import seal_run
from gatemark.packs.session import ask_arms, make_answered_run, open_session
from gatemark.workspace import Workspace


def run_pack(
    workspace: Workspace,
    path: str,
    choices: RunChoices,
    *,
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
    plan = plan_run(workspace, opened, path, choices)
    journals = open_journals(workspace, choices)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        run = open_run(workspace, plan, Path(folder), started_at=started_at)
        if choices.cache:
            refuse_unpinned_arms(plan)
        session = open_session(
            workspace,
            plan,
            journals,
            partial(open_arms, workspace, plan),
            on_progress=on_progress,
            on_notice=on_notice,
        )
        asked = ask_arms(run, session, now=workspace.clock)
        answered = make_answered_run(run, asked)
        result = judge_and_seal(workspace, answered, asked)
    remove_journals(journals, [result], on_notice)
    return result


def open_run(workspace: Workspace, plan: RunPlan, folder: Path, *, started_at: datetime) -> Run:
    """Run the exams over the evidence that the pack names; a baseline result brings its own."""
    opened, choices, how = plan.opened, plan.choices, None
    files = list_pack_files(opened)
    if isinstance(plan.baseline, ChosenBaseline):
        how = plan.baseline.how
        earlier = workspace.citable_result(plan.baseline.result)
        files = find_baseline_evidence(opened, earlier, workspace.blobs, folder)
    at = choices.answered_at
    stated = None if at is None else AnswerTime(at.astimezone(UTC), stated_by=workspace.actor)
    return Run(
        opened=opened,
        started_at=started_at,
        exams=run_exams(workspace, opened, files),
        limit=choices.limit,
        waivers=choices.waivers,
        claims=Claims(names=choices.names, baseline_how=how, stated_time=stated),
    )


def run_exams(
    workspace: Workspace, opened: OpenPack, files: Mapping[str, SuiteFiles]
) -> dict[str, SuiteOutcome]:
    """Run the exams over evidence files; records dated in the future are refused."""
    return {
        name: examine_suite(workspace, opened.pack.suite(name), files[name], now=workspace.clock())
        for name in files
    }


def judge_and_seal(
    workspace: Workspace, answered: AnsweredRun, asked: AskedArms, *graded: str
) -> Result:
    """Judge a run by everybody's answers, and seal the result.

    ``graded`` names whose grading the result pays for, if not all of it.
    """
    finished_at = workspace.clock()
    judged = judge_run(answered, now=finished_at)
    origin = describe_origin(answered, asked, *graded)
    return seal_run(workspace, answered, judged, origin, finished_at=finished_at)
