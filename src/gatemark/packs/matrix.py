"""Run several candidates: every prompt with every model, against one baseline.

The baseline answers once. Each candidate is judged and sealed as a result of its own, as if it had
been run alone, with one difference: picking the best of several candidates gives chance several
tries. So the tests of all candidates share one level by Holm's method: the probability that any
candidate passes although it drops by more than the margin is at most ``alpha``, however many are
tried.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.policy import Outcome, Waiver
from gatemark.core.result import Cost, Result
from gatemark.core.text import did_you_mean
from gatemark.packs.answering import ArmAnswers, OnProgress
from gatemark.packs.arms import ArmSource, open_arm
from gatemark.packs.exam_suites import SuiteOutcome
from gatemark.packs.judge_qualification import SuiteQualification
from gatemark.packs.judge_replies import LICENCE
from gatemark.packs.pack import Arms, Cell, Pack
from gatemark.packs.pack_file import BASELINE, CANDIDATE, OpenPack, open_pack
from gatemark.packs.run import (
    OnNotice,
    RunChoices,
    Session,
    answer_session,
    close_on_error,
    find_answer_time,
    find_exam_files,
    open_arms,
    open_graders,
    open_session,
    prepare_run,
    refuse_unpinned_arms,
    remove_journals,
    run_exams,
)
from gatemark.packs.seal import PackRun, find_arm_conditions, judge_run, seal_run
from gatemark.workspace import Workspace

Need = Literal["all", "any"]
"""How many candidates of a matrix must pass for the run to pass."""


class CellResult(msgspec.Struct, frozen=True):
    """One candidate of a matrix, and its sealed result."""

    cell: Cell
    result: Result


class MatrixRun(msgspec.Struct, frozen=True):
    """A complete matrix: a result for each candidate, and what they share."""

    pack: Pack
    cells: tuple[CellResult, ...]
    need: Need
    shared_cost: Cost
    """Cost of the baseline and of qualifying judges; not part of any candidate's result."""

    @property
    def outcome(self) -> Outcome:
        """The worst verdict, or the best if one passing candidate is enough."""
        found = {each.result.verdict for each in self.cells}
        order: tuple[Outcome, ...] = ("fail", "inconclusive", "pass")
        if self.need == "any":
            # While one candidate is inconclusive, the matrix as a whole cannot fail.
            order = ("pass", "inconclusive", "fail")
        return next(outcome for outcome in order if outcome in found)


class _Answered(msgspec.Struct, frozen=True):
    arms: Mapping[str, ArmAnswers]
    qualifications: dict[str, SuiteQualification]
    exams: dict[str, SuiteOutcome]


def run_matrix(
    workspace: Workspace,
    path: str,
    choices: RunChoices,
    *,
    only: Sequence[str] = (),
    need: Need = "all",
    waivers: Sequence[Waiver] = (),
    on_progress: OnProgress | None = None,
    on_notice: OnNotice | None = None,
) -> MatrixRun:
    """Run the candidates of a pack's matrix, or those that ``only`` names, and seal each."""
    started_at = workspace.clock()
    opened = open_pack(path)
    cells = _choose_cells(opened.pack, only, path)
    if choices.candidate is not None or choices.names:
        raise UsageError(
            f"{path}: has a matrix of candidates, so --candidate, --as and --against cannot name "
            "one; remove the matrix, or choose candidates with --cell"
        )
    choices = prepare_run(workspace, opened, path, choices, waivers)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        exams = run_exams(
            workspace, opened, find_exam_files(workspace, opened, choices, Path(folder))
        )
        graders = open_graders(workspace, opened, choices, on_progress)
        with close_on_error({}, graders):
            arms = _open_cells(workspace, opened, choices, cells)
        session = open_session(
            workspace, opened, arms, graders, choices, on_progress=on_progress, on_notice=on_notice
        )
        answers, qualifications = answer_session(session, workspace.clock)
        answered = _Answered(answers, qualifications, exams)
        runs = [
            _make_cell_run(session, answered, cell, opened.pack.tried, actor=workspace.actor)
            for cell in cells
        ]
        sealed = tuple(
            CellResult(cell, seal_run(workspace, run, waivers=waivers, started_at=started_at))
            for cell, run in zip(cells, _apply_holm(workspace, runs, waivers), strict=True)
        )
    remove_journals(session, [each.result for each in sealed], on_notice)
    return MatrixRun(opened.pack, sealed, need, _share_cost(session, answers))


def _choose_cells(pack: Pack, only: Sequence[str], path: str) -> tuple[Cell, ...]:
    cells = {cell.name: cell for cell in pack.cells()}
    if not cells:
        raise UsageError(f"{path}: has no matrix, so there is no candidate to choose with --cell")
    for name in only:
        if name not in cells:
            known = ", ".join(cells)
            raise UsageError(
                f"{path}: the matrix has no candidate {name!r}{did_you_mean(name, list(cells))} "
                f"(candidates: {known})"
            )
    return tuple(cell for cell in cells.values() if not only or cell.name in only)


def _open_cells(
    workspace: Workspace, opened: OpenPack, choices: RunChoices, cells: Sequence[Cell]
) -> dict[str, ArmSource]:
    """Open the baseline once, and every candidate under its name."""
    if choices.cache:
        for cell in cells:
            refuse_unpinned_arms(opened, _choose_candidate(choices, cell))
    first = open_arms(workspace, opened, _choose_candidate(choices, cells[0]))
    arms = {BASELINE: first[BASELINE]} if BASELINE in first else {}
    arms[cells[0].name] = first[CANDIDATE]
    with close_on_error(arms):
        for cell in cells[1:]:
            arms[cell.name] = open_arm(
                opened,
                CANDIDATE,
                cell.target,
                jobs=choices.jobs,
                private=workspace.private_paths,
                other=choices.baseline,
            )
    return arms


def _choose_candidate(choices: RunChoices, cell: Cell) -> RunChoices:
    return msgspec.structs.replace(choices, candidate=cell.target)


def _make_cell_run(
    session: Session, answered: _Answered, cell: Cell, tried: int, *, actor: str
) -> PackRun:
    """Return the run of one candidate, as if the pack had named it alone."""
    arms = {CANDIDATE: session.arms[cell.name]}
    answers = {CANDIDATE: answered.arms[cell.name]}
    if BASELINE in session.arms:
        arms[BASELINE] = session.arms[BASELINE]
        answers[BASELINE] = msgspec.structs.replace(answered.arms[BASELINE], calls=0, cost=0.0)
    return PackRun(
        opened=_open_alone(session.opened, cell, tried),
        arms=arms,
        arm_answers=answers,
        exams=answered.exams,
        qualifications=answered.qualifications,
        judge_cost=session.graders.spent(cell.name),
        limit=session.choices.limit,
        conditions=find_arm_conditions(
            arms,
            answers,
            session.graders,
            cell.name,
            BASELINE,
            LICENCE,
            suites=session.opened.pack.suites,
        ),
        baseline_how=session.choices.baseline_how,
        answer_time=find_answer_time(session, answers, answered.exams, actor=actor),
        cell=", ".join(f"{axis} {name}" for axis, name in cell.values.items()),
    )


def _open_alone(opened: OpenPack, cell: Cell, tried: int) -> OpenPack:
    pack = opened.pack
    assert pack.targets is not None  # noqa: S101 - a matrix changes targets.candidate
    targets = Arms(candidate=cell.target, baseline=pack.targets.baseline)
    own = msgspec.structs.replace(pack, targets=targets, matrix={}, candidates=tried)
    return msgspec.structs.replace(opened, pack=own)


def _apply_holm(
    workspace: Workspace, runs: list[PackRun], waivers: Sequence[Waiver]
) -> list[PackRun]:
    """Return the runs, each with the number of candidates that its tests allow for.

    All are tested at ``alpha`` divided by their number. Those that pass are removed, and the others
    are tested again as if only they had been tried, until no other candidate passes.
    """
    now = workspace.clock()
    final = dict(enumerate(runs))
    still_open = set(final)
    while still_open:
        passed = {
            place
            for place in still_open
            if judge_run(final[place], {}, waivers=waivers, now=now).verdict.outcome == "pass"
        }
        still_open -= passed
        if not passed:
            break
        for place in still_open:
            tried = final[place].opened.pack.tried - len(passed)
            final[place] = _add_tried(final[place], tried)
    return [final[place] for place in sorted(final)]


def _add_tried(run: PackRun, tried: int) -> PackRun:
    pack = msgspec.structs.replace(run.opened.pack, candidates=tried)
    return msgspec.structs.replace(run, opened=msgspec.structs.replace(run.opened, pack=pack))


def _share_cost(session: Session, answers: Mapping[str, ArmAnswers]) -> Cost:
    calls, money = session.graders.spent(LICENCE, BASELINE)
    if BASELINE not in answers:
        return Cost(calls=calls, money=money)
    baseline = answers[BASELINE]
    known = money is not None and baseline.cost is not None
    return Cost(
        calls=calls + baseline.calls,
        money=(money or 0.0) + (baseline.cost or 0.0) if known else None,
    )
