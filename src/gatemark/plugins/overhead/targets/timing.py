"""Time arms side by side, group of windows by group, so that other load affects them alike.

Each group of windows runs in the order bare, guarded, guarded, bare, the next group the other way
round. Load that rises or falls steadily then adds the same to each arm, and so does the speed-up of
the second of two equal calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

MAX_TIMED_WINDOWS: Final = 400
MIN_GROUPS: Final = 40
"""Two for each of twenty blocks of time, if there are enough windows."""
MAX_SWITCH_SHARE: Final = 5.0
"""Maximum cost of switching, as a multiple of the cost of the timed windows."""
SHORTEST_MS: Final = 1e-6
"""Minimum recorded time; a coarse clock may measure zero."""


class TimedGroup(msgspec.Struct, frozen=True):
    """A group of windows: how many, and both times of each arm in milliseconds."""

    windows: int
    times_ms: dict[str, tuple[float, float]]


def pick_windows(count: int) -> list[int]:
    """Return the indices of the windows to time, spread evenly over all."""
    if count <= MAX_TIMED_WINDOWS:
        return list(range(count))
    return [place * count // MAX_TIMED_WINDOWS for place in range(MAX_TIMED_WINDOWS)]


def group_size(windows: int, window_ms: float, switch_ms: float, batch_size: int) -> int | str:
    """Return how many windows to run between two switches, or why switching is too slow.

    One window if switching is cheap; otherwise enough to take as long as a switch, but few enough
    to leave groups for every block of time.
    """
    most = max(batch_size, windows // MIN_GROUPS // batch_size * batch_size)
    wanted = math.ceil(switch_ms / max(window_ms, SHORTEST_MS) / batch_size) * batch_size
    size = min(most, max(batch_size, wanted))
    groups = math.ceil(windows / size)
    # A group needs two switches and evaluates its windows four times.
    if 2 * groups * switch_ms > MAX_SWITCH_SHARE * 4 * windows * window_ms:
        return (
            f"switching the guards takes {switch_ms:.3g} ms and a window {window_ms:.3g} ms: "
            "too slow to time the arms side by side"
        )
    return size


def time_side_by_side(
    arms: Sequence[str],
    groups: Sequence[Sequence[int]],
    switch: Callable[[str], None],
    evaluate_ms: Callable[[str, Sequence[int]], float],
) -> tuple[TimedGroup, ...]:
    """Run each group of windows twice in every arm, in mirrored order."""
    active: str | None = None
    timed = []
    for number, group in enumerate(groups):
        forth = list(arms) if number % 2 == 0 else list(reversed(arms))
        found: dict[str, list[float]] = {arm: [] for arm in arms}
        for arm in (*forth, *reversed(forth)):
            if arm != active:
                switch(arm)
                active = arm
            found[arm].append(max(evaluate_ms(arm, group), SHORTEST_MS))
        times = {arm: (first, second) for arm, (first, second) in found.items()}
        timed.append(TimedGroup(len(group), times))
    return tuple(timed)
