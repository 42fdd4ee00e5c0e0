"""Where the answers of a run come from, as its result says; no verdict rests on it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.result import AssetRef, Cost, Result
from gatemark.packs.asked_arms import AskedArm, AskedArms
from gatemark.packs.conditions import RESUMED
from gatemark.packs.kept_targets import Identity, digest_candidate_files, name_answered
from gatemark.packs.pack_file import BASELINE, CANDIDATE, describe_scoring, digest_scorer_code
from gatemark.packs.run import AnsweredRun, Claims, Run

BASELINE_CHOSEN = "baseline.chosen"
JUDGED_AGAIN = "judged_again"
"""Runtime key of a result: the earlier result whose evidence ``gatemark gate`` judged."""
LABELS = "labels."
SCORER_CODE = "scorer_code."
"""Runtime keys of a result, by suite: the labels of its judge, and the code of its scorer."""
CELL = "matrix.cell"
"""Runtime key of a result: which candidate of a matrix it judges."""


class Origin(msgspec.Struct, frozen=True):
    """Who answered, at what cost, and what else a result says about the run."""

    candidate: AssetRef
    baseline: AssetRef | None
    cost: Cost
    runtime: Mapping[str, str]
    caveats: tuple[str, ...]
    """What a reader must know first."""
    identities: Mapping[str, Identity] = {}
    """What answered, by arm."""


def describe_origin(answered: AnsweredRun, asked: AskedArms, *graded: str) -> Origin:
    """Return where the answers of a run come from.

    ``graded`` names whose grading belongs to its cost, if not all of it.
    """
    run = answered.run
    references = _make_references(run, asked)
    return Origin(
        candidate=references[CANDIDATE],
        baseline=references.get(BASELINE),
        cost=_sum_cost(asked, *graded),
        runtime={
            **run.opened.commit,
            **_list_models(asked),
            **_list_packages(asked),
            **_count_reused(answered, asked),
            **_describe_scoring(answered),
            **_list_vouched(run, asked, references),
            **({} if answered.answer_time is None else answered.answer_time.runtime()),
            **_list_claims(run.claims),
        },
        caveats=list_first_page(answered),
        identities={arm: _identify(one) for arm, one in asked.arms.items()},
    )


def _make_references(run: Run, asked: AskedArms) -> dict[str, AssetRef]:
    """Return candidate and baseline. A pack without targets identifies them by the evidence."""
    name, names = run.pack.asset.name, run.claims.names
    if not asked.arms:
        found = AssetRef(f"{name}/{CANDIDATE}", _digest_evidence(run))
        return {CANDIDATE: names.get(CANDIDATE, found)}
    return {
        arm: names.get(arm)
        or one.source.reference
        or AssetRef(f"{name}/{arm}", digest(_identify(one)))
        for arm, one in asked.arms.items()
    }


def _digest_evidence(run: Run) -> str:
    accounts = [account for exam in run.exams.values() for account in exam.accounts]
    return digest_candidate_files(accounts)


def _identify(arm: AskedArm) -> Identity:
    """Return what answered; for an unversioned address, with the model it names."""
    if arm.source.answered is not None:
        return arm.source.answered
    identity: dict[str, object] = {"target": dict(arm.source.identity)}
    if arm.source.spec.is_unpinned_endpoint and arm.models:
        identity["models"] = list(arm.models)
    return identity


def _sum_cost(asked: AskedArms, *graded: str) -> Cost:
    judge_calls, judge_money = asked.graders.spent(*graded)
    money = [arm.cost for arm in asked.arms.values()] + [judge_money]
    return Cost(
        calls=sum(arm.call_count for arm in asked.arms.values()) + judge_calls,
        money=None if None in money else sum(part or 0.0 for part in money),
    )


def _list_models(asked: AskedArms) -> dict[str, str]:
    models = {name: arm.models for name, arm in asked.arms.items()}
    return {f"model.{name}": ", ".join(found) for name, found in models.items() if found}


def _list_packages(asked: AskedArms) -> dict[str, str]:
    """Return the packages that the arms were made with, besides ours."""
    return {
        f"packages.{name}": ", ".join(f"{package} {found}" for package, found in packages.items())
        for name, arm in asked.arms.items()
        if (packages := arm.source.packages())
    }


def _count_reused(answered: AnsweredRun, asked: AskedArms) -> dict[str, str]:
    """Return how many replies are older than the run."""
    how = "resumed" if RESUMED in answered.conditions else "cached"
    counts = {name: arm.reused_count for name, arm in asked.arms.items()}
    found = {f"{how}.{name}": str(count) for name, count in counts.items() if count}
    return {**answered.run.claims.earlier_reuse, **found}


def _describe_scoring(answered: AnsweredRun) -> dict[str, str]:
    """Return digests of the scoring: the same answers scored differently are another result."""
    opened = answered.run.opened
    labels = {f"{LABELS}{suite}": one.labels for suite, one in answered.qualifications.items()}
    code = {f"{SCORER_CODE}{suite}": pins for suite, pins in digest_scorer_code(opened).items()}
    return {"scoring": digest(describe_scoring(opened)), **code, **labels}


def _list_vouched(run: Run, asked: AskedArms, references: Mapping[str, AssetRef]) -> dict[str, str]:
    """Return the digest of what answered for each version that somebody vouches for."""
    answered = {arm: digest(_identify(one)) for arm, one in asked.arms.items()}
    if not asked.arms:
        answered = {CANDIDATE: _digest_evidence(run)}
    return {
        name_answered(arm): found
        for arm, found in answered.items()
        if arm in run.claims.names or references[arm].digest != found
    }


def _list_claims(claims: Claims) -> dict[str, str]:
    facts = {
        BASELINE_CHOSEN: claims.baseline_how,
        JUDGED_AGAIN: claims.judged_again,
        CELL: claims.cell,
    }
    return {name: text for name, text in facts.items() if text is not None}


def list_first_page(answered: AnsweredRun) -> tuple[str, ...]:
    """Return what a reader must know first: who chose the baseline, which others were tried."""
    run, caveats = answered.run, []
    if run.claims.baseline_how is not None:
        caveats.append(f"baseline {run.claims.baseline_how}")
    pack = run.pack
    if pack.tried > 1:
        which = "" if run.claims.cell is None else f" ({run.claims.cell})"
        caveats.append(
            f"one of {pack.tried} candidates{which}: drops are tested at level {pack.level:.3g} in "
            f"place of {pack.alpha:g}; scores are not corrected, so the best of several looks "
            "better than it is"
        )
    if answered.answer_time is not None and answered.answer_time.stated_by is not None:
        caveats.append(answered.answer_time.sentence)
    return tuple(caveats)


def read_reused(result: Result) -> dict[str, str]:
    """Return what a result says about replies that were older than its run."""
    names = ("cached.", "resumed.")
    return {name: said for name, said in result.runtime.items() if name.startswith(names)}
