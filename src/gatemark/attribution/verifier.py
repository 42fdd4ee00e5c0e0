"""Whether the verifier should have caught a step, and which rule: then, now, or none."""

from __future__ import annotations

import msgspec

from gatemark.attribution.decision import DecisionStep, PlannedDecision
from gatemark.attribution.nouns import Catch
from gatemark.attribution.rules import Objection, RulePack, objections


class VerifierAnswer(msgspec.Struct, frozen=True):
    """The answer about one step; ``rules`` are ``pack/rule`` with what they said."""

    step: str
    catch: Catch
    rules: tuple[tuple[str, str], ...]


def should_have_caught(
    decision: PlannedDecision, step: DecisionStep, packs: tuple[RulePack, ...]
) -> VerifierAnswer:
    """Rules that objected at the time come first, then those that would object today.

    Without any rule pack of today, what today's rules would say was not asked.
    """
    then = tuple(
        (f"{check.pack}/{check.rule}", "objected when the decision was taken")
        for check in step.failed_checks
    )
    if then:
        return VerifierAnswer(step.id, "caught_then", then)
    now = tuple(_said(objection) for objection in objections(packs, decision, step))
    if now:
        return VerifierAnswer(step.id, "catchable_now", now)
    return VerifierAnswer(step.id, "no_rule" if packs else "not_asked", ())


def _said(objection: Objection) -> tuple[str, str]:
    return f"{objection.pack}@{objection.version}/{objection.rule}", objection.why
