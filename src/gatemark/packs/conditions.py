"""Conditions of a run: facts about it that affect its verdict.

Conditions are rules that exist only if they apply. A condition that holds keeps a run from passing
and cannot be waived; one that warns is a caveat on the first page. Each is stored in the settings
of the sealed policy, so that judging the same evidence again gives the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.policy import Rule, Severity, Waiver
from gatemark.core.reason import ReasonKind
from gatemark.core.result import Result

ASKED: Final = "run.asked"
CHANGED: Final = "run.changed"
CONTRADICTED: Final = "run.contradicted"
UNASKED: Final = "run.unasked"
MODELS: Final = "run.models"
IN_PROCESS: Final = "run.in_process"
ISOLATED: Final = "run.isolated"
CACHED: Final = "run.cached"
RESUMED: Final = "run.resumed"
OTHER_INPUTS: Final = "run.other_inputs"
UNRELATED_INPUTS: Final = "run.unrelated_inputs"
OTHER_TARGETS: Final = "run.other_targets"
DIRECTION: Final = "run.direction"
OTHER_SCORING: Final = "run.other_scoring"
SAME_ARMS: Final = "run.same_arms"
SEVERITIES: Final[Mapping[str, Severity]] = {
    CONTRADICTED: "hold",
    ASKED: "hold",
    CHANGED: "hold",
    UNASKED: "hold",
    UNRELATED_INPUTS: "hold",
    OTHER_TARGETS: "hold",
    DIRECTION: "hold",
    OTHER_SCORING: "hold",
    MODELS: "hold",
    IN_PROCESS: "hold",
    ISOLATED: "warn",
    CACHED: "warn",
    RESUMED: "warn",
    OTHER_INPUTS: "warn",
    SAME_ARMS: "warn",
}
"""In the order in which they are reported."""
CONDITION: Final = ReasonKind("condition", "{stated}")
"""What the settings of the policy say about the condition is the value."""
Conditions = Mapping[str, str]
"""Reasons for each condition that applies."""


def make_condition_rules(conditions: Conditions) -> tuple[Rule, ...]:
    """Return one rule per condition; none of them can be met."""
    return tuple(
        Rule(id=name, metric=name, op=">=", bound=1.0, severity=severity)
        for name, severity in SEVERITIES.items()
        if name in conditions
    )


def make_condition_measurements(conditions: Conditions) -> tuple[Measurement, ...]:
    """Return the measurements that the rules of the conditions check: no number, and the reason."""
    return tuple(
        unmeasured(
            name,
            CONDITION(condition=name, stated=conditions[name]),
            direction="higher_is_better",
        )
        for name in SEVERITIES
        if name in conditions
    )


def read_conditions(result: Result) -> dict[str, str]:
    """Return the conditions under which a sealed result was made."""
    settings = result.policy.settings
    return {name: str(settings[name]) for name in SEVERITIES if name in settings}


def refuse_waived_conditions(waivers: Sequence[Waiver]) -> None:
    """Refuse waivers for conditions that nobody can excuse."""
    for waiver in waivers:
        if SEVERITIES.get(waiver.rule) == "hold":
            raise BadInputError(f"{waiver.rule} cannot be waived: such a run never passes")
