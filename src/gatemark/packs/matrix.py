"""Run several candidates: every prompt with every model, against one baseline.

The baseline answers once. Each candidate is judged and sealed as a result of its own, as if it had
been run alone, with one difference: picking the best of several candidates gives chance several
tries. So the tests of all candidates share one level by Holm's method: the probability that any
candidate passes although it drops by more than the margin is at most ``alpha``, however many are
tried.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.policy import Outcome
from gatemark.core.result import Cost, Result
from gatemark.core.text import did_you_mean
from gatemark.packs.answering import OnProgress
from gatemark.packs.arms import ArmSource
from gatemark.packs.asked_arms import AskedArms
from gatemark.packs.judge import judge_run
from gatemark.packs.judge_replies import QUALIFICATION
from gatemark.packs.matrix_cells import Cell
from gatemark.packs.open_arms import open_arms, open_candidate, refuse_unpinned_arms
from gatemark.packs.pack import Arms, Pack
from gatemark.packs.pack_file import BASELINE, CANDIDATE, open_pack
from gatemark.packs.run import AnsweredRun, Run
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.run_journals import OnNotice, open_journals, remove_journals
from gatemark.packs.run_pack import judge_and_seal, open_run
from gatemark.packs.run_plan import RunPlan, plan_run
from gatemark.packs.session import ask_arms, close_on_error, make_answered_run, open_session
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


def run_matrix(
    workspace: Workspace,
    path: str,
    choices: RunChoices,
    *,
    only: Sequence[str] = (),
    need: Need = "all",
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
    plan = plan_run(workspace, opened, path, choices)
    journals = open_journals(workspace, choices)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        run = open_run(workspace, plan, Path(folder), started_at=started_at)
        session = open_session(
            workspace,
            plan,
            journals,
            partial(_open_cells, workspace, plan, cells),
            on_progress=on_progress,
            on_notice=on_notice,
        )
        asked = ask_arms(run, session, now=workspace.clock)
        asked_cells = [_select_cell(asked, cell) for cell in cells]
        answered = [
            make_answered_run(_make_cell_run(run, cell), own, cell.name, BASELINE, QUALIFICATION)
            for cell, own in zip(cells, asked_cells, strict=True)
        ]
        sealed = []
        tested = _apply_holm(answered, workspace.clock())
        for cell, own, one in zip(cells, asked_cells, tested, strict=True):
            result = judge_and_seal(workspace, one, own, cell.name)
            sealed.append(CellResult(cell, result))
    remove_journals(journals, [each.result for each in sealed], on_notice)
    return MatrixRun(opened.pack, tuple(sealed), need, _share_cost(asked))


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


def _open_cells(workspace: Workspace, plan: RunPlan, cells: Sequence[Cell]) -> dict[str, ArmSource]:
    """Open the baseline once, and every candidate under its name."""
    plans = [msgspec.structs.replace(plan, candidate=cell.target) for cell in cells]
    if plan.choices.cache:
        for one in plans:
            refuse_unpinned_arms(one)
    first = open_arms(workspace, plans[0])
    arms = {BASELINE: first[BASELINE]} if BASELINE in first else {}
    arms[cells[0].name] = first[CANDIDATE]
    with close_on_error(arms.values()):
        for cell, one in zip(cells[1:], plans[1:], strict=True):
            arms[cell.name] = open_candidate(workspace, one)
    return arms


def _select_cell(asked: AskedArms, cell: Cell) -> AskedArms:
    """Return one candidate beside the baseline, whose calls are not part of its cost."""
    arms = {CANDIDATE: asked.arms[cell.name]}
    if BASELINE in asked.arms:
        arms[BASELINE] = msgspec.structs.replace(asked.arms[BASELINE], call_count=0, cost=0.0)
    return msgspec.structs.replace(asked, arms=arms)


def _make_cell_run(run: Run, cell: Cell) -> Run:
    """Return the run of one candidate, as if the pack had named it alone."""
    pack = run.pack
    assert pack.targets is not None  # noqa: S101 - a matrix changes targets.candidate
    targets = Arms(candidate=cell.target, baseline=pack.targets.baseline)
    alone = msgspec.structs.replace(pack, targets=targets, matrix={}, candidates=pack.tried)
    said = ", ".join(f"{axis} {name}" for axis, name in cell.values.items())
    return msgspec.structs.replace(
        run,
        opened=msgspec.structs.replace(run.opened, pack=alone),
        claims=msgspec.structs.replace(run.claims, cell=said),
    )


def _apply_holm(runs: list[AnsweredRun], now: datetime) -> list[AnsweredRun]:
    """Return the runs, each with the number of candidates that its tests allow for.

    All are tested at ``alpha`` divided by their number. Those that pass are removed, and the others
    are tested again as if only they had been tried, until no other candidate passes.
    """
    final = dict(enumerate(runs))
    still_open = set(final)
    while still_open:
        passed = {
            place
            for place in still_open
            if judge_run(final[place], now=now).verdict.outcome == "pass"
        }
        still_open -= passed
        if not passed:
            break
        for place in still_open:
            tried = final[place].run.pack.tried - len(passed)
            final[place] = _set_tried(final[place], tried)
    return [final[place] for place in sorted(final)]


def _set_tried(answered: AnsweredRun, tried: int) -> AnsweredRun:
    opened = answered.run.opened
    pack = msgspec.structs.replace(opened.pack, candidates=tried)
    run = msgspec.structs.replace(answered.run, opened=msgspec.structs.replace(opened, pack=pack))
    return msgspec.structs.replace(answered, run=run)


def _share_cost(asked: AskedArms) -> Cost:
    calls, money = asked.graders.spent(QUALIFICATION, BASELINE)
    if BASELINE not in asked.arms:
        return Cost(calls=calls, money=money)
    baseline = asked.arms[BASELINE]
    known = money is not None and baseline.cost is not None
    return Cost(
        calls=calls + baseline.call_count,
        money=(money or 0.0) + (baseline.cost or 0.0) if known else None,
    )
