"""A session with who answers and who grades: open it, ask every arm, close it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import msgspec

from gatemark.core.errors import GatemarkError
from gatemark.packs.answer_time import find_answer_time
from gatemark.packs.answering import OnProgress, answer_all
from gatemark.packs.arm_conditions import find_arm_conditions
from gatemark.packs.arms import ArmSource
from gatemark.packs.asked_arms import AskedArm, AskedArms
from gatemark.packs.graders import Graders
from gatemark.packs.judge import is_settled
from gatemark.packs.judge_qualification import qualify_judges
from gatemark.packs.live_graders import LiveGraders
from gatemark.packs.looks import PackLook
from gatemark.packs.pack_file import BASELINE
from gatemark.packs.recordings import open_recording
from gatemark.packs.run import AnsweredRun, Run
from gatemark.packs.run_journals import OnNotice, make_run_key, set_journals_aside
from gatemark.packs.run_plan import RunPlan
from gatemark.targets.journal import Reuse
from gatemark.targets.journals import Journals
from gatemark.workspace import Workspace


class Session(msgspec.Struct, frozen=True):
    """Who answers and who grades: open arms and judges, with the journals of the calls to them."""

    arms: Mapping[str, ArmSource]
    graders: Graders
    jobs: int = 1
    journals: Journals | None = None
    """None if everybody answers from a stored result."""
    on_progress: OnProgress | None = None


def open_session(
    workspace: Workspace,
    plan: RunPlan,
    journals: Journals,
    open_arms: Callable[[], Mapping[str, ArmSource]],
    *,
    on_progress: OnProgress | None,
    on_notice: OnNotice | None,
) -> Session:
    """Open judges and arms, then the journals; close what is open if that fails.

    The judges are opened before any code of an arm runs, which could change them.
    """
    opened, choices = plan.opened, plan.choices
    graders = LiveGraders(
        opened.pack,
        opened.folder,
        jobs=choices.jobs,
        open_recording=open_recording,
        journals=journals,
        on_progress=on_progress,
    )
    with close_on_error([graders]):
        arms = open_arms()
    with close_on_error([*arms.values(), graders]):
        journals.folder = workspace.run_folder(make_run_key(opened, arms, graders))
        journals.on_notice = on_notice
        if not choices.resume:
            set_journals_aside(journals.folder, on_notice)
    return Session(arms, graders, choices.jobs, journals, on_progress)


def ask_arms(run: Run, session: Session, *, now: Callable[[], datetime]) -> AskedArms:
    """Ask every arm of an open session, and close it."""
    asked: list[AskedArms] = []

    async def work() -> None:
        # Returning 10,000 answers would cost asyncio 0.1 s: it formats the result of its main task.
        asked.append(await _ask_in_rounds(run, session, now))

    asyncio.run(work())
    return asked[0]


async def _ask_in_rounds(run: Run, session: Session, now: Callable[[], datetime]) -> AskedArms:
    """Qualify judges first: an unqualified judge is found before anything else is asked.

    An adaptive pack is asked in rounds until one settles the verdict. A round asks for everything
    that is due by then; answers of earlier rounds come from the journals.
    """
    try:
        qualifications = await qualify_judges(
            run.pack, session.graders, run.opened.labels.__getitem__
        )
        for look in run.plan_looks(has_baseline=BASELINE in session.arms) or (None,):
            arms = {name: await _ask_arm(run, session, name, look, now) for name in session.arms}
            if any(suite.comparing_judge for suite in run.pack.suites):
                # Only packs with a suite that compares should load this.
                from gatemark.packs.comparing import compare_arms  # noqa: PLC0415

                arms = await compare_arms(run.opened, arms, session.graders)
            asked = AskedArms(arms, session.graders, qualifications)
            if look is None or is_settled(make_answered_run(run, asked), look, now=run.started_at):
                break
    finally:
        await _close([*session.arms.values(), session.graders])
    return asked


def make_answered_run(run: Run, asked: AskedArms, *graded: str) -> AnsweredRun:
    """Return a run with the answers of its candidate and its baseline.

    ``graded`` names what graders were asked about, if the verdict does not depend on all of it.
    """
    return AnsweredRun(
        run=run,
        arms={name: arm.answers for name, arm in asked.arms.items()},
        qualifications=asked.qualifications,
        conditions=find_arm_conditions(asked, run.pack.suites, *graded),
        answer_time=find_answer_time(run, asked),
    )


async def _ask_arm(
    run: Run, session: Session, name: str, look: PackLook | None, now: Callable[[], datetime]
) -> AskedArm:
    arm, journal = session.arms[name], None
    reuse: Reuse = "nothing"
    if session.journals is not None:
        journal = session.journals.open(name, arm.identity)
        # A recording needs no journal, which could only disagree with it.
        reuse = session.journals.reuse if arm.spec.recorded is None else "nothing"
    try:
        return await answer_all(
            run.opened,
            arm,
            journal,
            session.graders,
            arm=name,
            jobs=session.jobs,
            clock=time.monotonic,
            limit=run.limit,
            due=None if look is None else look.due,
            on_progress=_name_progress(session.on_progress, name),
            reuse=reuse,
            now=now,
        )
    finally:
        if journal is not None:
            journal.close()


def _name_progress(on_progress: OnProgress | None, arm: str) -> OnProgress | None:
    if on_progress is None:
        return None
    return lambda suite, progress: on_progress(f"{arm} {suite}", progress)


@contextmanager
def close_on_error(opened: Iterable[ArmSource | Graders]) -> Iterator[None]:
    """Close what was opened for a run that cannot start."""
    try:
        yield
    except GatemarkError:
        asyncio.run(_close(opened))
        raise


async def _close(opened: Iterable[ArmSource | Graders]) -> None:
    for one in opened:
        await one.close()
