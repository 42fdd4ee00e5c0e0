"""One decision of an agent, step by step, and what a reviewer said later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

NAME: Final = "gatemark.decision/1"
QUESTION: Final = "input"
"""The source of a step that reads the question itself."""
MAX_STEPS: Final = 1_000

Name = Annotated[str, Meta(pattern=r"\S", max_length=512)]
StepKind = Literal["plan", "model", "retrieval", "tool", "verifier", "output"]
CheckVerdict = Literal["pass", "fail", "not_run"]


class Pin(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A named component in one version: a model lineage, a prompt revision, a snapshot, a tool."""

    name: Name
    version: Name


class StepCheck(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The outcome of one rule for a step's output when the decision was made."""

    pack: Name
    rule: Name
    verdict: CheckVerdict
    detail: str | UnsetType = UNSET


class DecisionStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One step: the sources of its inputs, its output, and its components.

    ``sources`` are ids of earlier steps, or the word ``input`` for the question itself.
    """

    id: Name
    kind: StepKind
    name: Name
    sources: Annotated[tuple[Name, ...], Meta(max_length=MAX_STEPS)]
    output: Any = UNSET
    error: str | UnsetType = UNSET
    model: Pin | UnsetType = UNSET
    prompt: Pin | UnsetType = UNSET
    retrieval: Pin | UnsetType = UNSET
    tool: Pin | UnsetType = UNSET
    rules: Pin | UnsetType = UNSET
    checks: tuple[StepCheck, ...] | UnsetType = UNSET
    latency_ms: Annotated[float, Meta(ge=0)] | UnsetType = UNSET

    def components(self) -> Iterator[tuple[str, str]]:
        """Everything the step was made of, as (component, version)."""
        for kind in PIN_KINDS:
            pin = getattr(self, kind)
            if pin is not UNSET:
                yield f"{kind}:{pin.name}", pin.version

    @property
    def failed_checks(self) -> tuple[StepCheck, ...]:
        """The rules that objected at the time."""
        if self.checks is UNSET:
            return ()
        return tuple(check for check in self.checks if check.verdict == "fail")


PIN_KINDS: Final = ("model", "prompt", "retrieval", "tool", "rules")


class DecisionJudgement(Struct, frozen=True, forbid_unknown_fields=True):
    """What a reviewer found later; ``expected`` is the right output, if known."""

    verdict: Literal["right", "wrong"]
    reviewer: Name
    at: datetime | UnsetType = UNSET
    expected: Any = UNSET
    note: str | UnsetType = UNSET


class PlannedDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision with its complete plan."""

    id: Name
    input: Any
    output: Any
    steps: Annotated[tuple[DecisionStep, ...], Meta(min_length=1, max_length=MAX_STEPS)]
    schema: Literal["gatemark.decision/1"] | UnsetType = UNSET
    at: datetime | UnsetType = UNSET
    asset: Name | UnsetType = UNSET
    version: Name | UnsetType = UNSET
    judgement: DecisionJudgement | UnsetType = UNSET

    def step(self, name: str) -> DecisionStep:
        """Return the step with that id."""
        return next(step for step in self.steps if step.id == name)

    def downstream(self, name: str) -> tuple[DecisionStep, ...]:
        """Return all direct and indirect dependents of a step, in plan order."""
        tainted = {name}
        found = []
        for step in self.steps:
            if tainted & set(step.sources):
                tainted.add(step.id)
                found.append(step)
        return tuple(found)

    def pins(self) -> dict[str, str]:
        """Return the active version of every component of the decision."""
        return {name: version for step in self.steps for name, version in step.components()}
