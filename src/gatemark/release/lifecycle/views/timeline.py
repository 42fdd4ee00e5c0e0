"""The geometry of a timeline: one lane per version, one bar per stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from gatemark.release.lifecycle.model.nouns import CANARY_SHARES
from gatemark.release.lifecycle.views.views import StageSpan
from gatemark.report import words

WIDTH: Final = 860.0
LABELS: Final = 110.0
LANE: Final = 26.0
TOP: Final = 6.0
LANES_MAX: Final = 24
MARKS: Final = 5
_LOOKS: Final = {
    "evaluating": "early",
    "eligible": "early",
    "shadow": "shadow",
    "canary_1": "canary",
    "canary_5": "canary",
    "canary_25": "canary",
    "enabled": "live",
    "superseded": "past",
    "rejected": "fallen",
    "demoted": "fallen",
    "rolled_back": "fallen",
}
_ENDS: Final = frozenset({"retired", "draft"})


class StageBar(msgspec.Struct, frozen=True):
    """One stage of one version, in pixels; ``title`` is its text."""

    x: float
    width: float
    style: str
    title: str


class VersionLane(msgspec.Struct, frozen=True):
    """All bars of one version."""

    name: str
    y: float
    bars: tuple[StageBar, ...]


class TimelineMark(msgspec.Struct, frozen=True):
    """A labelled time on the axis."""

    x: float
    text: str
    anchor: str


class DrawnTimeline(msgspec.Struct, frozen=True):
    """A drawn history; ``description`` is its text alternative."""

    width: float
    height: float
    axis_y: float
    lanes: tuple[VersionLane, ...]
    marks: tuple[TimelineMark, ...]
    more_lanes: int
    description: str


def draw_timeline(segments: Sequence[StageSpan], until: datetime) -> DrawnTimeline | None:
    """Return the timeline of some segments up to a time, or None if there is nothing to draw."""
    shown = [one for one in segments if one.stage not in _ENDS and one.start <= until]
    if not shown:
        return None
    begin = min(one.start for one in shown)
    span = max(until - begin, timedelta(minutes=1))
    several = len({one.environment for one in shown}) > 1

    def place(moment: datetime) -> float:
        share = (moment - begin) / span
        return round(LABELS + share * (WIDTH - LABELS), 1)

    names: dict[str, list[StageSpan]] = {}
    for one in shown:
        name = f"{one.version} ({one.environment})" if several else one.version
        names.setdefault(name, []).append(one)
    lanes = tuple(
        VersionLane(name, TOP + at * LANE, tuple(_draw_bar(one, until, place) for one in parts))
        for at, (name, parts) in enumerate(list(names.items())[-LANES_MAX:])
    )
    axis = TOP + len(lanes) * LANE + 4
    live = [one for one in shown if one.stage == "enabled"]
    return DrawnTimeline(
        width=WIDTH,
        height=axis + 22,
        axis_y=axis,
        lanes=lanes,
        marks=_draw_marks(begin, span, place),
        more_lanes=max(0, len(names) - LANES_MAX),
        description=(
            f"Stages of {words.counted(len(names), 'version')} from {words.moment(begin)} to "
            f"{words.moment(until)}: enabled in turn were "
            f"{', '.join(one.version for one in live) or 'none'}. "
            "The events are in the table below."
        ),
    )


def _draw_bar(one: StageSpan, until: datetime, place: Callable[[datetime], float]) -> StageBar:
    start = place(one.start)
    end = place(min(one.end or until, until))
    when = f"{words.moment(one.start)} to {words.moment(one.end) if one.end else 'now'}"
    return StageBar(
        start, max(2.0, round(end - start, 1)), _LOOKS[one.stage], f"{one.stage}, {when}"
    )


def _draw_marks(
    begin: datetime, span: timedelta, place: Callable[[datetime], float]
) -> tuple[TimelineMark, ...]:
    pattern = "%Y-%m-%d" if span > timedelta(days=4) else "%m-%d %H:%MZ"
    moments = [begin + span * at / (MARKS - 1) for at in range(MARKS)]
    anchors = ["start", *["middle"] * (MARKS - 2), "end"]
    return tuple(
        TimelineMark(place(moment), moment.strftime(pattern), anchor)
        for moment, anchor in zip(moments, anchors, strict=True)
    )


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
    """A drawn ramp; ``description`` is its text alternative."""

    width: float
    height: float
    step_width: float
    steps: tuple[RampStep, ...]
    description: str


def build_ramp(stage: str, *, is_watch: bool) -> Ramp:
    """Return the steps from the first share to all traffic."""
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
