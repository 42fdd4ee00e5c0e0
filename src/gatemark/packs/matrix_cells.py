"""The candidates of a matrix: every combination of its axes, each with the resulting target."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import msgspec


class Cell(msgspec.Struct, frozen=True):
    """One candidate of a matrix: a value of every axis, and the resulting target."""

    values: dict[str, str]
    target: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the candidate, such as ``short/small``."""
        return "/".join(self.values.values())


def list_cells(
    matrix: Mapping[str, Mapping[str, Mapping[str, Any]]], candidate: Mapping[str, Any]
) -> tuple[Cell, ...]:
    """Return every combination of the axes, with its changes to the candidate."""
    found = []
    for names in product(*matrix.values()):
        target: Any = candidate
        values = dict(zip(matrix, names, strict=True))
        for axis, name in values.items():
            target = _merge(target, matrix[axis][name])
        found.append(Cell(values, target))
    return tuple(found)


def _merge(base: Any, changes: Any) -> Any:
    """Return a mapping with changes merged key by key; null removes a key."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    left = {key: value for key, value in base.items() if changes.get(key, value) is not None}
    added = {key: _merge(base.get(key), value) for key, value in changes.items()}
    return {**left, **{key: value for key, value in added.items() if value is not None}}
