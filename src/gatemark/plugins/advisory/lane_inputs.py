"""The inputs of a lane: by run, how many there are, and whether runs had the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from gatemark.core.reason import Reason, ReasonKind
from gatemark.plugins.advisory.category import COMPARABLE, categorize
from gatemark.plugins.advisory.input_rows import (
    InputGroup,
    InputHashes,
    InputPairs,
    InputRows,
    InputTable,
    drop_equal_rows,
    list_pairs,
    select_rows,
    sort_unique,
)
from gatemark.plugins.advisory.policy import AdvisoryPolicy

RUNS_DIFFER: Final = ReasonKind("runs_differ", "runs {one} and {other} have other {what}")
RUNS_DIFFER_IN_INPUTS: Final = ReasonKind(
    "runs_differ_in_inputs",
    "runs {one} and {other} have other inputs ({inputs} and {other_inputs})",
)


class RunInputs(NamedTuple):
    """What a run asked in one lane: equal values mean the same inputs, service and model."""

    pairs: bytes
    fixture_sets: tuple[str, ...]
    models: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of inputs."""
        return len(self.pairs) // 16


class LaneInputs(NamedTuple):
    """The inputs of one lane: by run, and how many are comparable; ``real`` are of a shadow."""

    by_run: dict[str, RunInputs]
    comparable: int
    real: int


class LaneRows(NamedTuple):
    """The rows of one lane, and which of its groups have inputs; probes have none."""

    table: InputTable
    rows: InputRows
    groups: dict[int, InputGroup]

    @classmethod
    def of(cls, table: InputTable, lane: str) -> LaneRows:
        """Return the rows of a lane."""
        groups = {place: group for group, place in table.groups.items() if group.lane == lane}
        whole = cls(table, table.array, groups)
        return whole._replace(rows=whole.select_groups(list(groups)))

    def select(self, holds: Callable[[InputGroup], bool]) -> InputRows:
        """Return the rows of the groups that satisfy ``holds``."""
        return self.select_groups([place for place, group in self.groups.items() if holds(group)])

    def select_groups(self, places: Sequence[int]) -> InputRows:
        """Return the rows of the groups at these places."""
        wanted = np.zeros(len(self.table.groups), dtype=bool)
        wanted[list(places)] = True
        return select_rows(self.rows, wanted[self.rows["group"]])


def derive_lane_inputs(table: InputTable, lane: str, policy: AdvisoryPolicy) -> LaneInputs:
    """Return the inputs of a lane's records.

    Nothing shows which real inputs a shadow left out. They count in the rates, but not towards the
    minimum number of inputs.
    """
    own = LaneRows.of(table, lane)
    taxonomy = policy.taxonomy(lane)
    asked = own.select(lambda group: group.applicable)

    def count(*, is_shadow: bool) -> int:
        pairs = list_pairs(
            own.select(
                lambda group: (
                    group.applicable
                    and group.is_shadow == is_shadow
                    and categorize(group, taxonomy) in COMPARABLE
                )
            )
        )
        return _count_inputs(select_rows(pairs, pairs.any(axis=1)))

    runs = list(table.runs)
    by_run = {runs[place]: found for place, found in _group_by_run(asked, own.groups)}
    return LaneInputs(
        by_run=dict(sorted(by_run.items())),
        comparable=count(is_shadow=False),
        real=count(is_shadow=True),
    )


def _group_by_run(
    asked: InputRows, groups: Mapping[int, InputGroup]
) -> Iterator[tuple[int, RunInputs]]:
    """Yield the index of each run and its inputs; sorted all at once, not run by run."""
    pairs = np.stack((asked["run"], asked["name"], asked["content"]), axis=1)
    pairs = drop_equal_rows(pairs[np.lexsort((pairs[:, 2], pairs[:, 1], pairs[:, 0]))])
    # Many groups differ in what was compared only, and every run has most of them.
    kinds: dict[tuple[str, str], int] = {}
    kind_of = np.zeros(max(groups, default=-1) + 1, dtype=np.uint64)
    for place, group in groups.items():
        kind = (group.fixture_set or "", group.model or "")
        kind_of[place] = kinds.setdefault(kind, len(kinds))
    names = list(kinds)
    used: dict[int, list[tuple[str, str]]] = {}
    cells = (asked["run"].astype(np.uint64) << np.uint64(32)) + kind_of[asked["group"]]
    for cell in sort_unique(cells).tolist():
        used.setdefault(cell >> 32, []).append(names[cell & 0xFFFFFFFF])
    starts = np.flatnonzero(np.diff(pairs[:, 0])) + 1
    for rows in np.split(pairs, starts) if len(pairs) else ():
        run = int(rows[0, 0])
        yield (
            run,
            RunInputs(
                pairs=rows[:, 1:].tobytes(),
                fixture_sets=tuple(sorted({fixture_set for fixture_set, _ in used[run]})),
                models=tuple(sorted({model for _, model in used[run]})),
            ),
        )


def _count_inputs(rows: InputPairs) -> int:
    """Return the maximum number of inputs: a new name or new content alone does not add one."""
    names, contents = rows[:, 0], rows[:, 1]
    return min(_count_by(names, contents), _count_by(contents, names))


def _count_by(first: InputHashes, other: InputHashes) -> int:
    """Return how many numbers there are, with one of the other kind where there is none."""
    has_first = first != 0
    known = sort_unique(other[has_first])
    only_other = np.setdiff1d(sort_unique(other[~has_first]), known, assume_unique=True)
    return len(sort_unique(first[has_first])) + len(only_other)


def explain_unequal_runs(runs: Mapping[str, RunInputs]) -> Reason | None:
    """Return why runs cannot be compared: other inputs, fixture sets or models."""
    first_name, *others = runs
    first = runs[first_name]
    for name in others:
        own = runs[name]
        for what, mine, theirs in (
            ("fixture sets", first.fixture_sets, own.fixture_sets),
            ("models", first.models, own.models),
        ):
            if mine != theirs:
                return RUNS_DIFFER(one=show_run(first_name), other=show_run(name), what=what)
        if first.pairs != own.pairs:
            return RUNS_DIFFER_IN_INPUTS(
                one=show_run(first_name),
                other=show_run(name),
                inputs=first.size,
                other_inputs=own.size,
            )
    return None


def show_run(run: str) -> str:
    """Return the name of a run for a sentence."""
    return run or "without an id"
