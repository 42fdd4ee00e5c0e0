"""The release gate matrix: eight gates before a stage, each with its state and reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gatemark.core.result import AssetKind
from gatemark.release.lifecycle.decisions.approvals import ApprovalTally, tally
from gatemark.release.lifecycle.decisions.burn_rate import judge_burn
from gatemark.release.lifecycle.decisions.citation import PromotionCase, evidence_problems
from gatemark.release.lifecycle.model.nouns import ChangeClass, Gate, GateFinding, GateState, Stage
from gatemark.release.lifecycle.model.release_policy import GATES
from gatemark.release.lifecycle.model.stages import LANE, Evidence
from gatemark.release.lifecycle.model.state import GateWaiver

CLASS_RANK: Final[dict[ChangeClass, int]] = {"none": 0, "patch": 1, "minor": 2, "major": 3}
SCHEMA_KINDS: Final[frozenset[AssetKind]] = frozenset({"ontology", "tool"})
"""Kinds whose changes are schema changes; without a schema they cannot be judged."""

_GATES_OF_PEOPLE: Final[frozenset[Gate]] = frozenset({"sign_off", "security_review"})
DRIFT_FAILS: Final = frozenset({"BREACH"})
DRIFT_ALERTS: Final = frozenset({"WARN", "DEGENERATE", "STALE", "NEW_CLASS"})
DRIFT_UNKNOWN: Final = frozenset({"INSUFFICIENT_BASELINE"})


class GateAnswer(msgspec.Struct, frozen=True):
    """The answer of one gate, before the policy decides whether it blocks."""

    state: GateState
    reason: str
    is_alert: bool = False


class GateMatrix(msgspec.Struct, frozen=True):
    """All gates of one step, the valid votes, and the waivers that were used."""

    findings: tuple[GateFinding, ...]
    votes: ApprovalTally
    waivers: tuple[GateWaiver, ...]

    @property
    def blockers(self) -> tuple[str, ...]:
        """Reasons why the step is blocked."""
        return tuple(f"{f.gate}: {f.reason}" for f in self.findings if f.blocks)


def examine_gates(case: PromotionCase, stage: Stage, need: Evidence) -> GateMatrix:
    """Evaluate every gate that the policy puts before a stage."""
    policy = case.state.policy
    votes = tally(case, stage)
    answers: dict[Gate, Callable[[], GateAnswer]] = {
        "schema": lambda: _check_schema(case),
        "eval": lambda: _check_eval(case, need),
        "replay": lambda: _check_suites(case, "replay"),
        "adversarial": lambda: _check_suites(case, "adversarial"),
        "drift": lambda: _check_drift(case),
        "error_budget": lambda: _check_error_budget(case),
        "sign_off": lambda: _sign_off(case, stage, votes),
        "security_review": lambda: _check_security_review(case, votes),
    }
    findings, used = [], []
    for gate in GATES:
        rule = policy.gates[gate]
        if stage not in rule.stages and not _guards_lane(case, gate, stage):
            continue
        answer = answers[gate]()
        waiver = _find_waiver(case, gate) if answer.state in ("fail", "unjudged") else None
        if waiver is not None and rule.overridable:
            used.append(waiver)
            answer = GateAnswer("overridden", f"{answer.reason}; overridden: {waiver.note}")
        blocks = (
            (answer.state == "fail" and rule.on_fail == "block")
            or (answer.state == "unjudged" and rule.on_unjudged == "block")
        ) and not answer.is_alert
        findings.append(
            GateFinding(gate=gate, state=answer.state, blocks=blocks, reason=answer.reason)
        )
    return GateMatrix(tuple(findings), votes, tuple(used))


def _guards_lane(case: PromotionCase, gate: Gate, stage: Stage) -> bool:
    """Whether people must approve the last stage of a lane, whatever the policy says."""
    return case.state.asset.kind == LANE and stage == "shadow" and gate in _GATES_OF_PEOPLE


def _find_waiver(case: PromotionCase, gate: Gate) -> GateWaiver | None:
    """Return the newest valid waiver of this gate for this version and candidate."""
    for waiver in reversed(case.state.asset.waivers):
        if (
            waiver.gate == gate
            and waiver.version == case.version
            and waiver.environment == case.environment
            and waiver.candidate_digest == case.digest
            and case.now < waiver.expires_at
        ):
            return waiver
    return None


def _check_schema(case: PromotionCase) -> GateAnswer:
    asset = case.state.asset
    version = asset.versions[case.version]
    schema = version.schema
    if schema is None:
        if asset.kind in SCHEMA_KINDS:
            return GateAnswer("unjudged", f"the {asset.kind} was added without its schema")
        return GateAnswer("not_applicable", "the version has no schema")
    if version.parent is None:
        return GateAnswer("pass", "the first schema of its line")
    if schema.change is None:
        return GateAnswer("unjudged", f"its parent {version.parent} has no schema to compare with")
    if schema.bump is None:
        return GateAnswer(
            "unjudged",
            f"{version.parent} to {version.name} is not a semantic version step, so it does "
            f"not announce a {schema.change} change",
        )
    if CLASS_RANK[schema.bump] < CLASS_RANK[schema.change]:
        why = f" ({schema.reasons[0]})" if schema.reasons else ""
        return GateAnswer(
            "fail",
            f"{version.parent} to {version.name} is a {schema.bump} step, "
            f"but the change is {schema.change}{why}",
        )
    return GateAnswer("pass", f"a {schema.change} change in a {schema.bump} step")


def _check_eval(case: PromotionCase, need: Evidence) -> GateAnswer:
    problems = evidence_problems(case, need)
    if problems:
        return GateAnswer("fail", "; ".join(problems))
    full = case.required_pack_result
    if full is None:
        return GateAnswer("unjudged", "no cited result ran the required pack")
    excused = list(full.excused)
    excused.extend(
        rule for suite in full.suites if suite.kind != "replay" for rule in suite.excused
    )
    if excused:
        return GateAnswer(
            "fail", f"{', '.join(excused)} did not hold but was excused; only replay may be"
        )
    return GateAnswer("pass", f"required pack {full.pack.pack} v{full.pack.version} passed")


def _check_suites(case: PromotionCase, kind: str) -> GateAnswer:
    full = case.required_pack_result
    if case.state.asset.kind == LANE:
        return GateAnswer("not_applicable", "an advisory lane is judged by its advisory suite")
    if full is None:
        return GateAnswer("unjudged", "no cited result ran the required pack")
    suites = [suite for suite in full.suites if suite.kind == kind]
    if not suites:
        return GateAnswer("unjudged", f"the required pack has no {kind} suite")
    excused = [rule for suite in suites for rule in suite.excused]
    if excused:
        return GateAnswer("fail", f"{', '.join(excused)} did not hold but was excused")
    names = ", ".join(suite.suite for suite in suites)
    return GateAnswer("pass", f"{names} held")


def _check_drift(case: PromotionCase) -> GateAnswer:
    levels = case.state.asset.place(case.environment).drift
    found = [(metric, level) for metric in sorted(levels) for _, level in levels[metric].values()]
    worst = dict.fromkeys(
        f"{metric} is {level}"
        for wanted in (DRIFT_FAILS, DRIFT_ALERTS, DRIFT_UNKNOWN)
        for metric, level in found
        if level in wanted
    )
    seen = {level for _, level in found}
    if seen & DRIFT_FAILS:
        return GateAnswer("fail", "; ".join(worst))
    if seen & DRIFT_ALERTS:
        return GateAnswer("fail", "; ".join(worst), is_alert=True)
    if not levels or seen & DRIFT_UNKNOWN:
        return GateAnswer("unjudged", "; ".join(worst) or "no drift probe has reported")
    return GateAnswer("pass", f"{len(levels)} watched metrics are steady")


def _check_error_budget(case: PromotionCase) -> GateAnswer:
    spans = case.state.asset.place(case.environment).service
    if not spans:
        return GateAnswer("unjudged", "the service has reported nothing")
    verdict = judge_burn(spans, case.state.policy.error_budget, case.now)
    if verdict.is_breached is None:
        return GateAnswer("unjudged", verdict.reason)
    return GateAnswer("fail" if verdict.is_breached else "pass", verdict.reason)


def _sign_off(case: PromotionCase, stage: Stage, votes: ApprovalTally) -> GateAnswer:
    needed = case.state.policy.approvals.needed(stage, case.state.asset.risk)
    void = "".join(f"; {reason}" for reason in votes.void)
    if votes.rejected:
        names = ", ".join(vote.actor for vote in votes.rejected)
        return GateAnswer("fail", f"rejected by {names}{void}")
    signed = votes.by_role(case.state.governance, "approver")
    if len(signed) < needed:
        return GateAnswer("fail", f"{len(signed)} of {needed} approvals{void}")
    names = ", ".join(vote.actor for vote in signed)
    return GateAnswer("pass", f"approved by {names} ({needed} needed)")


def _check_security_review(case: PromotionCase, votes: ApprovalTally) -> GateAnswer:
    asset = case.state.asset
    version = asset.versions[case.version]
    causes = []
    if version.is_scope_change:
        causes.append("its scope changed")
    if version.schema is not None and version.schema.is_marking_change:
        causes.append("markings changed")
    parent = asset.versions.get(version.parent or "")
    if parent is not None and set(version.pins.tools) - set(parent.pins.tools):
        causes.append("it may use new tools")
    if not causes:
        return GateAnswer("not_applicable", "neither scope nor markings changed")
    signed = votes.by_role(case.state.governance, "security_approver")
    if not signed:
        return GateAnswer("fail", f"{' and '.join(causes)}; no security_approver has approved")
    return GateAnswer("pass", f"{' and '.join(causes)}; approved by {signed[0].actor}")
