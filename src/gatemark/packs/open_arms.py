"""Open the arms of a planned run: targets, or the sealed result that stands for the baseline."""

from __future__ import annotations

from collections.abc import Mapping

from gatemark.core.errors import UsageError
from gatemark.packs.arms import ArmSource, open_arm, reopen_arm
from gatemark.packs.baselines import ChosenBaseline
from gatemark.packs.embeddings import make_embedding_spec, parse_embedding_options
from gatemark.packs.pack_file import BASELINE, CANDIDATE
from gatemark.packs.run_plan import RunPlan
from gatemark.packs.same_items import refuse_cut_short, refuse_other_items
from gatemark.packs.session import close_on_error
from gatemark.targets.identity import refuse_unpinned
from gatemark.targets.spec import parse_spec
from gatemark.workspace import Workspace


def open_arms(workspace: Workspace, plan: RunPlan) -> dict[str, ArmSource]:
    """Open the candidate and the baseline, if there is one."""
    opened, pack = plan.opened, plan.opened.pack
    if pack.targets is None:
        if plan.candidate is not None or isinstance(plan.baseline, Mapping):
            raise UsageError(
                f"pack {pack.name} has no targets to ask: it reads evidence files only"
            )
        return {}
    # The baseline is read first, because opening a candidate runs its code.
    baseline: dict[str, ArmSource] = {}
    if isinstance(plan.baseline, ChosenBaseline):
        earlier = workspace.citable_result(plan.baseline.result)
        refuse_other_items(earlier, opened)
        refuse_cut_short(earlier, plan.choices.limit)
        baseline[BASELINE] = reopen_arm(earlier, CANDIDATE, workspace)
    elif plan.baseline is not None:
        baseline[BASELINE] = open_arm(
            opened,
            BASELINE,
            plan.baseline,
            jobs=plan.choices.jobs,
            private=workspace.private_paths,
            other=plan.candidate,
        )
    with close_on_error(baseline.values()):
        candidate = open_candidate(workspace, plan)
    return {CANDIDATE: candidate, **baseline}


def open_candidate(workspace: Workspace, plan: RunPlan) -> ArmSource:
    """Open the candidate alone."""
    return open_arm(
        plan.opened,
        CANDIDATE,
        plan.candidate or {},
        jobs=plan.choices.jobs,
        private=workspace.private_paths,
        other=plan.baseline,
    )


def refuse_unpinned_arms(plan: RunPlan) -> None:
    """Refuse to reuse answers of an arm or a judge that may have changed without a trace."""
    pack = plan.opened.pack
    asked: dict[str, object] = {
        f"judges.{name}.target": judge.target for name, judge in pack.judges.items()
    }
    if pack.targets is not None:
        asked["targets.candidate"] = plan.candidate
        asked["targets.baseline"] = plan.baseline
    for suite in pack.suites:
        if suite.is_embedded:
            spec = make_embedding_spec(parse_embedding_options(suite))
            refuse_unpinned(spec, f"suite {suite.id}: scorer.options")
    for place, raw in asked.items():
        if isinstance(raw, Mapping):
            refuse_unpinned(parse_spec(raw, f"{pack.name}: {place}"), place)
