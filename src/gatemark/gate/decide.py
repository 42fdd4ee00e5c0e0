"""The one function that decides. Its numbered steps are the ones in ``docs/explanation/gate.md``.

(1) A policy without rules is refused: it would pass anything.
(2) The evidence must be whole: an item lost, refused or set aside holds the verdict open, unless
    the policy itself names another bound for the coverage, of all evidence or of one suite's.
    Where not one item is usable, nothing can pass, whatever the policy and the waivers say.
(3) Each rule meets its measurement and becomes a finding.
(4) Waivers excuse what they name while they last; one that names no rule is an error, and so is
    one for a rule that only judges in another's place.
(5) The worst finding decides: fail over inconclusive over pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Evidence, Measurement, rate
from gatemark.core.policy import Finding, Outcome, Policy, Rule, Verdict, Waiver
from gatemark.gate.judge import judge

COVERAGE = "evidence.coverage"
WHOLE_EVIDENCE = Rule(id="evidence.complete", metric=COVERAGE, op=">=", bound=1.0, severity="hold")

NOTHING_USABLE = Finding(
    rule="evidence.usable",
    metric="evidence.usable_count",
    severity="hold",
    op=">",
    bound=0.0,
    against="value",
    observed=0.0,
    slack=0.0,
    n=0,
    verdict="inconclusive",
    reason="not one item of the evidence is usable: nothing was judged, and nothing excuses that",
)


def decide(
    policy: Policy,
    evidence: Sequence[Evidence],
    measurements: Sequence[Measurement],
    waivers: Sequence[Waiver],
    *,
    now: datetime,
) -> Verdict:
    """Judge measurements by a policy, at one moment, with every reason kept."""
    # Step 1.
    if not policy.rules:
        raise BadInputError(f"policy {policy.name} has no rules: it would pass anything")

    # Step 2.
    rules = policy.rules
    own_bound = {rule.lane for rule in rules if rule.metric == COVERAGE}
    everything = [*measurements]
    for lane in sorted(name for name in own_bound if name is not None):
        of_lane = [part for part in evidence if part.checks.get("suite") == lane]
        everything.append(msgspec.structs.replace(_coverage(of_lane), lane=lane))
    rest = [part for part in evidence if part.checks.get("suite", None) not in own_bound - {None}]
    if rest or not evidence:
        everything.append(_coverage(rest))
        if None not in own_bound:
            rules = (WHOLE_EVIDENCE, *rules)

    # Step 3.
    by_key = {measurement.key: measurement for measurement in everything}
    if len(by_key) != len(everything):
        raise BadInputError("two measurements share a name and a lane")
    findings = [finding for rule in rules for finding in judge(rule, by_key)]

    # Step 4.
    excused, caveats = _with_waivers(policy, findings, waivers, now)
    if not any(part.usable for part in evidence):
        excused.insert(0, NOTHING_USABLE)

    # Step 5.
    return _verdict(policy, excused, caveats)


def refuse_strays(waivers: Sequence[Waiver], policy: Policy) -> None:
    """Refuse waivers that no finding of the policy could match, before there are findings."""
    _refuse_unknown(policy, waivers, {WHOLE_EVIDENCE.id, *_ids(policy.rules)})


def _ids(rules: Sequence[Rule]) -> set[str]:
    return {rule.id for rule in rules} | {name for r in rules for name in _ids(r.fallback_rules)}


def _refuse_unknown(policy: Policy, waivers: Sequence[Waiver], known: set[str]) -> None:
    stands_in_for = {other.id: rule.id for rule in policy.rules for other in rule.fallback_rules}
    strays = sorted({waiver.rule for waiver in waivers} - (known - stands_in_for.keys()))
    if strays:
        raise BadInputError(tuple(_stray_words(rule, stands_in_for) for rule in strays))


def _coverage(evidence: Sequence[Evidence]) -> Measurement:
    usable = sum(part.usable for part in evidence)
    excluded = {
        "refused": sum(part.rejected for part in evidence),
        "missing": sum(part.missing for part in evidence),
        "duplicated": sum(part.duplicates for part in evidence),
    }
    return rate(
        COVERAGE,
        usable,
        usable + sum(excluded.values()),
        direction="higher_is_better",
        excluded={reason: count for reason, count in excluded.items() if count},
        empty_reason="no record arrived",
    )


def _with_waivers(
    policy: Policy, findings: Sequence[Finding], waivers: Sequence[Waiver], now: datetime
) -> tuple[list[Finding], list[str]]:
    _refuse_unknown(policy, waivers, {finding.rule for finding in findings})
    caveats = []
    excused: dict[str, Waiver] = {}
    for waiver in waivers:
        if waiver.expired(now):
            caveats.append(f"waiver for {waiver.rule} by {waiver.owner} has expired")
        else:
            excused[waiver.rule] = waiver
    result = []
    for finding in findings:
        waiver_or_none = excused.get(finding.rule)
        if waiver_or_none is None:
            result.append(finding)
        elif finding.verdict in {"fail", "inconclusive"}:
            note = (
                f"{finding.reason}; waived by {waiver_or_none.owner} until "
                f"{waiver_or_none.expires_at.date().isoformat()}: {waiver_or_none.reason}"
            )
            result.append(msgspec.structs.replace(finding, verdict="waived", reason=note))
        else:
            caveats.append(f"waiver for {finding.rule} was not needed")
            result.append(finding)
    return result, caveats


def _stray_words(rule: str, stands_in_for: Mapping[str, str]) -> str:
    if rule in stands_in_for:
        other = stands_in_for[rule]
        return f"waiver for {rule}: it only judges in place of {other}; waive {other} itself"
    return f"waiver for {rule} matches no rule of the policy"


def _verdict(policy: Policy, findings: Sequence[Finding], caveats: list[str]) -> Verdict:
    substitutes = {other.id for rule in policy.rules for other in rule.fallback_rules}
    judged = {finding.rule for finding in findings}
    deciding = [finding for finding in findings if finding.rule not in substitutes]
    failed = [f for f in deciding if f.verdict == "fail" and f.severity == "block"]
    held = [f for f in deciding if f.verdict == "fail" and f.severity == "hold"]
    open_questions = [
        f for f in deciding if f.verdict == "inconclusive" and f.severity in {"block", "hold"}
    ]
    outcome: Outcome = "fail" if failed else "inconclusive" if held or open_questions else "pass"
    blockers = tuple(finding.reason for finding in (*failed, *held, *open_questions))
    replaced = {rule.id for rule in policy.rules if {o.id for o in rule.fallback_rules} & judged}
    for finding in deciding:
        if finding.verdict in {"waived", "soft_pass"}:
            caveats.append(f"{finding.rule} ({finding.verdict}): {finding.reason}")
        elif finding.verdict == "pass" and finding.rule in replaced:
            caveats.append(f"{finding.rule}: {finding.reason}")
        elif finding.severity == "warn" and finding.verdict != "pass":
            caveats.append(finding.reason)
    return Verdict(
        outcome=outcome, findings=tuple(findings), blockers=blockers, caveats=tuple(caveats)
    )
