"""Rules, policies and waivers, and their results: findings and the three-way verdict."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Literal

import msgspec

from gatemark.core.canonical import digest, original_fields
from gatemark.core.errors import ExitCode, InvalidValueError

Operator = Literal[">=", "<=", ">", "<", "=="]
Against = Literal["value", "lower", "upper", "interval", "non_inferiority"]
OnUnmeasured = Literal["inconclusive", "fail", "soft_pass"]
Severity = Literal["block", "hold", "warn"]
Setting = str | float | int | bool | None


@original_fields("id metric op bound lane against min_n on_unmeasured severity instead")
class Rule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"fallback_rules": "instead"}
):
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

    id: str
    metric: str
    op: Operator
    bound: float
    lane: str | None = None
    against: Against = "value"
    min_n: int = 1
    on_unmeasured: OnUnmeasured = "inconclusive"
    severity: Severity = "block"
    fallback_rules: tuple[Rule, ...] = ()
    fallback_is_strict: bool = False

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidValueError("a rule needs an id")
        if not math.isfinite(self.bound):
            raise InvalidValueError(f"rule {self.id}: bound must be finite, got {self.bound}")
        if self.min_n < 1:
            raise InvalidValueError(f"rule {self.id}: min_n must be >= 1, got {self.min_n}")


@original_fields("id weight floor")
class SuiteShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of one suite in the bench score, and its minimum."""

    id: str
    weight: float
    floor: float | None = None


@original_fields("name rules suites score_min regression_max settings")
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
        """Tell whether the waiver has ended at ``now``."""
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
    reason: str

    def __post_init__(self) -> None:
        if (self.observed is None) != (self.slack is None):
            raise InvalidValueError(f"finding {self.rule}: observed and slack come together")


class Bench(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weighted score over the suites of a pack, or the reason why there is none."""

    value: float | None
    reason: str | None


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
