"""How the records of a lane contradict each other about its inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gatemark.plugins.advisory.input_rows import (
    InputHashes,
    InputPairs,
    InputTable,
    list_pairs,
    select_rows,
    sort_unique,
)
from gatemark.plugins.advisory.lane_inputs import LaneRows


def find_input_problems(table: InputTable, lane: str) -> Iterator[str]:
    """Yield how the records of a lane contradict each other about its inputs, over all runs."""
    own = LaneRows.of(table, lane)
    asked = own.select(lambda group: group.applicable)
    rows = list_pairs(asked)
    both = select_rows(rows, rows.all(axis=1))
    names, changed = _count_repeated(both[:, 0])
    if changed:
        yield f"{changed} of {names} fixtures have more than one content"
    answered = [sort_unique(_name_rows(rows)) for rows in _group_by_reference(own)]
    if answered:
        names, torn = _count_repeated(np.concatenate(answered))
        if torn:
            yield f"{torn} of {names} inputs have more than one reference"
    yield from _find_disguises(own)
    probes = list_pairs(own.select(lambda group: not group.applicable))
    if len(asked) and (hidden := int((probes[:, 0] != 0).sum())):
        yield f"{hidden} fixtures are recorded as health probes"


def _find_disguises(own: LaneRows) -> Iterator[str]:
    """Yield contents with several references, and real inputs that are recorded as fixtures."""
    given = [sort_unique(rows[:, 1]) for rows in _group_by_reference(own, is_signal=False)]
    if given:
        contents = np.concatenate(given)
        _, torn = _count_repeated(contents[contents != 0])
        if torn:
            yield f"{torn} contents have more than one reference"
    disguised = _name_rows(list_pairs(own.select(lambda group: group.is_disguised)))
    if real := len(sort_unique(disguised)):
        yield (
            f"{real} inputs of a shadow are recorded like fixtures, with a case or an expected "
            "decision"
        )


def _group_by_reference(own: LaneRows, *, is_signal: bool = True) -> Iterator[InputPairs]:
    """Yield the inputs of each reference, by its source too if signals count."""
    places: dict[tuple[object, ...], list[int]] = {}
    for place, group in own.groups.items():
        if not is_signal and group.reference_source == "atlas_shadow":
            continue
        if group.applicable and group.reference_label is not None:
            source = group.reference_source if is_signal else None
            key = (source, group.reference_label, group.reference_severity)
            places.setdefault(key, []).append(place)
    for wanted in places.values():
        yield list_pairs(own.select_groups(wanted))


def _name_rows(rows: InputPairs) -> InputHashes:
    """Return one number per row that has any: its name, or else its content."""
    named = select_rows(rows, rows.any(axis=1))
    return np.where(named[:, 0] != 0, named[:, 0], named[:, 1])


def _count_repeated(numbers: InputHashes) -> tuple[int, int]:
    """Return how many different numbers there are, and how many of them come more than once."""
    ordered = np.sort(numbers)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    return len(ordered) - len(again), len(sort_unique(again))
