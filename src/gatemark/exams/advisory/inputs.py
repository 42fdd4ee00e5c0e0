"""The inputs that records are about. The input is the unit of evidence, not the record.

An input is identified by its fixture set, its fixture id and the hash of its content. The fold
keeps two numbers per record: a hash of set and id, and a hash of the content; zero means none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from gatemark.core.reason import Reason, ReasonKind
from gatemark.evidence.columns import Columns
from gatemark.evidence.inputs import normalize_ids
from gatemark.exams.advisory.category import COMPARABLE, CategoryKey, categorize
from gatemark.exams.advisory.policy import AdvisoryPolicy
from gatemark.exams.advisory.record import HASH_PATTERN, ContentHash

InputPairs = npt.NDArray[np.uint64]
"""Rows of two: what an input is called, and what is in it."""
_NONE: Final = int.from_bytes(xxhash.xxh3_64_digest(b""), "little")
_PLACEHOLDER: Final = "sha256:example"
NAMED_RUNS: Final = 3
RUNS_DIFFER: Final = ReasonKind("runs_differ", "runs {one} and {other} have other {what}")
RUNS_DIFFER_IN_INPUTS: Final = ReasonKind(
    "runs_differ_in_inputs",
    "runs {one} and {other} have other inputs ({inputs} and {other_inputs})",
)
_ROW: Final = np.dtype([("name", "<u8"), ("content", "<u8"), ("group", "<u4"), ("run", "<u4")])
InputRows = npt.NDArray[np.void]
"""Rows of a table: an input, the group of its record, and the run."""
_REPEATED_MAX: Final = 50_000


class InputGroup(CategoryKey, frozen=True, gc=False, array_like=True, cache_hash=True):
    """Records of one lane that are compared the same way; every field is the name of a column.

    ``is_shadow`` marks real inputs, ``is_disguised`` those with a case or an expected decision,
    which only fixtures have.
    """

    lane: str
    fixture_set: str | None
    model: str | None
    is_shadow: bool
    is_disguised: bool


class InputTable(msgspec.Struct):
    """The inputs of records: each about once per run and group.

    ``rows`` refer to ``groups`` and ``runs`` by index. Their first ``distinct`` are known to
    differ. One object per group and run instead of rows took four times the memory with many
    inputs, runs and models.
    """

    groups: dict[InputGroup, int] = {}
    runs: dict[str, int] = {}
    rows: bytearray = msgspec.field(default_factory=bytearray)
    distinct: int = 0

    def __len__(self) -> int:
        return len(self.rows) // _ROW.itemsize

    @property
    def array(self) -> InputRows:
        """Return the rows as columns."""
        return np.frombuffer(bytes(self.rows), dtype=_ROW)

    def add_rows(self, columns: Columns, pairs: InputPairs) -> None:
        """Add the inputs of a batch."""
        keys = list(zip(*(columns[name] for name in _GROUPED_BY), strict=True))
        groups = {key: _number(self.groups, InputGroup(*key)) for key in set(keys)}
        runs = {run: _number(self.runs, run) for run in set(columns["run"])}
        rows = np.empty(len(pairs), dtype=_ROW)
        rows["name"], rows["content"] = pairs[:, 0], pairs[:, 1]
        rows["group"] = [groups[key] for key in keys]
        rows["run"] = [runs[run] for run in columns["run"]]
        self.append(rows)

    def append(self, rows: InputRows) -> None:
        """Add rows; some that are there already may stay repeated for a while."""
        self.rows += rows.tobytes()
        if len(self) > 2 * self.distinct + _REPEATED_MAX:
            self.drop_repeats()

    def drop_repeats(self) -> None:
        """Keep each row once."""
        rows = self.array
        order = np.lexsort((rows["content"], rows["name"], rows["group"], rows["run"]))
        rows = _drop_repeats(rows[order])
        self.rows, self.distinct = bytearray(rows.tobytes()), len(rows)

    def select_runs(self, names: Collection[str]) -> InputTable:
        """Return the rows of some runs."""
        wanted = [place for name, place in self.runs.items() if name in names]
        rows = self.array[np.isin(self.array["run"], wanted)]
        return InputTable(self.groups, self.runs, bytearray(rows.tobytes()))


_GROUPED_BY: Final = InputGroup.__struct_fields__
_N = TypeVar("_N")


def _number(known: dict[_N, int], name: _N) -> int:
    """Return the number of a name; a new one gets the next."""
    return known.setdefault(name, len(known))


def join_tables(tables: Iterable[InputTable]) -> InputTable:
    """Return one table for several."""
    first, *others = tables
    joined = InputTable(dict(first.groups), dict(first.runs), bytearray(first.rows), first.distinct)
    for table in others:
        groups = [_number(joined.groups, group) for group in table.groups]
        runs = [_number(joined.runs, run) for run in table.runs]
        rows = table.array.copy()
        rows["group"] = np.array(groups, dtype=np.uint32)[rows["group"]]
        rows["run"] = np.array(runs, dtype=np.uint32)[rows["run"]]
        joined.append(rows)
    return joined


class PinnedFixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input that every run must have."""

    input_class: str
    fixture_id: str
    content_hash: Annotated[ContentHash, msgspec.Meta(pattern=HASH_PATTERN)]


class PinnedFixtures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fixtures that every run must have, and no others."""

    fixture_set: str
    fixtures: tuple[PinnedFixture, ...]


def hash_inputs(fields: Columns) -> InputPairs:
    """Return two numbers per record, the same on every machine.

    Joined and hashed as columns: one call per record took three times as long.
    """
    sets = normalize_ids([name or "" for name in fields["source.fixture_set"]])
    ids = normalize_ids([name or "" for name in fields["source.fixture_id"]])
    names = [f"{of}\0{name}" if name else "" for of, name in zip(sets, ids, strict=True)]
    contents = normalize_ids(
        [
            content if content and content != _PLACEHOLDER else ""
            for content in fields["source.content_hash"]
        ]
    )
    pairs = np.empty((len(names), 2), dtype=np.uint64)
    for place, texts in enumerate((names, contents)):
        hashed = b"".join(map(xxhash.xxh3_64_digest, map(str.encode, texts)))
        pairs[:, place] = np.frombuffer(hashed, dtype="<u8")
    pairs[pairs == np.uint64(_NONE)] = 0
    return pairs


_Array = TypeVar("_Array", InputRows, InputPairs)
InputHashes = npt.NDArray[np.uint64]


def _select_rows(rows: _Array, chosen: npt.NDArray[np.bool_] | np.bool_) -> _Array:
    """Return some rows; all of them are not copied, because there may be millions."""
    return rows if chosen.all() else rows[chosen]


def _drop_repeats(ordered: _Array) -> _Array:
    """Return each of some ordered rows once."""
    differs = ordered[1:] != ordered[:-1]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = differs.any(axis=1) if differs.ndim > 1 else differs
    return _select_rows(ordered, new)


def _list_pairs(rows: InputRows) -> InputPairs:
    """Return the distinct inputs of some rows, in order."""
    names, contents = rows["name"], rows["content"]
    order = np.lexsort((contents, names))
    return _drop_repeats(np.stack((names[order], contents[order]), axis=1))


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
        return _select_rows(self.rows, wanted[self.rows["group"]])


def derive_lane_inputs(table: InputTable, lane: str, policy: AdvisoryPolicy) -> LaneInputs:
    """Return the inputs of a lane's records.

    Nothing shows which real inputs a shadow left out. They count in the rates, but not towards the
    minimum number of inputs.
    """
    own = LaneRows.of(table, lane)
    taxonomy = policy.taxonomy(lane)
    asked = own.select(lambda group: group.applicable)

    def count(*, is_shadow: bool) -> int:
        pairs = _list_pairs(
            own.select(
                lambda group: (
                    group.applicable
                    and group.is_shadow == is_shadow
                    and categorize(group, taxonomy) in COMPARABLE
                )
            )
        )
        return _count_inputs(_select_rows(pairs, pairs.any(axis=1)))

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
    pairs = _drop_repeats(pairs[np.lexsort((pairs[:, 2], pairs[:, 1], pairs[:, 0]))])
    # Many groups differ in what was compared only, and every run has most of them.
    kinds: dict[tuple[str, str], int] = {}
    kind_of = np.zeros(max(groups, default=-1) + 1, dtype=np.uint64)
    for place, group in groups.items():
        kind = (group.fixture_set or "", group.model or "")
        kind_of[place] = kinds.setdefault(kind, len(kinds))
    names = list(kinds)
    used: dict[int, list[tuple[str, str]]] = {}
    cells = (asked["run"].astype(np.uint64) << np.uint64(32)) + kind_of[asked["group"]]
    for cell in _sort_unique(cells).tolist():
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
    known = _sort_unique(other[has_first])
    only_other = np.setdiff1d(_sort_unique(other[~has_first]), known, assume_unique=True)
    return len(_sort_unique(first[has_first])) + len(only_other)


def _sort_unique(numbers: InputHashes) -> InputHashes:
    """Return each number once, in order; ``np.unique`` hashes, which took six times as long."""
    return _drop_repeats(np.sort(numbers))


def _count_repeated(numbers: InputHashes) -> tuple[int, int]:
    """Return how many different numbers there are, and how many of them come more than once."""
    ordered = np.sort(numbers)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    return len(ordered) - len(again), len(_sort_unique(again))


def find_input_problems(table: InputTable, lane: str) -> Iterator[str]:
    """Yield how the records of a lane contradict each other about its inputs, over all runs."""
    own = LaneRows.of(table, lane)
    asked = own.select(lambda group: group.applicable)
    rows = _list_pairs(asked)
    both = _select_rows(rows, rows.all(axis=1))
    names, changed = _count_repeated(both[:, 0])
    if changed:
        yield f"{changed} of {names} fixtures have more than one content"
    answered = [_sort_unique(_name_rows(rows)) for rows in _group_by_reference(own)]
    if answered:
        names, torn = _count_repeated(np.concatenate(answered))
        if torn:
            yield f"{torn} of {names} inputs have more than one reference"
    yield from _find_disguises(own)
    probes = _list_pairs(own.select(lambda group: not group.applicable))
    if len(asked) and (hidden := int((probes[:, 0] != 0).sum())):
        yield f"{hidden} fixtures are recorded as health probes"


def _find_disguises(own: LaneRows) -> Iterator[str]:
    """Yield contents with several references, and real inputs that are recorded as fixtures."""
    given = [_sort_unique(rows[:, 1]) for rows in _group_by_reference(own, is_signal=False)]
    if given:
        contents = np.concatenate(given)
        _, torn = _count_repeated(contents[contents != 0])
        if torn:
            yield f"{torn} contents have more than one reference"
    disguised = _name_rows(_list_pairs(own.select(lambda group: group.is_disguised)))
    if real := len(_sort_unique(disguised)):
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
        yield _list_pairs(own.select_groups(wanted))


def _name_rows(rows: InputPairs) -> InputHashes:
    """Return one number per row that has any: its name, or else its content."""
    named = _select_rows(rows, rows.any(axis=1))
    return np.where(named[:, 0] != 0, named[:, 0], named[:, 1])


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
                return RUNS_DIFFER(one=_show_run(first_name), other=_show_run(name), what=what)
        if first.pairs != own.pairs:
            return RUNS_DIFFER_IN_INPUTS(
                one=_show_run(first_name),
                other=_show_run(name),
                inputs=first.size,
                other_inputs=own.size,
            )
    return None


def _show_run(run: str) -> str:
    return run or "without an id"


def hash_pinned(pinned: PinnedFixtures, input_class: str) -> set[bytes]:
    """Return the pinned fixtures of one kind of input, as the rows of ``RunInputs`` have them."""
    own = [fixture for fixture in pinned.fixtures if fixture.input_class == input_class]
    pairs = hash_inputs(
        {
            "source.fixture_set": [pinned.fixture_set] * len(own),
            "source.fixture_id": [fixture.fixture_id for fixture in own],
            "source.content_hash": [fixture.content_hash for fixture in own],
        }
    )
    data = pairs.tobytes()
    return {data[start : start + 16] for start in range(0, len(data), 16)}


def compare_with_pinned(
    runs: Mapping[str, RunInputs], pinned: PinnedFixtures, lane: str
) -> tuple[int, tuple[str, ...]]:
    """Return how many pinned fixtures are missing and how many are not pinned, over all runs."""
    wanted = hash_pinned(pinned, lane.partition("/")[0])
    total, found = 0, []
    for run, own in runs.items():
        given = {own.pairs[start : start + 16] for start in range(0, len(own.pairs), 16)}
        missing, strange = len(wanted - given), len(given - wanted)
        if missing or strange:
            total += missing + strange
            found.append(
                f"run {_show_run(run)}: {missing} pinned fixtures are missing, "
                f"{strange} are not pinned"
            )
    more = (f"and {len(found) - NAMED_RUNS} more runs",) if len(found) > NAMED_RUNS else ()
    return total, (*found[:NAMED_RUNS], *more)
