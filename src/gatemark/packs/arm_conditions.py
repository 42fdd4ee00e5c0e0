"""The conditions of a run that follow from how its arms and judges were called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gatemark.packs.asked_arms import AskedArms
from gatemark.packs.conditions import CACHED, CHANGED, MODELS, OTHER_SCORING, RESUMED, SAME_ARMS
from gatemark.packs.pack_file import BASELINE, CANDIDATE
from gatemark.packs.recorded_scores import find_other_scoring
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.targets.journal import KEY_VARIABLE, Reuse

MAX_LISTED = 20


def find_arm_conditions(
    asked: AskedArms, suites: Sequence[SuiteSpec], *graded: str
) -> dict[str, str]:
    """Return the conditions that follow from how the arms were called, the candidate's first.

    ``graded`` names what graders were asked about, if the verdict does not depend on all of it.
    """
    arms, graders = asked.arms, asked.graders
    changed = {name: arm.source.changed_files() for name, arm in arms.items()}
    changed |= {f"judge {name}": files for name, files in graders.changed_files().items()}
    conditions: dict[str, dict[str, None]] = {}
    for arm in arms.values():
        for name, why in arm.source.conditions.items():
            conditions.setdefault(name, {})[why] = None
    for name, files in changed.items():
        if files:
            why = f"{name}: {', '.join(files[:MAX_LISTED])} changed during the run; run it again"
            conditions.setdefault(CHANGED, {})[why] = None
    if BASELINE in arms and arms[CANDIDATE].source.identity == arms[BASELINE].source.identity:
        why = "candidate and baseline are the same, so nothing was compared"
        conditions.setdefault(SAME_ARMS, {})[why] = None
    if BASELINE in arms:
        sides = (arms[BASELINE].source.scores_for, arms[CANDIDATE].source.scores_for)
        if (other := find_other_scoring(suites, sides)) is not None:
            conditions.setdefault(OTHER_SCORING, {})[other] = None
    reused: dict[str, int] = {}
    for name, arm in arms.items():
        models = arm.models
        if len(models) > 1 and arm.source.spec.is_unpinned_endpoint:
            why = (
                f"{name}: several models answered ({', '.join(models[:MAX_LISTED])}); name "
                "one of them, or vouch for the mixture with version: in the target"
            )
            conditions.setdefault(MODELS, {})[why] = None
        reused[f"answers of the {name}"] = arm.reused_count
    reused |= {f"replies of {who}": count for who, count in graders.reused_counts(*graded).items()}
    conditions |= _find_reuse_condition(reused, *graders.reuse())
    return {name: "; ".join(reasons) for name, reasons in conditions.items()}


def _find_reuse_condition(
    reused: Mapping[str, int], reuse: Reuse, is_authenticated: bool
) -> dict[str, dict[str, None]]:
    """Return the condition on reused answers, and whether they could have been forged."""
    name, flag = (CACHED, "--cache") if reuse == "cache" else (RESUMED, "--resume")
    reasons = [f"{count} {what} were reused ({flag})" for what, count in reused.items() if count]
    if reasons and not is_authenticated:
        reasons.append(
            f"reused answers are not authenticated: code that can write into the store can forge "
            f"them (set {KEY_VARIABLE}, or run without {flag})"
        )
    return {name: dict.fromkeys(reasons)} if reasons else {}
