"""Counterfactual replay: what would have come out, had one step been made of reference parts.

For a step, its output is taken anew with the reference versions, everything that rests on it is run
again with the versions that were active, and an oracle looks at the end. The same is done with
nothing changed, which tells luck from versions. Steps before and beside keep what was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from gatemark.attribution.decision import QUESTION, DecisionStep, PlannedDecision
from gatemark.attribution.port import NotReplayable, Oracle, Pins, Replayer, StepCall
from gatemark.core.measurement import Interval
from gatemark.statistics.proportion import wilson

LEVEL = 0.95
WHOLE_RUNS = 2
"""How many times more often a whole plan is run than a step: all of its luck comes together."""


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
    """What taking one step anew did to an end that was wrong.

    ``repaired`` used the reference versions, ``rerun`` the ones that were active. ``effect`` is the
    share of right ends after the repair; ``by_versions`` is how much of it the versions made, the
    rest being luck: a step that failed by chance is repaired by running it again.
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
    """A wrong decision, the versions to compare with, and the means to run steps again."""

    decision: PlannedDecision
    reference: dict[str, str]
    replayer: Replayer
    oracle: Oracle
    repeats: int
    seed: int

    def effects(self, on_progress: Callable[[int, int], None] | None = None) -> tuple[Effect, ...]:
        """The effect of repairing each step, in the order of the plan."""
        found = []
        for number, step in enumerate(self.decision.steps, start=1):
            found.append(self._effect(step))
            if on_progress is not None:
                on_progress(number, len(self.decision.steps))
        return tuple(found)

    def whole(self, pins: Pins) -> RepeatTally:
        """How the decision ends when every step is run anew with these versions."""
        return self._counted(
            run_whole(self.decision, pins, self.replayer, seed=self.seed + number)
            for number in range(WHOLE_RUNS * self.repeats)
        )

    def _effect(self, step: DecisionStep) -> Effect:
        changed = {
            name: self.reference[name]
            for name, version in step.components()
            if self.reference.get(name, version) != version
        }
        rerun = self._repeat(step, {})
        repaired = self._repeat(step, changed) if changed else rerun
        if repaired.rate is None:
            reason = repaired.reason or "the oracle knew no answer"
            return Effect(step.id, repaired, rerun, None, None, reason=reason)
        low, high = wilson(repaired.right, repaired.judged, LEVEL)
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
            versions_interval=_newcombe(repaired, rerun),
        )

    def _repeat(self, step: DecisionStep, changed: Pins) -> RepeatTally:
        return self._counted(
            run_from(self.decision, step, changed, self.replayer, seed=self.seed + number)
            for number in range(self.repeats)
        )

    def _counted(self, ends: Iterable[Any | NotReplayable]) -> RepeatTally:
        counts = {"right": 0, "wrong": 0, "unknown": 0}
        reason = None
        for ended in ends:
            if isinstance(ended, NotReplayable):
                counts["unknown"] += 1
                reason = ended.reason
            else:
                counts[self.oracle(ended)] += 1
        return RepeatTally(counts["right"], counts["wrong"], counts["unknown"], reason)


def _newcombe(repaired: RepeatTally, rerun: RepeatTally) -> Interval:
    """Newcombe's hybrid score interval for a difference of independent shares."""
    one, other = repaired.right / repaired.judged, rerun.right / rerun.judged
    low_one, high_one = wilson(repaired.right, repaired.judged, LEVEL)
    low_other, high_other = wilson(rerun.right, rerun.judged, LEVEL)
    delta = one - other
    low = delta - math.hypot(one - low_one, high_other - other)
    high = delta + math.hypot(high_one - one, other - low_other)
    return Interval(low=max(-1.0, low), high=min(1.0, high), level=LEVEL, method="newcombe")


def run_from(
    decision: PlannedDecision, step: DecisionStep, changed: Pins, replayer: Replayer, *, seed: int
) -> Any | NotReplayable:
    """The final output when one step is run anew and everything that rests on it follows."""
    return _run(decision, (step, *decision.downstream(step.id)), {step.id: changed}, replayer, seed)


def run_whole(
    decision: PlannedDecision, pins: Pins, replayer: Replayer, *, seed: int
) -> Any | NotReplayable:
    """The final output when every step is run anew with these versions."""
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
) -> Any | NotReplayable:
    outputs: dict[str, Any] = {QUESTION: decision.input}
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
