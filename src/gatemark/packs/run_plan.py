"""Plan a run: who answers, and nothing in it that could not be judged."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.core.errors import UsageError
from gatemark.packs.baselines import ChosenBaseline, choose_baseline
from gatemark.packs.frozen_version import refuse_changed_version
from gatemark.packs.pack_file import OpenPack, describe_scoring
from gatemark.packs.policy import check_waivers_and_rules
from gatemark.packs.run_choices import RunChoices
from gatemark.workspace import Workspace


class RunPlan(msgspec.Struct, frozen=True):
    """An opened pack, what the user chose, and who answers because of both.

    A pack without targets has no candidate to ask, and its baseline is a sealed result or None.
    """

    opened: OpenPack
    choices: RunChoices
    candidate: Mapping[str, object] | None
    baseline: Mapping[str, object] | ChosenBaseline | None


def plan_run(
    workspace: Workspace,
    opened: OpenPack,
    path: str,
    choices: RunChoices,
) -> RunPlan:
    """Return who answers; refuse what could not be judged, before any call is made."""
    if choices.cache and opened.pack.adaptive is not None:
        # A cache stores no errors, so a later round would repeat a call that crashed.
        raise UsageError("--cache and an adaptive pack do not go together; leave one of them out")
    describe_scoring(opened)
    if choices.limit is None:
        refuse_changed_version(workspace, opened, path)
    plan = _choose_arms(workspace, opened, choices)
    check_waivers_and_rules(
        opened.pack,
        has_baseline=plan.baseline is not None,
        limit=choices.limit,
        waivers=choices.waivers,
    )
    return plan


def _choose_arms(workspace: Workspace, opened: OpenPack, choices: RunChoices) -> RunPlan:
    """Return who answers: as the user says, or else as the pack does."""
    targets = opened.pack.targets
    candidate = choices.candidate or (None if targets is None else targets.candidate)
    wanted = choices.baseline or ("none" if targets is None else targets.baseline)
    if wanted == "none":
        return RunPlan(opened, choices, candidate, None)
    if isinstance(wanted, str):
        found = choose_baseline(workspace, opened.pack, opened.folder, wanted)
        return RunPlan(opened, choices, candidate, found)
    return RunPlan(opened, choices, candidate, wanted)
