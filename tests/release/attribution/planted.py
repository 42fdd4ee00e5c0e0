"""Synthetic agent runs with one planted fault each: a parcel desk whose steps can be run again.

The desk looks facts up, calculates with tools, lets models write, and lets a verifier look last.
Every step is a function of its inputs, its versions and a seed; some are a little flaky.

Plain cases have faults that always show. In murky ones a bad version spoils only some runs, more
is wrong on record than the guilty step, and steps with a blemish that nobody minds stand around.
What the methods get is the decision, the reference versions, and the means to run steps again:
nothing of a case says which step is guilty.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

from msgspec import structs

from gatemark.core.canonical import digest
from gatemark.release.attribution.decision import (
    DecisionJudgement,
    DecisionStep,
    Pin,
    PlannedDecision,
    StepCheck,
)
from gatemark.release.attribution.replay import NotReplayable, StepCall

FAULTS = ("tool", "retrieval", "prompt", "rule")
HANDED_OVER = "handed over to a person"
GOOD, BAD = "good", "bad"


class Case(NamedTuple):
    """A wrong decision, the step that made it so, and the world it happened in."""

    fault: str
    decision: PlannedDecision
    guilty: str
    reference: dict[str, str]
    world: World
    by_chance: bool


class World:
    """Runs steps. ``bad`` versions are wrong as often as ``force`` says; flaky steps now and then.

    The verifier hands over what it can tell: mistakes of the stubborn model, by good rules.
    """

    def __init__(self, flaky: dict[str, float], stubborn: str | None, force: float = 1.0) -> None:
        self._flaky = flaky
        self._force = force
        self.stubborn = stubborn

    def run(self, call: StepCall) -> Any | NotReplayable:
        if call.kind == "verifier":
            read: Any
            (read,) = call.inputs.values()
            # Only the stubborn model's mistakes are of a kind that the better rules know.
            strict = call.pins["rules:desk"] != BAD and self.stubborn is not None
            return HANDED_OVER if strict and not read["sound"] else read["text"]
        spoiled = any(not one["sound"] for one in call.inputs.values() if isinstance(one, dict))
        is_bad = BAD in call.pins.values() and _luck("bad", call) < self._force
        sound = not spoiled and not is_bad and call.step != self.stubborn
        if _luck("flaky", call) < self._flaky.get(call.step, 0.0):
            sound = False
        seen = digest({"name": call.name, "inputs": call.inputs})[-8:] if sound else "?"
        return {"sound": sound, "text": f"{call.name} says {seen}"}


def _luck(what: str, call: StepCall) -> float:
    return _drawn(f"{what}/{call.step}/{call.seed}")


@cache
def _drawn(seed: str) -> float:
    return random.Random(seed).random()


def planted(number: int, *, murky: bool = False) -> Case:
    """The case of that number; the same number gives the same case."""
    rng = random.Random(number)
    fault = FAULTS[number % len(FAULTS)]
    steps = _plan(rng)
    of_kind = {
        "tool": [s for s in steps if s.kind == "tool"],
        "retrieval": [s for s in steps if s.kind == "retrieval"],
        "prompt": [s for s in steps if s.kind == "model"],
        "rule": [s for s in steps if s.kind == "verifier"],
    }
    guilty = rng.choice(of_kind[fault])
    stubborn = rng.choice(of_kind["prompt"]).id if fault == "rule" else None
    odds = (0.0, 0.15, 0.3, 0.45) if murky else (0.0, 0.05, 0.15, 0.25)
    flaky = {s.id: rng.choice(odds) for s in steps if s.kind != "verifier"}
    by_chance = fault == "tool" and rng.random() < 0.5
    pins = {name: GOOD for step in steps for name, _ in step.components()}
    broken = {"tool": "tool", "retrieval": "retrieval", "prompt": "prompt", "rule": "rules"}
    if not by_chance:
        pins[f"{broken[fault]}:{getattr(guilty, broken[fault]).name}"] = BAD
    reference = dict.fromkeys(pins, GOOD)
    # Innocent changes stand beside the guilty one, as in any release.
    for name in rng.sample(sorted(pins), k=min(3, len(pins))):
        if pins[name] == GOOD:
            pins[name] = "newer"
    world = World(flaky, stubborn, rng.uniform(0.4, 1.0) if murky else 1.0)
    decision = _recorded(number, steps, pins, world, guilty.id if by_chance else None)
    if murky:
        decision = _blemished(decision, rng)
    right = _ended(number, steps, reference, World({}, None))
    expected = HANDED_OVER if fault == "rule" else right
    judged = DecisionJudgement(verdict="wrong", reviewer="r1", expected=expected)
    wrong = structs.replace(decision, judgement=judged)
    return Case(fault, wrong, guilty.id, reference, world, by_chance)


def _plan(rng: random.Random) -> list[DecisionStep]:
    steps = [
        DecisionStep(
            "plan", "model", "planner", ("input",), model=_pin("planner"), prompt=_pin("planner")
        )
    ]
    steps.extend(
        DecisionStep(
            f"look-{n}", "retrieval", f"facts-{n}", ("plan",), retrieval=_pin(f"facts-{n}")
        )
        for n in range(rng.randint(1, 3))
    )
    for n in range(rng.randint(1, 3)):
        sources = tuple(rng.sample([s.id for s in steps], k=rng.randint(1, min(2, len(steps)))))
        steps.append(
            DecisionStep(f"tool-{n}", "tool", f"tool-{n}", sources, tool=_pin(f"tool-{n}"))
        )
    read = {source for step in steps for source in step.sources}
    loose = tuple(step.id for step in steps if step.id not in read)
    steps.append(
        DecisionStep("write", "model", "writer", loose, model=_pin("writer"), prompt=_pin("writer"))
    )
    if rng.random() < 0.5:
        steps.append(
            DecisionStep(
                "polish", "model", "editor", ("write",), model=_pin("editor"), prompt=_pin("ed")
            )
        )
    steps.append(DecisionStep("verify", "verifier", "desk", (steps[-1].id,), rules=_pin("desk")))
    return steps


def _pin(name: str) -> Pin:
    return Pin(name, GOOD)


def _recorded(
    number: int, steps: list[DecisionStep], pins: dict[str, str], world: World, glitch: str | None
) -> PlannedDecision:
    """The run as it was recorded: nothing flaked but the step that had to, if one had to."""
    outputs: dict[str, Any] = {"input": {"sound": True, "text": f"question {number}"}}
    done = []
    calm = World({glitch: 1.0} if glitch else {}, world.stubborn)
    for step in steps:
        own = {name: pins[name] for name, _ in step.components()}
        inputs = {source: outputs[source] for source in step.sources}
        outputs[step.id] = calm.run(StepCall(step.kind, step.name, step.id, inputs, own, 0))
        changed = {
            kind: Pin(getattr(step, kind).name, own[f"{kind}:{getattr(step, kind).name}"])
            for kind in ("model", "prompt", "retrieval", "tool", "rules")
            if f"{kind}:{getattr(getattr(step, kind), 'name', '')}" in own
        }
        checks = (StepCheck("desk", "format", "pass"),)
        bare = DecisionStep(step.id, step.kind, step.name, step.sources)
        done.append(structs.replace(bare, output=outputs[step.id], checks=checks, **changed))
    return PlannedDecision(f"d-{number}", outputs["input"], outputs[steps[-1].id], tuple(done))


def _blemished(decision: PlannedDecision, rng: random.Random) -> PlannedDecision:
    """The decision with failed checks on steps that may well be innocent."""
    objected = (StepCheck("desk", "format", "pass"), StepCheck("desk", "tone", "fail"))
    steps = tuple(
        structs.replace(step, checks=objected) if rng.random() < 0.25 else step
        for step in decision.steps
    )
    return structs.replace(decision, steps=steps)


def _ended(number: int, steps: list[DecisionStep], pins: dict[str, str], world: World) -> Any:
    return _recorded(number, steps, pins, world, None).output
