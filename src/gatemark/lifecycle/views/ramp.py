"""The ramp of a canary as a picture: its steps, their shares, and where it stands."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.lifecycle.model.nouns import CANARY_SHARES

STEP_WIDTH: Final = 150.0
HEIGHT: Final = 96.0


class RampStep(msgspec.Struct, frozen=True):
    """One step, in pixels; ``style`` is past, now or next."""

    name: str
    share: str
    x: float
    y: float
    height: float
    style: str


class Ramp(msgspec.Struct, frozen=True):
    """A drawn ramp; ``description`` says it in words."""

    width: float
    height: float
    step_width: float
    steps: tuple[RampStep, ...]
    description: str


def ramp(stage: str, *, is_watch: bool) -> Ramp:
    """The steps from the first share to all traffic."""
    shares = {**CANARY_SHARES, "enabled": 1.0}
    names = list(shares)
    at = len(names) - 1 if is_watch else names.index(stage) if stage in names else -1
    steps = []
    for number, (name, share) in enumerate(shares.items()):
        height = 14.0 + 46.0 * (number + 1) / len(names)
        style = "past" if number < at else "now" if number == at else "next"
        words = "all traffic" if name == "enabled" else f"{share:.0%} of traffic"
        steps.append(
            RampStep(
                name=name.replace("_", " "),
                share=words,
                x=number * STEP_WIDTH,
                y=64.0 - height,
                height=height,
                style=style,
            )
        )
    return Ramp(
        width=STEP_WIDTH * len(steps),
        height=HEIGHT,
        step_width=STEP_WIDTH - 10,
        steps=tuple(steps),
        description=f"Ramp of {len(steps)} steps; it stands at {stage.replace('_', ' ')}.",
    )
