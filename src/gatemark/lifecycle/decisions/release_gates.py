"""The release gate matrix: eight questions at the door of a stage, each with three answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gatemark.core.change import AssetKind
from gatemark.lifecycle.decisions.burn_rate import judge_burn
from gatemark.lifecycle.decisions.citation import Case, evidence_problems
from gatemark.lifecycle.decisions.people import Tally, tally
from gatemark.lifecycle.model.nouns import ChangeClass, Gate, GateFinding, GateState, Stage
from gatemark.lifecycle.model.release_policy import GATES
from gatemark.lifecycle.model.stages import Evidence
from gatemark.lifecycle.model.state import Waiver

CLASS_RANK: Final[dict[ChangeClass, int]] = {"none": 0, "patch": 1, "minor": 2, "major": 3}
SCHEMA_KINDS: Final[frozenset[AssetKind]] = frozenset({"ontology", "tool"})
"""Kinds whose change is a change of a schema; without one it cannot be judged."""

DRIFT_FAILS: Final = frozenset({"BREACH"})
DRIFT_ALERTS: Final = frozenset({"WARN", "DEGENERATE", "STALE", "NEW_CLASS"})
DRIFT_UNKNOWN: Final = frozenset({"INSUFFICIENT_BASELINE"})


class Answer(msgspec.Struct, frozen=True):
    """What one gate found, before the policy says what that does."""

    state: GateState
    reason: str
    is_alert: bool = False


class Matrix(msgspec.Struct, frozen=True):
    """All gates of one step, the votes that count, and the waivers that were used."""

    findings: tuple[GateFinding, ...]
    votes: Tally
    waivers: tuple[Waiver, ...]

    @property
    def blockers(self) -> tuple[str, ...]:
        """Why the step cannot be taken."""
        return tuple(f"{f.gate}: {f.reason}" for f in self.findings if f.blocks)


def examine_gates(case: Case, stage: Stage, need: Evidence) -> Matrix:
    """Ask every gate that the policy puts before a stage."""
    policy = case.state.governance.policy
    votes = tally(case, stage)
    answers: dict[Gate, Callable[[], Answer]] = {
        "schema": lambda: _schema(case),
        "eval": lambda: _eval(case, need),
        "replay": lambda: _suites(case, "replay"),
        "adversarial": lambda: _suites(case, "adversarial"),
        "drift": lambda: _drift(case),
        "error_budget": lambda: _error_budget(case),
        "sign_off": lambda: _sign_off(case, stage, votes),
        "security_review": lambda: _security_review(case, votes),
    }
    findings, used = [], []
    for gate in GATES:
        rule = policy.gates[gate]
        if stage not in rule.stages:
            continue
        answer = answers[gate]()
        waiver = _waiver(case, gate) if answer.state in ("fail", "unjudged") else None
        if waiver is not None and rule.overridable:
            used.append(waiver)
            answer = Answer("overridden", f"{answer.reason}; overridden: {waiver.note}")
        blocks = (
            (answer.state == "fail" and rule.on_fail == "block")
            or (answer.state == "unjudged" and rule.on_unjudged == "block")
        ) and not answer.is_alert
        findings.append(
            GateFinding(gate=gate, state=answer.state, blocks=blocks, reason=answer.reason)
        )
    return Matrix(tuple(findings), votes, tuple(used))


def _waiver(case: Case, gate: Gate) -> Waiver | None:
    """The newest waiver that speaks of this version, this candidate and this gate, and is valid."""
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


def _schema(case: Case) -> Answer:
    asset = case.state.asset
    version = asset.versions[case.version]
    schema = version.schema
    if schema is None:
        if asset.kind in SCHEMA_KINDS:
            return Answer("unjudged", f"the {asset.kind} was added without its schema")
        return Answer("not_applicable", "the version has no schema")
    if version.parent is None:
        return Answer("pass", "the first schema of its line")
    if schema.change is None:
        return Answer("unjudged", f"its parent {version.parent} has no schema to compare with")
    if schema.bump is None:
        return Answer(
            "unjudged",
            f"{version.parent} to {version.name} is no semantic step, so that it says nothing "
            f"about a {schema.change} change",
        )
    if CLASS_RANK[schema.bump] < CLASS_RANK[schema.change]:
        why = f" ({schema.reasons[0]})" if schema.reasons else ""
        return Answer(
            "fail",
            f"{version.parent} to {version.name} is a {schema.bump} step, "
            f"but the change is {schema.change}{why}",
        )
    return Answer("pass", f"a {schema.change} change in a {schema.bump} step")


def _eval(case: Case, need: Evidence) -> Answer:
    problems = evidence_problems(case, need)
    if problems:
        return Answer("fail", "; ".join(problems))
    full = case.full_pack
    if full is None:
        return Answer("unjudged", "no cited result sat the full pack")
    excused = list(full.excused)
    excused.extend(
        rule for suite in full.suites if suite.kind != "replay" for rule in suite.excused
    )
    if excused:
        return Answer(
            "fail", f"{', '.join(excused)} did not hold but was excused; only replay may be"
        )
    return Answer("pass", f"full pack {full.exam.pack} v{full.exam.version} passed")


def _suites(case: Case, kind: str) -> Answer:
    full = case.full_pack
    if full is None:
        return Answer("unjudged", "no cited result sat the full pack")
    suites = [suite for suite in full.suites if suite.kind == kind]
    if not suites:
        return Answer("unjudged", f"the full pack has no {kind} suite")
    excused = [rule for suite in suites for rule in suite.excused]
    if excused:
        return Answer("fail", f"{', '.join(excused)} did not hold but was excused")
    names = ", ".join(suite.suite for suite in suites)
    return Answer("pass", f"{names} held")


def _drift(case: Case) -> Answer:
    levels = case.state.asset.place(case.environment).drift
    worst = [
        f"{metric} is {level}"
        for wanted in (DRIFT_FAILS, DRIFT_ALERTS, DRIFT_UNKNOWN)
        for metric, (_, level) in sorted(levels.items())
        if level in wanted
    ]
    seen = {level for _, level in levels.values()}
    if seen & DRIFT_FAILS:
        return Answer("fail", "; ".join(worst))
    if seen & DRIFT_ALERTS:
        return Answer("fail", "; ".join(worst), is_alert=True)
    if not levels or seen & DRIFT_UNKNOWN:
        return Answer("unjudged", "; ".join(worst) or "no drift probe has reported")
    return Answer("pass", f"{len(levels)} watched metrics are steady")


def _error_budget(case: Case) -> Answer:
    spans = case.state.asset.place(case.environment).service
    if not spans:
        return Answer("unjudged", "the service has reported nothing")
    verdict = judge_burn(spans, case.state.governance.policy.error_budget, case.now)
    if verdict.is_breached is None:
        return Answer("unjudged", verdict.reason)
    return Answer("fail" if verdict.is_breached else "pass", verdict.reason)


def _sign_off(case: Case, stage: Stage, votes: Tally) -> Answer:
    needed = case.state.governance.policy.approvals.needed(stage, case.state.asset.risk)
    void = "".join(f"; {reason}" for reason in votes.void)
    if votes.rejected:
        names = ", ".join(vote.actor for vote in votes.rejected)
        return Answer("fail", f"rejected by {names}{void}")
    signed = votes.by_role(case.state.governance, "approver")
    if len(signed) < needed:
        return Answer("fail", f"{len(signed)} of {needed} approvals{void}")
    names = ", ".join(vote.actor for vote in signed)
    return Answer("pass", f"approved by {names} ({needed} needed)")


def _security_review(case: Case, votes: Tally) -> Answer:
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
        return Answer("not_applicable", "neither scope nor markings changed")
    signed = votes.by_role(case.state.governance, "security_approver")
    if not signed:
        return Answer("fail", f"{' and '.join(causes)}; no security_approver has approved")
    return Answer("pass", f"{' and '.join(causes)}; approved by {signed[0].actor}")
