"""What a run was like, where that bears on its verdict: rules that exist only when they apply.

A condition that holds keeps a run from passing and cannot be waived; one that warns is a caveat on
the first page. Each is kept among the settings of the sealed policy, so that judging the same
evidence again comes to the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.policy import Rule, Severity, Waiver
from gatemark.core.result import Result

ASKED: Final = "run.asked"
CONTRADICTED: Final = "run.contradicted"
IN_PROCESS: Final = "run.in_process"
ISOLATED: Final = "run.isolated"
CACHED: Final = "run.cached"

SEVERITIES: Final[Mapping[str, Severity]] = {
    CONTRADICTED: "hold",
    ASKED: "hold",
    IN_PROCESS: "hold",
    ISOLATED: "warn",
    CACHED: "warn",
}
"""In the order in which they are spoken of."""

Conditions = Mapping[str, str]
"""Why each condition that applies does so."""


def condition_rules(conditions: Conditions) -> tuple[Rule, ...]:
    """Return one rule per condition; none of them can be met."""
    return tuple(
        Rule(id=name, metric=name, op=">=", bound=1.0, severity=severity)
        for name, severity in SEVERITIES.items()
        if name in conditions
    )


def condition_measurements(conditions: Conditions) -> tuple[Measurement, ...]:
    """Return what the rules of the conditions look at: no number, and the reason."""
    return tuple(
        unmeasured(name, conditions[name], direction="higher_is_better")
        for name in SEVERITIES
        if name in conditions
    )


def conditions_of(result: Result) -> dict[str, str]:
    """Return the conditions under which a sealed result was made."""
    settings = result.policy.settings
    return {name: str(settings[name]) for name in SEVERITIES if name in settings}


def refuse_waived_conditions(waivers: Sequence[Waiver]) -> None:
    """Refuse waivers for conditions that nobody can excuse."""
    for waiver in waivers:
        if SEVERITIES.get(waiver.rule) == "hold":
            raise BadInputError(f"{waiver.rule} cannot be waived: such a run never passes")
