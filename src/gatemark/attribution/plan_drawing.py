"""A plan as boxes and arrows: each step one row below the lowest of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.attribution.nouns import PlanStep

BOX_WIDTH: Final = 176
BOX_HEIGHT: Final = 46
GAP_X: Final = 24
GAP_Y: Final = 40
MARGIN: Final = 12
LABEL_MAX: Final = 19


class Box(msgspec.Struct, frozen=True):
    """One step where it stands."""

    id: str
    x: int
    y: int
    label: str
    sub: str
    title: str
    is_cause: bool


class Arrow(msgspec.Struct, frozen=True):
    """From a source down to what rests on it."""

    path: str


class Drawing(msgspec.Struct, frozen=True):
    """Everything a template needs to draw."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    description: str


def draw(plan: Sequence[PlanStep], cause: str | None) -> Drawing:
    """The plan with its cause marked."""
    depth: dict[str, int] = {}
    rows: dict[int, list[PlanStep]] = {}
    for step in plan:
        depth[step.id] = 1 + max((depth.get(source, -1) for source in step.sources), default=-1)
        rows.setdefault(depth[step.id], []).append(step)
    widest = max(len(row) for row in rows.values())
    width = 2 * MARGIN + widest * BOX_WIDTH + (widest - 1) * GAP_X
    boxes = {}
    for level, row in rows.items():
        used = len(row) * BOX_WIDTH + (len(row) - 1) * GAP_X
        for place, step in enumerate(row):
            boxes[step.id] = Box(
                id=step.id,
                x=(width - used) // 2 + place * (BOX_WIDTH + GAP_X),
                y=MARGIN + level * (BOX_HEIGHT + GAP_Y),
                label=_short(step.id),
                sub=_short(f"{step.kind} {step.name}"),
                title=f"{step.id}: {step.kind} {step.name}",
                is_cause=step.id == cause,
            )
    arrows = tuple(
        _arrow(boxes[source], boxes[step.id])
        for step in plan
        for source in step.sources
        if source in boxes
    )
    named = f"; the cause is {cause}" if cause else ""
    return Drawing(
        width=width,
        height=2 * MARGIN + len(rows) * BOX_HEIGHT + (len(rows) - 1) * GAP_Y,
        boxes=tuple(boxes.values()),
        arrows=arrows,
        description=f"Plan of {len(plan)} steps in {len(rows)} rows{named}.",
    )


def _arrow(above: Box, below: Box) -> Arrow:
    x1, y1 = above.x + BOX_WIDTH // 2, above.y + BOX_HEIGHT
    x2, y2 = below.x + BOX_WIDTH // 2, below.y - 2
    middle = (y1 + y2) // 2
    return Arrow(f"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}")


def _short(text: str) -> str:
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"
