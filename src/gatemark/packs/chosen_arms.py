"""Who answers in a run: targets, or the sealed result that stands for the baseline."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.core.errors import UsageError
from gatemark.packs.arms import ArmSource, open_arm, reopen_arm
from gatemark.packs.baselines import ChosenBaseline, choose_baseline
from gatemark.packs.embeddings import make_embedding_spec, parse_embedding_options
from gatemark.packs.pack_file import BASELINE, CANDIDATE, OpenPack
from gatemark.packs.run_choices import RunChoices
from gatemark.packs.same_items import refuse_cut_short, refuse_other_items
from gatemark.packs.session import close_on_error
from gatemark.targets.identity import refuse_unpinned
from gatemark.targets.spec import parse_spec
from gatemark.workspace import Workspace


class ChosenArms(msgspec.Struct, frozen=True):
    """Who answers: targets, or the sealed result that stands for the baseline.

    A pack without targets has no candidate to ask, and its baseline is a result or None.
    """

    candidate: Mapping[str, object] | None
    baseline: Mapping[str, object] | ChosenBaseline | None


def choose_arms(workspace: Workspace, opened: OpenPack, choices: RunChoices) -> ChosenArms:
    """Return who answers: as the user says, or else as the pack does."""
    targets = opened.pack.targets
    candidate = choices.candidate or (None if targets is None else targets.candidate)
    wanted = choices.baseline or ("none" if targets is None else targets.baseline)
    if wanted == "none":
        return ChosenArms(candidate, None)
    if isinstance(wanted, str):
        found = choose_baseline(workspace, opened.pack, opened.folder, wanted)
        return ChosenArms(candidate, found)
    return ChosenArms(candidate, wanted)


def open_arms(
    workspace: Workspace, opened: OpenPack, chosen: ChosenArms, choices: RunChoices
) -> dict[str, ArmSource]:
    """Open the candidate and the baseline, if there is one."""
    pack = opened.pack
    if pack.targets is None:
        if chosen.candidate is not None or isinstance(chosen.baseline, Mapping):
            raise UsageError(
                f"pack {pack.name} has no targets to ask: it reads evidence files only"
            )
        return {}
    # The baseline is read first, because opening a candidate runs its code.
    baseline: dict[str, ArmSource] = {}
    if isinstance(chosen.baseline, ChosenBaseline):
        earlier = workspace.existing_results().get(chosen.baseline.result)
        refuse_other_items(earlier, opened)
        refuse_cut_short(earlier, choices.limit)
        baseline[BASELINE] = reopen_arm(earlier, CANDIDATE, workspace)
    elif chosen.baseline is not None:
        baseline[BASELINE] = open_arm(
            opened,
            BASELINE,
            chosen.baseline,
            jobs=choices.jobs,
            private=workspace.private_paths,
            other=chosen.candidate,
        )
    with close_on_error(baseline.values()):
        candidate = open_candidate(workspace, opened, chosen, choices)
    return {CANDIDATE: candidate, **baseline}


def open_candidate(
    workspace: Workspace, opened: OpenPack, chosen: ChosenArms, choices: RunChoices
) -> ArmSource:
    """Open the candidate alone."""
    return open_arm(
        opened,
        CANDIDATE,
        chosen.candidate or {},
        jobs=choices.jobs,
        private=workspace.private_paths,
        other=chosen.baseline,
    )


def refuse_unpinned_arms(opened: OpenPack, chosen: ChosenArms) -> None:
    """Refuse to reuse answers of an arm or a judge that may have changed without a trace."""
    pack = opened.pack
    asked: dict[str, object] = {
        f"judges.{name}.target": judge.target for name, judge in pack.judges.items()
    }
    if pack.targets is not None:
        asked["targets.candidate"] = chosen.candidate
        asked["targets.baseline"] = chosen.baseline
    for suite in pack.suites:
        if suite.is_embedded:
            spec = make_embedding_spec(parse_embedding_options(suite))
            refuse_unpinned(spec, f"suite {suite.id}: scorer.options")
    for place, raw in asked.items():
        if isinstance(raw, Mapping):
            refuse_unpinned(parse_spec(raw, f"{pack.name}: {place}"), place)
