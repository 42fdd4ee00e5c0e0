"""Rules, policies and waivers, and the one function that decides by them.

Its numbered steps are the ones in ``docs/explanation/gate.md``.

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

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, ExitCode, InvalidValueError
from gatemark.core.measurement import COUNTED_AS_ONE, COUNTED_AS_ZERO, Evidence, Measurement, rate
from gatemark.core.reason import Reason, ReasonKind, ReasonValue

Operator = Literal[">=", "<=", ">", "<", "=="]
Against = Literal["value", "lower", "upper", "interval", "non_inferiority"]
OnUnmeasured = Literal["inconclusive", "fail", "soft_pass"]
Severity = Literal["block", "hold", "warn"]
Setting = str | float | int | bool | None


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bound on one metric.

    ``against`` names what is compared: the value, an end of its interval, or the whole interval,
    which holds when all of it does, fails when none of it does, and is open in between.
    ``non_inferiority`` is for drops: it holds when the whole interval stays within the bound, and
    fails when the drop is beyond it and surely a drop.
    ``severity`` says what a violation does: block fails, hold leaves the verdict open, warn is
    only printed. ``fallback_rules`` judge in this one's place when its metric is
    unmeasured, or is flagged ``low_information`` and does not reach the bound. With
    ``fallback_is_strict`` they also judge a flagged metric that reaches the bound, and leave one
    that does not open at best.
    """

    id: Annotated[str, msgspec.Meta(description="Name of the rule, unique in the pack.")]
    metric: Annotated[str, msgspec.Meta(description="Name of the measurement.")]
    op: Annotated[Operator, msgspec.Meta(description="Comparison with the bound.")]
    bound: Annotated[float, msgspec.Meta(description="The bound.")]
    scope: Annotated[
        str | None,
        msgspec.Meta(
            description="Suite, slice or part, such as `golden`; none for the whole pack."
        ),
    ] = None
    against: Annotated[
        Against,
        msgspec.Meta(
            description="What is compared: the value, an end of its interval, or the interval."
        ),
    ] = "value"
    min_n: Annotated[int, msgspec.Meta(description="Minimum number of items.")] = 1
    on_unmeasured: Annotated[
        OnUnmeasured, msgspec.Meta(description="Outcome when there is no number.")
    ] = "inconclusive"
    severity: Annotated[
        Severity, msgspec.Meta(description="What a violation does: block, hold open, or warn.")
    ] = "block"
    fallback_rules: Annotated[
        tuple[Rule, ...],
        msgspec.Meta(description="Rules that judge in its place when it has no number."),
    ] = ()
    fallback_is_strict: Annotated[
        bool, msgspec.Meta(description="Whether they also judge a number that says little.")
    ] = False

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidValueError("a rule needs an id")
        if not math.isfinite(self.bound):
            raise InvalidValueError(f"rule {self.id}: bound must be finite, got {self.bound}")
        if self.min_n < 1:
            raise InvalidValueError(f"rule {self.id}: min_n must be >= 1, got {self.min_n}")


class SuiteShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of one suite in the bench score, and its minimum."""

    id: str
    weight: float
    floor: float | None = None


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a change is judged by. A policy is never empty."""

    name: str
    rules: tuple[Rule, ...]
    suites: tuple[SuiteShare, ...] = ()
    score_min: float | None = None
    regression_max: float | None = None
    settings: dict[str, Setting] = {}

    def __post_init__(self) -> None:
        if not self.rules and not self.suites:
            raise InvalidValueError(f"policy {self.name} is empty: it would pass anything")
        ids = [rule.id for rule in self.rules]
        repeated = sorted({rule_id for rule_id in ids if ids.count(rule_id) > 1})
        if repeated:
            raise InvalidValueError(f"policy {self.name} repeats rule ids: {', '.join(repeated)}")

    @property
    def digest(self) -> str:
        """The digest of the whole policy, with every bound and setting."""
        return digest(self)


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named person excuses one rule until a date, for a stated reason."""

    rule: str
    owner: str
    reason: str
    expires_at: datetime

    def __post_init__(self) -> None:
        if not (self.rule.strip() and self.owner.strip() and self.reason.strip()):
            raise InvalidValueError("a waiver needs a rule, an owner and a reason")
        if self.expires_at.tzinfo is None:
            raise InvalidValueError(f"waiver for {self.rule}: expires_at needs a time zone")
        try:
            self.expires_at.astimezone(UTC)
        except OverflowError as error:
            message = f"waiver for {self.rule}: expires_at lies outside of the calendar"
            raise InvalidValueError(message) from error

    def expired(self, now: datetime) -> bool:
        """Return whether the waiver has ended at ``now``."""
        return self.expires_at.astimezone(UTC) <= now


Outcome = Literal["pass", "fail", "inconclusive"]
FindingVerdict = Literal["pass", "fail", "inconclusive", "waived", "soft_pass"]

EXIT_BY_OUTCOME: dict[Outcome, ExitCode] = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.FAIL,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of one rule.

    ``slack`` is the distance to the bound, positive on the good side. ``waived`` and
    ``soft_pass`` stand apart from ``pass`` so that no page can mistake one for the other.
    """

    rule: str
    metric: str
    severity: str
    op: str
    bound: float
    against: str
    observed: float | None
    slack: float | None
    n: int
    verdict: FindingVerdict
    reason: Reason

    def __post_init__(self) -> None:
        if (self.observed is None) != (self.slack is None):
            raise InvalidValueError(f"finding {self.rule}: observed and slack come together")


class Bench(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weighted score over the suites of a pack, or the reason why there is none."""

    value: float | None
    reason: Reason | None


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The decision and its reasons."""

    outcome: Outcome
    findings: tuple[Finding, ...]
    blockers: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    bench: Bench | None = None
    regression: Bench | None = None

    def __post_init__(self) -> None:
        if not self.findings:
            raise InvalidValueError("a verdict without findings decides nothing")
        if (self.outcome == "pass") == bool(self.blockers):
            raise InvalidValueError("a verdict has blockers exactly when it is not a pass")

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that reports this verdict."""
        return EXIT_BY_OUTCOME[self.outcome]


LOW_INFORMATION = "low_information"
MAY_BE_CHANCE_AMONG_CLAIMS = "may_be_chance_among_claims"
"""An interval beyond its bound that is not, once all claims of the verdict are counted."""
ITEMS_NEEDED = "_items_needed"
"""Ends the name of the measurement of how many items would decide about another one."""
WORST_IN = "worst in "
"""Begins the caveat that names the part of the evidence that a worst number was found in."""
LINE_TOLERANCE = 1e-12
"""Numbers this close to a bound are on it: 0.90 - 0.88 must not exceed 0.02 by rounding."""

NOT_MEASURED: Final = ReasonKind("not_measured", "{subject} was not measured")
NO_NUMBER: Final = ReasonKind("no_number", "{subject} was not measured: {because}")
TOO_FEW_ITEMS: Final = ReasonKind("too_few_items", "{subject} rests on {n} items, needs {needed}")
NO_INTERVAL: Final = ReasonKind(
    "no_interval", "{subject} has no interval to compare by its {against} bound"
)
NO_RECORD: Final = ReasonKind("no_record", "no record arrived")
NO_USABLE_ITEM: Final = ReasonKind(
    "no_usable_item",
    "not one item of the evidence is usable: nothing was judged, and nothing excuses that",
)
MEETS_BOUND: Final = ReasonKind("meets_bound", "{subject} is {op} {bound:g} (n={n})")
MISSES_BOUND: Final = ReasonKind(
    "misses_bound", "{subject} must be {op} {bound:g}, got {observed:.6g} (n={n})"
)
INTERVAL_BEYOND_BOUND: Final = ReasonKind(
    "interval_beyond_bound",
    "{subject} must be {op} {bound:g}, got {observed:.4g} (n={n}); all of it is beyond the bound",
)
MAY_BE_CHANCE: Final = ReasonKind(
    "may_be_chance",
    "{subject} must be {op} {bound:g}, got {observed:.4g} (n={n}); beyond the bound, but not when "
    "the number of comparisons is counted",
)
INTERVAL_OPEN: Final = ReasonKind(
    "interval_open",
    "{subject} must be {op} {bound:g}, got {observed:.4g} (n={n}); "
    "about {items_needed:,.0f} items would decide",
)
INTERVAL_UNDECIDABLE: Final = ReasonKind(
    "interval_undecidable",
    "{subject} must be {op} {bound:g}, got {observed:.4g} (n={n}); {because}",
)
JUDGED_BY_FALLBACK: Final = ReasonKind("judged_by_fallback", "{because}; judged by {rules} instead")
WAIVED: Final = ReasonKind("waived", "{because}; waived by {owner} until {until}: {stated}")

Measurements = Mapping[tuple[str, str | None], Measurement]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


def judge(rule: Rule, measurements: Measurements) -> tuple[Finding, ...]:
    """The finding for one rule, followed by those of the rules that judged in its place."""
    finding, yields = _judge_alone(rule, measurements)
    if not (yields and rule.fallback_rules):
        return (finding,)
    substitutes = tuple(f for other in rule.fallback_rules for f in judge(other, measurements))
    verdicts = {substitute.verdict for substitute in substitutes}
    if rule.fallback_is_strict and finding.observed is not None and finding.verdict != "pass":
        verdicts.add("inconclusive")
    combined: FindingVerdict = "pass"
    for worse in ("soft_pass", "inconclusive", "fail"):
        if worse in verdicts:
            combined = worse
    reason = _word_fallback(rule, finding, substitutes)
    judged = msgspec.structs.replace(finding, verdict=combined, reason=reason)
    return (judged, *substitutes)


def _word_fallback(rule: Rule, finding: Finding, substitutes: Sequence[Finding]) -> Reason:
    names = " and ".join(other.id for other in rule.fallback_rules)
    how = "too" if finding.verdict == "pass" else "instead"
    text = f"{finding.reason}; judged by {names} {how}"
    if rule.fallback_is_strict:
        text += "".join(f"; {one.reason}" for one in substitutes if one.verdict != "pass")
    return JUDGED_BY_FALLBACK.word(text, rules=names, because=finding.reason)


def _judge_alone(rule: Rule, measurements: Measurements) -> tuple[Finding, bool]:
    """The finding of the rule's own comparison, and whether substitutes may speak instead."""
    measurement = measurements.get((rule.metric, rule.scope))
    if measurement is None:
        # Nobody looked: a number that nobody asked for is no reason to ask another one.
        return _make_unmeasured(rule, NOT_MEASURED(subject=_name_subject(rule)), n=0), False
    if measurement.value is None:
        why = NO_NUMBER(subject=_name_subject(rule), because=measurement.reason)
        return _make_unmeasured(rule, why, n=measurement.n), True
    if measurement.n < rule.min_n:
        why = TOO_FEW_ITEMS(subject=_name_subject(rule), n=measurement.n, needed=rule.min_n)
        return _make_unmeasured(rule, why, n=measurement.n), False
    observed = _get_compared_number(rule, measurement)
    if observed is None:
        why = NO_INTERVAL(subject=_name_subject(rule), against=rule.against)
        return _make_unmeasured(rule, why, n=measurement.n), False
    held = _meets(rule.op, observed, rule.bound)
    finding = Finding(
        rule=rule.id,
        metric=rule.metric,
        severity=rule.severity,
        op=rule.op,
        bound=rule.bound,
        against=rule.against,
        observed=observed,
        slack=_compute_slack(rule.op, observed, rule.bound),
        n=measurement.n,
        verdict="pass" if held else _judge_short_of_bound(rule, measurement),
        reason=_word_bound(rule, observed, measurement, held=held),
    )
    needed = measurements.get((rule.metric + ITEMS_NEEDED, rule.scope))
    if needed is not None and rule.against == "interval" and not held:
        reason = _word_interval(rule, measurement, needed, finding.verdict)
        finding = msgspec.structs.replace(finding, reason=reason)
    low_information = LOW_INFORMATION in measurement.caveats
    return finding, low_information and (not held or rule.fallback_is_strict)


def _get_compared_number(rule: Rule, measurement: Measurement) -> float | None:
    """The number that meets the bound; a whole interval is met by its worse end."""
    if rule.against == "value":
        return measurement.value
    if measurement.interval is None:
        return None
    low, high = measurement.interval.low, measurement.interval.high
    if rule.against in {"interval", "non_inferiority"}:
        return low if rule.op in {">=", ">"} else high
    return low if rule.against == "lower" else high


def _judge_short_of_bound(rule: Rule, measurement: Measurement) -> FindingVerdict:
    """Failed, or still open because the better end of the interval reaches the bound."""
    interval = measurement.interval
    if rule.against == "non_inferiority" and interval is not None:
        beyond = _meets(">", measurement.value or 0.0, rule.bound)
        return "fail" if beyond and interval.low > 0 else "inconclusive"
    if rule.against != "interval" or interval is None:
        return "fail"
    better_end = interval.high if rule.op in {">=", ">"} else interval.low
    is_open = _meets(rule.op, better_end, rule.bound)
    return (
        "inconclusive" if is_open or MAY_BE_CHANCE_AMONG_CLAIMS in measurement.caveats else "fail"
    )


def _is_on_the_line(observed: float, bound: float) -> bool:
    return abs(observed - bound) <= LINE_TOLERANCE


def _meets(op: str, observed: float, bound: float) -> bool:
    return _COMPARE[op](bound if _is_on_the_line(observed, bound) else observed, bound)


def _compute_slack(op: str, observed: float, bound: float) -> float:
    if _is_on_the_line(observed, bound):
        return 0.0
    if op == "==":
        return -abs(observed - bound)
    return observed - bound if op in {">=", ">"} else bound - observed


def _name_subject(rule: Rule) -> str:
    return rule.metric if rule.scope is None else f"{rule.scope}.{rule.metric}"


def _word_bound(rule: Rule, observed: float, measurement: Measurement, *, held: bool) -> Reason:
    kind = MEETS_BOUND if held else MISSES_BOUND
    text = _describe_comparison(rule, observed, measurement, held=held)
    return _word_comparison(kind, text, rule, observed, measurement.n)


def _word_comparison(
    kind: ReasonKind,
    text: str,
    rule: Rule,
    observed: float,
    n: int,
    *,
    because: Reason | None = None,
    **others: ReasonValue,
) -> Reason:
    return kind.word(
        text,
        because=because,
        subject=_name_subject(rule),
        against=rule.against,
        op=rule.op,
        bound=rule.bound,
        observed=observed,
        n=n,
        **others,
    )


def _describe_comparison(
    rule: Rule, observed: float, measurement: Measurement, *, held: bool
) -> str:
    subject = _name_subject(rule)
    size = f"(n={measurement.n}){'' if held else _describe_unscored(measurement)}"
    if rule.against == "non_inferiority" and not held:
        return (
            f"{subject} is {measurement.value:.6g} and may be as large as {observed:.6g}, "
            f"must be {rule.op} {rule.bound:g} {size}"
        )
    end = "" if rule.against == "value" else f" ({rule.against})"
    must = "is" if held else "must be"
    got = "" if held else f", got {observed:.6g}"
    low = LOW_INFORMATION in measurement.caveats and not held
    flag = "; low information: one label dominates" if low else ""
    flag += "".join(f"; {c}" for c in measurement.caveats if c.startswith(WORST_IN) and not held)
    return f"{subject}{end} {must} {rule.op} {rule.bound:g}{got} {size}{flag}"


def _word_interval(
    rule: Rule, measurement: Measurement, needed: Measurement, verdict: FindingVerdict
) -> Reason:
    """An interval against a bound, and how many items would decide where it is open."""
    interval = measurement.interval
    ends = "" if interval is None else f" [{interval.low:.4g}, {interval.high:.4g}]"
    words = (
        f"{_name_subject(rule)} must be {rule.op} {rule.bound:g}, got {measurement.value:.4g}{ends}"
        f" (n={measurement.n}){_describe_unscored(measurement)}"
    )
    observed, n = measurement.value or 0.0, measurement.n
    if verdict == "fail":
        text = f"{words}; all of it is beyond the bound"
        return _word_comparison(INTERVAL_BEYOND_BOUND, text, rule, observed, n)
    if MAY_BE_CHANCE_AMONG_CLAIMS in measurement.caveats:
        text = f"{words}; beyond the bound, but not when the number of comparisons is counted"
        return _word_comparison(MAY_BE_CHANCE, text, rule, observed, n)
    if needed.value is None:
        text = f"{words}; {needed.reason}"
        why = needed.reason
        return _word_comparison(INTERVAL_UNDECIDABLE, text, rule, observed, n, because=why)
    items = max(needed.value, n + 1)
    text = f"{words}; about {items:,.0f} items would decide"
    return _word_comparison(INTERVAL_OPEN, text, rule, observed, n, items_needed=items)


def _describe_unscored(measurement: Measurement) -> str:
    """Errors that went into a number: a reader must not take a crash for a wrong answer."""
    words = ""
    if lost := measurement.excluded.get(COUNTED_AS_ZERO):
        words += f"; {lost} items without a score count as 0"
    if lost := measurement.excluded.get(COUNTED_AS_ONE):
        words += f"; {lost} that the baseline lost count as 1"
    return words


def _make_unmeasured(rule: Rule, reason: Reason, *, n: int) -> Finding:
    return Finding(
        rule=rule.id,
        metric=rule.metric,
        severity=rule.severity,
        op=rule.op,
        bound=rule.bound,
        against=rule.against,
        observed=None,
        slack=None,
        n=n,
        verdict=rule.on_unmeasured,
        reason=reason,
    )


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
    reason=NO_USABLE_ITEM(),
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
    own_bound = {rule.scope for rule in rules if rule.metric == COVERAGE}
    everything = [*measurements]
    for scope in sorted(name for name in own_bound if name is not None):
        of_scope = [part for part in evidence if part.checks.get("suite") == scope]
        everything.append(msgspec.structs.replace(_measure_coverage(of_scope), scope=scope))
    rest = [part for part in evidence if part.checks.get("suite", None) not in own_bound - {None}]
    if rest or not evidence:
        everything.append(_measure_coverage(rest))
        if None not in own_bound:
            rules = (WHOLE_EVIDENCE, *rules)

    # Step 3.
    by_key = {measurement.key: measurement for measurement in everything}
    if len(by_key) != len(everything):
        raise BadInputError("two measurements share a name and a scope")
    findings = [finding for rule in rules for finding in judge(rule, by_key)]

    # Step 4.
    excused, caveats = _apply_waivers(policy, findings, waivers, now)
    if not any(part.usable for part in evidence):
        excused.insert(0, NOTHING_USABLE)

    # Step 5.
    return _combine_findings(policy, excused, caveats)


def refuse_strays(waivers: Sequence[Waiver], policy: Policy) -> None:
    """Refuse waivers that no finding of the policy could match, before there are findings."""
    _refuse_unknown(policy, waivers, {WHOLE_EVIDENCE.id, *_collect_ids(policy.rules)})


def _collect_ids(rules: Sequence[Rule]) -> set[str]:
    return {rule.id for rule in rules} | {
        name for r in rules for name in _collect_ids(r.fallback_rules)
    }


def _refuse_unknown(policy: Policy, waivers: Sequence[Waiver], known: set[str]) -> None:
    stands_in_for = {other.id: rule.id for rule in policy.rules for other in rule.fallback_rules}
    strays = sorted({waiver.rule for waiver in waivers} - (known - stands_in_for.keys()))
    if strays:
        raise BadInputError(tuple(_describe_stray(rule, stands_in_for) for rule in strays))


def _measure_coverage(evidence: Sequence[Evidence]) -> Measurement:
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
        empty_reason=NO_RECORD(),
    )


def _apply_waivers(
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
            note = WAIVED(
                owner=waiver_or_none.owner,
                until=waiver_or_none.expires_at.date().isoformat(),
                stated=waiver_or_none.reason,
                because=finding.reason,
            )
            result.append(msgspec.structs.replace(finding, verdict="waived", reason=note))
        else:
            caveats.append(f"waiver for {finding.rule} was not needed")
            result.append(finding)
    return result, caveats


def _describe_stray(rule: str, stands_in_for: Mapping[str, str]) -> str:
    if rule in stands_in_for:
        other = stands_in_for[rule]
        return f"waiver for {rule}: it only judges in place of {other}; waive {other} itself"
    return f"waiver for {rule} matches no rule of the policy"


def _combine_findings(policy: Policy, findings: Sequence[Finding], caveats: list[str]) -> Verdict:
    substitutes = {other.id for rule in policy.rules for other in rule.fallback_rules}
    judged = {finding.rule for finding in findings}
    deciding = [finding for finding in findings if finding.rule not in substitutes]
    failed = [f for f in deciding if f.verdict == "fail" and f.severity == "block"]
    held = [f for f in deciding if f.verdict == "fail" and f.severity == "hold"]
    open_questions = [
        f for f in deciding if f.verdict == "inconclusive" and f.severity in {"block", "hold"}
    ]
    outcome: Outcome = "fail" if failed else "inconclusive" if held or open_questions else "pass"
    blockers = tuple(str(finding.reason) for finding in (*failed, *held, *open_questions))
    replaced = {rule.id for rule in policy.rules if {o.id for o in rule.fallback_rules} & judged}
    for finding in deciding:
        if finding.verdict in {"waived", "soft_pass"}:
            caveats.append(f"{finding.rule} ({finding.verdict}): {finding.reason}")
        elif finding.verdict == "pass" and finding.rule in replaced:
            caveats.append(f"{finding.rule}: {finding.reason}")
        elif finding.severity == "warn" and finding.verdict != "pass":
            caveats.append(str(finding.reason))
    return Verdict(
        outcome=outcome, findings=tuple(findings), blockers=blockers, caveats=tuple(caveats)
    )
