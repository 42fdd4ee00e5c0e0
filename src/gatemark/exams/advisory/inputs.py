"""Which inputs the records are about. The input is the unit of evidence, not the record.

An input is named by its fixture set, its fixture id and the hash of its content. The fold keeps
two numbers per record: a hash of set and id, and a hash of the content; zero stands for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from gatemark.exams.advisory.decision import HASH_PATTERN, ContentHash, InputSource
from gatemark.exams.advisory.policy import COMPARABLE, AdvisoryPolicy, CategoryKey, category_of

Pairs = npt.NDArray[np.uint64]
"""Rows of two: what an input is called, and what is in it."""
_NONE: Final = int.from_bytes(xxhash.xxh3_64_digest(b""), "little")
_PLACEHOLDER: Final = "sha256:example"
NAMED_RUNS: Final = 3


class InputGroup(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """Records of one run and lane that are compared alike."""

    run: str
    lane: str
    fixture_set: str | None
    model: str | None
    compared: CategoryKey


GroupItem = tuple[InputGroup, bytes]
"""A group and its distinct rows."""


class PinnedFixture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input that every run must have."""

    input_class: str
    fixture_id: str
    content_hash: Annotated[ContentHash, msgspec.Meta(pattern=HASH_PATTERN)]


class PinnedFixtures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fixtures that every run must have, and no others."""

    fixture_set: str
    fixtures: tuple[PinnedFixture, ...]


def input_pairs(sources: Sequence[InputSource]) -> bytes:
    """Two numbers per record, the same on every machine.

    Joined and hashed as columns: one call per record took three times as long.
    """
    names = [f"{s.fixture_set or ''}\0{s.fixture_id}" if s.fixture_id else "" for s in sources]
    contents = [
        content if (content := s.content_hash) and content != _PLACEHOLDER else "" for s in sources
    ]
    if not "".join(contents).islower():
        contents = [content.lower() for content in contents]
    rows = np.empty((len(sources), 2), dtype=np.uint64)
    for place, texts in enumerate((names, contents)):
        hashed = b"".join(map(xxhash.xxh3_64_digest, map(str.encode, texts)))
        rows[:, place] = np.frombuffer(hashed, dtype="<u8")
    rows[rows == np.uint64(_NONE)] = 0
    return rows.tobytes()


def distinct_pairs(groups: npt.NDArray[np.int64], rows: Pairs) -> list[Pairs]:
    """The distinct rows of every group; groups are numbered from zero without gaps."""
    order = np.lexsort((rows[:, 1], rows[:, 0], groups))
    groups, rows = groups[order], rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (groups[1:] != groups[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    groups, rows = groups[new], rows[new]
    starts = np.flatnonzero(np.diff(groups)) + 1
    return np.split(rows, starts)


class RunInputs(NamedTuple):
    """What a run asked in one lane: equal values mean the same inputs, service and model."""

    pairs: bytes
    fixture_sets: tuple[str, ...]
    models: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many inputs there are."""
        return len(self.pairs) // 16


class LaneInputs(NamedTuple):
    """The inputs of one lane: by run, and how many can be compared."""

    by_run: dict[str, RunInputs]
    comparable: int


def _rows(parts: Iterable[bytes]) -> Pairs:
    """The distinct rows of several groups together."""
    joined = np.frombuffer(b"".join(parts), dtype=np.uint64).reshape(-1, 2)
    if not len(joined):
        return joined
    return distinct_pairs(np.zeros(len(joined), dtype=np.int64), joined)[0]


def lane_inputs(items: Sequence[GroupItem], lane: str, policy: AdvisoryPolicy) -> LaneInputs:
    """Put together what the records of a lane are about."""
    asked = [
        (group, data) for group, data in items if group.lane == lane and group.compared.applicable
    ]
    taxonomy = policy.taxonomy(lane)
    comparable = _rows(
        data for group, data in asked if category_of(group.compared, taxonomy) in COMPARABLE
    )
    named = comparable[comparable.any(axis=1)]
    return LaneInputs(
        by_run={run: _run_inputs(asked, run) for run in sorted({group.run for group, _ in asked})},
        comparable=_count_inputs(named),
    )


def _run_inputs(asked: Sequence[GroupItem], run: str) -> RunInputs:
    mine = [(group, data) for group, data in asked if group.run == run]
    return RunInputs(
        pairs=_rows(data for _, data in mine).tobytes(),
        fixture_sets=tuple(sorted({group.fixture_set or "" for group, _ in mine})),
        models=tuple(sorted({group.model or "" for group, _ in mine})),
    )


def _count_inputs(rows: Pairs) -> int:
    """How many inputs there are, at most: neither new names nor new contents make one two."""
    names, contents = rows[:, 0], rows[:, 1]
    known = np.unique(names[contents != 0])
    by_content = len(np.unique(contents[contents != 0])) + len(
        np.setdiff1d(names[contents == 0], known)
    )
    contents_named = np.unique(contents[names != 0])
    by_name = len(np.unique(names[names != 0])) + len(
        np.setdiff1d(contents[names == 0], contents_named)
    )
    return min(by_content, by_name)


def lane_problems(items: Sequence[GroupItem], lane: str) -> Iterator[str]:
    """How the records of a lane contradict each other about its inputs, over all runs."""
    own = [(group, data) for group, data in items if group.lane == lane]
    asked = [(group, data) for group, data in own if group.compared.applicable]
    rows = _rows(data for _, data in asked)
    both = rows[rows.all(axis=1)]
    names, counts = np.unique(both[:, 0], return_counts=True)
    if changed := int((counts > 1).sum()):
        yield f"{changed} of {len(names)} fixtures have more than one content"
    by_reference: dict[tuple[object, ...], list[bytes]] = {}
    for group, data in asked:
        part = group.compared
        if part.reference_label is not None:
            key = (part.reference_source, part.reference_label, part.reference_severity)
            by_reference.setdefault(key, []).append(data)
    answered = [np.unique(_names(_rows(parts))) for parts in by_reference.values()]
    if answered:
        names, counts = np.unique(np.concatenate(answered), return_counts=True)
        if torn := int((counts > 1).sum()):
            yield f"{torn} of {len(names)} inputs have more than one reference"
    probes = _rows(data for group, data in own if not group.compared.applicable)
    if asked and (hidden := int((probes[:, 0] != 0).sum())):
        yield f"{hidden} fixtures are recorded as health probes"


def _names(rows: Pairs) -> npt.NDArray[np.uint64]:
    """One number per row that has any: its name, or else its content."""
    named = rows[rows.any(axis=1)]
    return np.where(named[:, 0] != 0, named[:, 0], named[:, 1])


def unequal_runs(runs: Mapping[str, RunInputs]) -> str | None:
    """Why runs cannot be compared: they had other inputs, fixture sets or models."""
    first_name, *others = runs
    first = runs[first_name]
    for name in others:
        own = runs[name]
        for what, mine, theirs in (
            ("fixture sets", first.fixture_sets, own.fixture_sets),
            ("models", first.models, own.models),
        ):
            if mine != theirs:
                return f"runs {_shown(first_name)} and {_shown(name)} have other {what}"
        if first.pairs != own.pairs:
            return (
                f"runs {_shown(first_name)} and {_shown(name)} have other inputs "
                f"({first.size} and {own.size})"
            )
    return None


def _shown(run: str) -> str:
    return run or "without an id"


def pinned_rows(pinned: PinnedFixtures, input_class: str) -> Pairs:
    """The rows of the pinned fixtures of one kind of input."""
    sources = [
        InputSource(
            kind="fixture",
            fixture_set=pinned.fixture_set,
            fixture_id=fixture.fixture_id,
            content_hash=fixture.content_hash,
            privacy_class="synthetic",
        )
        for fixture in pinned.fixtures
        if fixture.input_class == input_class
    ]
    return _rows([input_pairs(sources)])


def fixture_differences(
    runs: Mapping[str, RunInputs], pinned: PinnedFixtures, lane: str
) -> tuple[int, tuple[str, ...]]:
    """How many pinned fixtures are missing and how many are not pinned, over all runs."""
    wanted = {row.tobytes() for row in pinned_rows(pinned, lane.partition("/")[0])}
    total, found = 0, []
    for run, own in runs.items():
        given = {own.pairs[start : start + 16] for start in range(0, len(own.pairs), 16)}
        missing, strange = len(wanted - given), len(given - wanted)
        if missing or strange:
            total += missing + strange
            found.append(
                f"run {_shown(run)}: {missing} pinned fixtures are missing, "
                f"{strange} are not pinned"
            )
    more = (f"and {len(found) - NAMED_RUNS} more runs",) if len(found) > NAMED_RUNS else ()
    return total, (*found[:NAMED_RUNS], *more)
