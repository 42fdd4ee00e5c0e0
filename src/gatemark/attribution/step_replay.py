"""Running single steps of a decision again: from other decisions, or by a target."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from gatemark.attribution.decision import QUESTION, PlannedDecision
from gatemark.attribution.port import NotReplayable, StepCall
from gatemark.core.canonical import canonical_bytes, digest
from gatemark.core.errors import InvalidValueError
from gatemark.targets.port import Call, Target, TargetError
from gatemark.targets.spec import build, parse_spec


class RecordedSteps:
    """Steps that decisions recorded with the same inputs and versions.

    Each record counts once: repeats beyond what was recorded are unknown, so that one lucky run
    is not taken for twenty.
    """

    calls = 0
    """No target is asked."""

    def __init__(self, decisions: Sequence[PlannedDecision], first_seed: int) -> None:
        self._first_seed = first_seed
        self._outputs: dict[str, list[Any]] = {}
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

    def run(self, call: StepCall) -> Any | NotReplayable:
        known = self._outputs.get(_step_key(call.name, list(call.inputs.values()), call.pins))
        if known is None:
            return NotReplayable("no recorded run had these inputs and versions")
        at = call.seed - self._first_seed
        if at >= len(known):
            return NotReplayable(f"only {len(known)} recorded runs had these inputs and versions")
        return known[at]

    def close(self) -> None:
        """Nothing is open."""


def _step_key(name: str, inputs: list[Any], pins: dict[str, str]) -> str:
    """What a step was given, whatever the steps before it were called: ids differ between runs."""
    return digest({"name": name, "inputs": inputs, "pins": pins})


class LiveSteps:
    """Steps that a target runs again: it gets the call as its input and gives the output.

    The same call with the same seed gives the same answer, so none is made twice.
    """

    def __init__(
        self, target: dict[str, Any], folder: Path, *, timeout_s: float, max_calls: int
    ) -> None:
        spec = parse_spec(target, "replay: target")
        self._timeout_s = spec.timeout_s or timeout_s
        self._max_calls = max_calls
        self._known: dict[str, Any | NotReplayable] = {}
        # A function with a time limit runs beside the loop, so that it can be given up.
        spec = msgspec.structs.replace(spec, timeout_s=self._timeout_s)
        self._runner = asyncio.Runner()
        self._target: Target = build(spec, folder, clock=time.monotonic, environ=os.environ)

    @property
    def calls(self) -> int:
        """How often the target was asked."""
        return len(self._known)

    def run(self, call: StepCall) -> Any | NotReplayable:
        """The target's answer to a call, or why there is none."""
        key = digest(call)
        if key not in self._known:
            if self.calls >= self._max_calls:
                return NotReplayable(f"all {self._max_calls} calls of max_calls are used up")
            self._known[key] = self._answer(call)
        return self._known[key]

    def _answer(self, call: StepCall) -> Any | NotReplayable:
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

    async def _ask(self, call: Call) -> Any:
        async with asyncio.timeout(self._timeout_s):
            return (await self._target.call(call)).output

    def close(self) -> None:
        """Let go of the target and its loop."""
        self._runner.run(self._target.close())
        self._runner.close()
