"""Counterfactual replay: the outcome if one step had used the reference versions.

A step is run again with the reference versions, everything that depends on it with the versions
that were active, and an oracle judges the final output. The same is done with nothing changed,
which separates luck from versions. Other steps keep what was recorded.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET

from gatemark.core.canonical import canonical_bytes, digest
from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.release.attribution.decision import QUESTION, DecisionStep, PlannedDecision
from gatemark.statistics.proportion import wilson_interval
from gatemark.targets.build import make_target
from gatemark.targets.port import Call, Target, TargetError
from gatemark.targets.spec import parse_spec

Judged = Literal["right", "wrong", "unknown"]
Oracle = Callable[[Any], Judged]
"""Judges a final output: right, wrong or unknown."""


class NotReplayable(msgspec.Struct, frozen=True):
    """Raised for a step that cannot be run again, with the reason."""

    reason: str


class StepCall(msgspec.Struct, frozen=True):
    """One step to run again: its name, kind, inputs and component versions.

    ``seed`` distinguishes repeats; the same call with the same seed gives the same answer.
    """

    kind: str
    name: str
    step: str
    inputs: dict[str, object]
    pins: dict[str, str]
    seed: int


class Replayer(Protocol):
    """Runs single steps again, live or from a recording."""

    def run(self, call: StepCall) -> object | NotReplayable:
        """Return the step's output, or why there is none."""


Pins = Mapping[str, str]
"""Component to version, as in ``prompt:writer`` to ``r7``."""


LEVEL = 0.95
WHOLE_RUNS = 2
"""How many times more often a complete plan is run than a step, because its noise adds up."""


class RepeatTally(msgspec.Struct, frozen=True):
    """How the repeats of one experiment ended."""

    right: int = 0
    wrong: int = 0
    unknown: int = 0
    reason: str | None = None

    @property
    def judged(self) -> int:
        """How many repeats the oracle could judge."""
        return self.right + self.wrong

    @property
    def rate(self) -> float | None:
        """The share that came out right."""
        return self.right / self.judged if self.judged else None


class Effect(msgspec.Struct, frozen=True):
    """The effect of running one step again on a wrong outcome.

    ``repaired`` used the reference versions, ``rerun`` the ones that were active. ``effect`` is the
    share of right outcomes after the repair; ``by_versions`` is the part due to versions, the rest
    being luck: a step that failed by chance is repaired by running it again.
    """

    step: str
    repaired: RepeatTally
    rerun: RepeatTally
    effect: float | None
    interval: Interval | None
    by_versions: float | None = None
    versions_interval: Interval | None = None
    reason: str | None = None


class Experiment(msgspec.Struct, frozen=True):
    """A wrong decision, the versions to compare with, and a way to run steps again."""

    decision: PlannedDecision
    reference: dict[str, str]
    replayer: Replayer
    oracle: Oracle
    repeats: int
    seed: int

    def effects(self) -> tuple[Effect, ...]:
        """Return the effect of repairing each step, in plan order."""
        return tuple(self._measure_effect(step) for step in self.decision.steps)

    def whole(self, pins: Pins) -> RepeatTally:
        """Return how the decision ends if every step runs again with these versions."""
        return self._count_ends(
            run_whole(self.decision, pins, self.replayer, seed=self.seed + number)
            for number in range(WHOLE_RUNS * self.repeats)
        )

    def _measure_effect(self, step: DecisionStep) -> Effect:
        changed = {
            name: self.reference[name]
            for name, version in step.components()
            if self.reference.get(name, version) != version
        }
        rerun = self._repeat(step, {})
        repaired = self._repeat(step, changed) if changed else rerun
        if repaired.rate is None:
            reason = repaired.reason or "the outcome could not be judged"
            return Effect(step.id, repaired, rerun, None, None, reason=reason)
        low, high = wilson_interval(repaired.right, repaired.judged, LEVEL)
        effect = Effect(
            step=step.id,
            repaired=repaired,
            rerun=rerun,
            effect=repaired.rate,
            interval=Interval(low=low, high=high, level=LEVEL, method="wilson"),
        )
        if not changed or rerun.rate is None:
            return effect
        return msgspec.structs.replace(
            effect,
            by_versions=repaired.rate - rerun.rate,
            versions_interval=_compute_newcombe_interval(repaired, rerun),
        )

    def _repeat(self, step: DecisionStep, changed: Pins) -> RepeatTally:
        return self._count_ends(
            run_from(self.decision, step, changed, self.replayer, seed=self.seed + number)
            for number in range(self.repeats)
        )

    def _count_ends(self, ends: Iterable[object | NotReplayable]) -> RepeatTally:
        counts = {"right": 0, "wrong": 0, "unknown": 0}
        reason = None
        for ended in ends:
            if isinstance(ended, NotReplayable):
                counts["unknown"] += 1
                reason = ended.reason
            else:
                counts[self.oracle(ended)] += 1
        return RepeatTally(counts["right"], counts["wrong"], counts["unknown"], reason)


def _compute_newcombe_interval(repaired: RepeatTally, rerun: RepeatTally) -> Interval:
    """Return Newcombe's hybrid score interval for a difference of independent proportions."""
    one, other = repaired.right / repaired.judged, rerun.right / rerun.judged
    low_one, high_one = wilson_interval(repaired.right, repaired.judged, LEVEL)
    low_other, high_other = wilson_interval(rerun.right, rerun.judged, LEVEL)
    delta = one - other
    low = delta - math.hypot(one - low_one, high_other - other)
    high = delta + math.hypot(high_one - one, other - low_other)
    return Interval(low=max(-1.0, low), high=min(1.0, high), level=LEVEL, method="newcombe")


def run_from(
    decision: PlannedDecision, step: DecisionStep, changed: Pins, replayer: Replayer, *, seed: int
) -> object | NotReplayable:
    """Return the final output if one step and everything that depends on it run again."""
    return _run(decision, (step, *decision.downstream(step.id)), {step.id: changed}, replayer, seed)


def run_whole(
    decision: PlannedDecision, pins: Pins, replayer: Replayer, *, seed: int
) -> object | NotReplayable:
    """Return the final output if every step runs again with these versions."""
    changes = {
        step.id: {name: pins[name] for name, _ in step.components() if name in pins}
        for step in decision.steps
    }
    return _run(decision, decision.steps, changes, replayer, seed)


def _run(
    decision: PlannedDecision,
    steps: Sequence[DecisionStep],
    changes: Mapping[str, Pins],
    replayer: Replayer,
    seed: int,
) -> object | NotReplayable:
    outputs: dict[str, object] = {QUESTION: decision.input}
    for step in decision.steps:
        outputs[step.id] = None if step.output is UNSET else step.output
    for step in steps:
        call = StepCall(
            kind=step.kind,
            name=step.name,
            step=step.id,
            inputs={source: outputs[source] for source in step.sources},
            pins={**dict(step.components()), **changes.get(step.id, {})},
            seed=seed,
        )
        output = replayer.run(call)
        if isinstance(output, NotReplayable):
            return NotReplayable(f"step {step.id}: {output.reason}")
        outputs[step.id] = output
    return outputs[decision.steps[-1].id]


class RecordedSteps:
    """Steps that decisions recorded with the same inputs and versions.

    Each record counts once: repeats beyond what was recorded are unknown, so that one lucky run
    does not count twenty times.
    """

    calls = 0
    """No target is called."""

    def __init__(self, decisions: Sequence[PlannedDecision], first_seed: int) -> None:
        self._first_seed = first_seed
        self._outputs: dict[str, list[object]] = {}
        for decision in decisions:
            outputs = {QUESTION: decision.input}
            for step in decision.steps:
                if step.output is not UNSET:
                    outputs[step.id] = step.output
                if step.output is UNSET or not outputs.keys() >= set(step.sources):
                    continue
                inputs = [outputs[source] for source in step.sources]
                key = _step_key(step.name, inputs, dict(step.components()))
                self._outputs.setdefault(key, []).append(step.output)

    def run(self, call: StepCall) -> object | NotReplayable:
        known = self._outputs.get(_step_key(call.name, list(call.inputs.values()), call.pins))
        if known is None:
            return NotReplayable("no recorded run had these inputs and versions")
        at = call.seed - self._first_seed
        if at >= len(known):
            return NotReplayable(f"only {len(known)} recorded runs had these inputs and versions")
        return known[at]

    def close(self) -> None:
        """Do nothing: no connection is open."""


def _step_key(name: str, inputs: list[object], pins: dict[str, str]) -> str:
    """Return a key of a step's input that does not depend on ids, which differ between runs."""
    return digest({"name": name, "inputs": inputs, "pins": pins})


class LiveSteps:
    """Runs steps again by a target, which gets the call as its input and returns the output.

    The same call with the same seed gives the same answer, so none is made twice.
    """

    def __init__(
        self, target: dict[str, object], folder: Path, *, timeout_s: float, max_calls: int
    ) -> None:
        spec = parse_spec(target, "replay: target")
        self._timeout_s = spec.timeout_s or timeout_s
        self._max_calls = max_calls
        self._known: dict[str, object | NotReplayable] = {}
        # A function with a time limit runs alongside the loop, so that it can be abandoned.
        spec = msgspec.structs.replace(spec, timeout_s=self._timeout_s)
        self._runner = asyncio.Runner()
        self._target: Target = make_target(spec, folder, clock=time.monotonic, environ=os.environ)

    @property
    def calls(self) -> int:
        """How often the target was called."""
        return len(self._known)

    def run(self, call: StepCall) -> object | NotReplayable:
        """Return the target's answer to a call, or why there is none."""
        key = digest(call)
        if key not in self._known:
            if self.calls >= self._max_calls:
                return NotReplayable(f"all {self._max_calls} calls of max_calls are used up")
            self._known[key] = self._answer(call)
        return self._known[key]

    def _answer(self, call: StepCall) -> object | NotReplayable:
        asked = Call(id=call.step, epoch=call.seed, input=msgspec.to_builtins(call))
        try:
            output = self._runner.run(self._ask(asked))
            canonical_bytes(output)
        except TargetError as error:
            return NotReplayable(str(error))
        except TimeoutError:
            return NotReplayable(f"no answer within {self._timeout_s:g} s")
        except InvalidValueError as error:
            return NotReplayable(f"its answer cannot be compared: {error}")
        return output

    async def _ask(self, call: Call) -> object:
        async with asyncio.timeout(self._timeout_s):
            return (await self._target.call(call)).output

    def close(self) -> None:
        """Close the target and its loop."""
        self._runner.run(self._target.close())
        self._runner.close()
