"""What must hold: rules, the policy that collects them, and the waivers that excuse."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Literal

import msgspec

from gatemark.core.canonical import digest, original_fields
from gatemark.core.errors import InvalidValueError

Operator = Literal[">=", "<=", ">", "<", "=="]
Against = Literal["value", "lower", "upper", "interval", "non_inferiority"]
OnUnmeasured = Literal["inconclusive", "fail", "soft_pass"]
Severity = Literal["block", "hold", "warn"]
Setting = str | float | int | bool | None


@original_fields("id metric op bound lane against min_n on_unmeasured severity instead")
class Rule(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"fallback_rules": "instead"}
):
    """One line in the sand.

    ``against`` names what is compared: the value, an end of its interval, or the whole interval,
    which holds when all of it does, fails when none of it does, and is open in between.
    ``non_inferiority`` is for drops: it holds when the whole interval stays within the bound, and
    fails when the drop is beyond it and surely a drop.
    ``severity`` says what a violation does: block fails, hold leaves the verdict open, warn is
    only printed. ``fallback_rules`` judge in this one's place when its metric is
    unmeasured, or is flagged ``low_information`` and does not reach the bound.
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

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidValueError("a rule needs an id")
        if not math.isfinite(self.bound):
            raise InvalidValueError(f"rule {self.id}: bound must be finite, got {self.bound}")
        if self.min_n < 1:
            raise InvalidValueError(f"rule {self.id}: min_n must be >= 1, got {self.min_n}")


@original_fields("id weight floor")
class SuiteShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one suite counts: its weight in the bench score and its floor."""

    id: str
    weight: float
    floor: float | None = None


@original_fields("name rules suites score_min regression_max settings")
class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a change is judged by. An empty one cannot exist."""

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
        """The digest of the whole policy, every bound and switch included."""
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
        """Whether the waiver no longer excuses anything at ``now``."""
        return self.expires_at.astimezone(UTC) <= now
