"""Apply current rule packs to an earlier decision.

A rule is a declarative statement about a step's output; it contains no code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from gatemark.core.errors import InvalidValueError
from gatemark.release.attribution.decision import DecisionStep, PlannedDecision, StepKind

MAX_TEXT: Final = 1_000_000
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


class AppliesTo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which steps a rule applies to; an empty field matches any step."""

    kind: StepKind | None = None
    name: str | None = None

    def covers(self, step: DecisionStep) -> bool:
        """Return whether the rule applies to this step."""
        return self.kind in (None, step.kind) and self.name in (None, step.name)


class OutputRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule: each condition that is given must hold for the output, or the rule objects.

    ``path`` picks a part of a structured output, as in ``price.amount``. ``numbers_from_sources``
    requires every number of the output to be in what the step read; ``pinned`` requires components
    in one of the listed versions.
    """

    id: str
    applies_to: AppliesTo = AppliesTo()
    path: str | None = None
    not_empty: bool = False
    must_contain: tuple[str, ...] = ()
    must_not_contain: tuple[str, ...] = ()
    one_of: tuple[str | int | float | bool, ...] = ()
    between: tuple[float, float] | None = None
    numbers_from_sources: bool = False
    pinned: dict[str, tuple[str, ...]] = {}

    def __post_init__(self) -> None:
        asks = (
            self.not_empty,
            self.must_contain,
            self.must_not_contain,
            self.one_of,
            self.between,
            self.numbers_from_sources,
            self.pinned,
        )
        if not any(asks):
            raise InvalidValueError(f"rule {self.id} has no condition")
        if self.between is not None and not self.between[0] <= self.between[1]:
            raise InvalidValueError(
                f"rule {self.id}: between must be [low, high], got {self.between}"
            )


class RulePack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules under one name and version."""

    name: str
    version: str
    rules: tuple[OutputRule, ...]

    def __post_init__(self) -> None:
        ids = [rule.id for rule in self.rules]
        if not ids or len(set(ids)) != len(ids):
            raise InvalidValueError(f"rule pack {self.name} needs rules with ids of their own")


def find_objections(
    packs: tuple[RulePack, ...], decision: PlannedDecision, step: DecisionStep
) -> tuple[tuple[str, str], ...]:
    """Return the current rules that object to one step of a decision, and why each does."""
    return tuple(
        (f"{pack.name}@{pack.version}/{rule.id}", why)
        for pack in packs
        for rule in pack.rules
        if rule.applies_to.covers(step)
        if (why := next(_find_complaints(rule, decision, step), None)) is not None
    )


def _find_complaints(
    rule: OutputRule, decision: PlannedDecision, step: DecisionStep
) -> Iterator[str]:
    for component, versions in rule.pinned.items():
        version = dict(step.components()).get(component)
        if version is not None and version not in versions:
            yield f"{component} must be one of {', '.join(versions)}, got {version}"
    output = _follow_path(None if step.output is UNSET else step.output, rule.path)
    text = _format_text(output)
    if rule.not_empty and not text.strip():
        yield "the output is empty"
    yield from (f"the output must contain {w!r}" for w in rule.must_contain if w not in text)
    yield from (f"the output must not contain {w!r}" for w in rule.must_not_contain if w in text)
    if rule.one_of and output not in rule.one_of:
        yield "the output is none of the allowed values"
    if rule.between is not None:
        low, high = rule.between
        is_number = isinstance(output, int | float) and not isinstance(output, bool)
        if not (isinstance(output, int | float) and is_number and low <= output <= high):
            yield f"the output must be a number in [{low:g}, {high:g}]"
    if rule.numbers_from_sources:
        strangers = sorted(_find_numbers(text) - _find_numbers(_read_by(decision, step)))
        if strangers:
            yield f"{len(strangers)} numbers are not in anything that the step read"


def _read_by(decision: PlannedDecision, step: DecisionStep) -> str:
    outputs = {other.id: other.output for other in decision.steps if other.output is not UNSET}
    outputs["input"] = decision.input
    return "\n".join(_format_text(outputs.get(source)) for source in step.sources)


def _find_numbers(text: str) -> set[str]:
    return {
        found.rstrip("0").rstrip(".") if "." in found else found for found in _NUMBER.findall(text)
    }


def _follow_path(output: object, path: str | None) -> object:
    for key in path.split(".") if path else ():
        output = output.get(key) if isinstance(output, Mapping) else None
    return output


def _format_text(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return text[:MAX_TEXT]
