"""What came out: findings per rule and the three-way verdict."""

from __future__ import annotations

from typing import Literal

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.exits import ExitCode

Outcome = Literal["pass", "fail", "inconclusive"]
FindingVerdict = Literal["pass", "fail", "inconclusive", "waived", "soft_pass"]

EXIT_BY_OUTCOME: dict[Outcome, ExitCode] = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.FAIL,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one rule fared.

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
    """The decision, with everything it rests on."""

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
        """How a command that reports this verdict ends."""
        return EXIT_BY_OUTCOME[self.outcome]
