"""Pair two sets of samples by item: scores on both sides, and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.inputs import digest_inputs, group_inputs, join_clusters, normalize_id
from gatemark.samples.read_samples import DOC_HASH, Key, SampleSet

LISTED_MAX: Final = 1000
_FEW: Final = 5


class PairedItem(NamedTuple):
    """One input on both sides; a score is None if one of its samples errored or has no number."""

    id: str
    base: float | None
    cand: float | None
    cluster: str | None

    @property
    def delta(self) -> float | None:
        """Candidate minus base, or None unless both have a score."""
        return None if self.base is None or self.cand is None else self.cand - self.base


class SideMean(msgspec.Struct, frozen=True):
    """A side's mean over the items it scored, and over all items with the rest as 0.

    ``over_all`` is null if 0 is not the worst score.
    """

    scored: float | None
    scored_count: int
    over_all: float | None
    item_count: int


class SamplePairing(msgspec.Struct, frozen=True):
    """The paired items, and what could not be paired or scored.

    ``unscored`` and ``unpaired`` name samples; ``different`` names the contents in which paired
    samples differ; ``clusterless`` the items without a cluster, if clusters were requested.
    ``copies`` are the ids of inputs that have an earlier id; ``is_by_input`` says whether they
    count with that one; ``unchecked_copies`` are such ids by what the candidate says alone.
    ``unasked`` are the items without an input in a base where others have one.
    """

    score: str
    items: tuple[PairedItem, ...]
    unscored: tuple[tuple[Key, ...], tuple[Key, ...]]
    unpaired: tuple[tuple[Key, ...], tuple[Key, ...]]
    means: tuple[SideMean, SideMean]
    different: dict[str, tuple[Key, ...]]
    clusterless: tuple[str, ...]
    copies: tuple[str, ...]
    is_by_input: bool
    unchecked_copies: tuple[str, ...]
    unasked: tuple[str, ...]
    epoch_count: int
    lowest: float | None
    highest: float | None

    @property
    def scored_count(self) -> int:
        """The number of items with a score on both sides."""
        return sum(item.delta is not None for item in self.items)

    @property
    def shared_clusters(self) -> int:
        """The number of clusters that hold more than one item with a score on both sides."""
        sizes = Counter(i.cluster for i in self.items if i.cluster and i.delta is not None)
        return sum(size > 1 for size in sizes.values())

    @property
    def is_bounded(self) -> bool:
        """Whether every score is inside [0, 1], so that an error can count as 0."""
        return _is_bounded(self.lowest, self.highest)


def choose_score(base: SampleSet, cand: SampleSet, wanted: str | None) -> str:
    """Return the score to compare: the named one, the only one, or the one both tools show first.

    A file in which every sample errored has no scores, and is not consulted.
    """
    speaking = [side for side in (base, cand) if side.scores or len(side.errors) < len(side.keys)]
    if not speaking:
        raise BadInputError(f"every sample of {base.name} and {cand.name} errored")
    if wanted is not None:
        for side in speaking:
            if wanted not in side.scores:
                raise UsageError(
                    f"{side.name}: has no score {wanted!r} (scores: {score_names(side.scores)})"
                )
        return wanted
    shared = sorted(set.intersection(*(set(side.scores) for side in speaking)))
    if len(shared) == 1:
        return shared[0]
    if not shared:
        names = [f"{side.name} has {score_names(side.scores)}" for side in speaking]
        raise BadInputError(f"the files share no score: {'; '.join(names)}")
    headlines = {side.headline for side in speaking if side.headline is not None}
    if len(headlines) == 1 and headlines <= set(shared):
        return headlines.pop()
    raise UsageError(
        f"both files have several scores; choose one with --score: {score_names(shared)}"
    )


def score_names(names: Iterable[str]) -> str:
    """Return sorted score names for a message; names come from logs and are escaped."""
    return ", ".join(n if n.isprintable() else repr(n) for n in sorted(names)) or "none"


def pair_samples(
    base: SampleSet, cand: SampleSet, score: str, *, clustered: bool, by_input: bool = True
) -> SamplePairing:
    """Pair by id and epoch; all samples of one input count as one, by their mean.

    Without ``by_input`` every id counts, also those of one input.
    """
    shared = sorted(base.keys.keys() & cand.keys.keys())
    copies = _group_ids(base, cand)
    inputs = copies if by_input else {}
    columns = (base.scores.get(score, {}), cand.scores.get(score, {}))
    found: list[tuple[str, list[Key], frozenset[str]]] = []
    clashing: list[str] = []
    is_clustered = bool(base.clusters or cand.clusters)
    epoch_count = 0
    for item, keys in _group_by_input(shared, inputs):
        named: set[str] = set()
        for name, own in _group_by_id(keys):
            epoch_count = max(epoch_count, len(own))
            clusters = _find_clusters(own, base, cand) if is_clustered else frozenset()
            if len(set(map(normalize_id, clusters))) > 1:
                clashing.append(f"{name!r} is in {' and '.join(map(repr, sorted(clusters)))}")
            named.update(clusters)
        found.append((item, keys, frozenset(named)))
    if clashing:
        raise BadInputError(
            f"{len(clashing)} items are in two clusters: {'; '.join(clashing[:_FEW])}"
        )
    cluster_of = join_clusters(clusters for _, _, clusters in found if clusters)
    items = tuple(
        PairedItem(
            item,
            _compute_mean(columns[0], keys),
            _compute_mean(columns[1], keys),
            cluster_of[min(clusters)] if clusters else None,
        )
        for item, keys, clusters in found
    )
    numbers = [score for column in columns for score in column.values()]
    lowest, highest = min(numbers, default=None), max(numbers, default=None)
    bounded = _is_bounded(lowest, highest)
    return SamplePairing(
        score=score,
        items=items,
        unscored=(_find_unscored(base, columns[0]), _find_unscored(cand, columns[1])),
        unpaired=(
            tuple(sorted(base.keys.keys() - cand.keys.keys())),
            tuple(sorted(cand.keys.keys() - base.keys.keys())),
        ),
        means=(
            _average_side(base, columns[0], inputs, bounded=bounded),
            _average_side(cand, columns[1], inputs, bounded=bounded),
        ),
        different={
            name: _find_different(base.contents[name], cand.contents[name], shared)
            for name in (DOC_HASH, "target", "input")
        },
        clusterless=tuple(i.id for i in items if i.cluster is None) if clustered else (),
        copies=tuple(sorted(copies)),
        is_by_input=by_input,
        unchecked_copies=() if base.contents["input"] else tuple(sorted(_find_copies(cand))),
        unasked=_find_unasked(base, found),
        epoch_count=epoch_count,
        lowest=lowest,
        highest=highest,
    )


def name_samples(keys: Iterable[Key]) -> tuple[str, ...]:
    """Return samples as text: the id, and the epoch if it is not the first."""
    return tuple(name if epoch == 1 else f"{name} (epoch {epoch})" for name, epoch in keys)


def _is_bounded(lowest: float | None, highest: float | None) -> bool:
    return lowest is None or highest is None or 0 <= lowest <= highest <= 1


def _group_ids(base: SampleSet, cand: SampleSet) -> dict[str, str]:
    """Map ids to the first id of their input, where that is another one.

    Contents are those of the base: a candidate could say that what it lost and what it won were
    one input.
    """
    return _find_copies(base, [name for name, _ in sorted(cand.keys.keys() - base.keys.keys())])


def _find_copies(side: SampleSet, others: Sequence[str] = ()) -> dict[str, str]:
    """Map ids to the first id of their input, where that is another one.

    An input is what was asked and what was wanted: the same words with another target are another
    question, as in tasks that differ in their files.
    """
    keys = sorted(side.keys)
    asked, wanted = side.contents["input"], side.contents["target"]
    documents = side.contents[DOC_HASH]
    contents = digest_inputs(
        [
            (asked.get(key), {"target": wanted.get(key), DOC_HASH: documents.get(key)})
            for key in keys
        ]
    )
    found = group_inputs(
        [
            *((name, content) for (name, _), content in zip(keys, contents, strict=True)),
            *((name, None) for name in others),
        ]
    )
    return {name: first for name, first in found.items() if first != name}


def _find_unasked(
    base: SampleSet, found: Iterable[tuple[str, Sequence[Key], frozenset[str]]]
) -> tuple[str, ...]:
    """Return items that may be copies: they say nothing of what was asked, and others do."""
    asked = {name for name, _ in base.contents["input"]}
    if not asked:
        return ()
    return tuple(item for item, keys, _ in found if asked.isdisjoint(name for name, _ in keys))


def _group_by_input(
    keys: Sequence[Key], inputs: Mapping[str, str]
) -> Iterator[tuple[str, list[Key]]]:
    """Yield inputs, under their first shared id, with the samples of all their ids."""
    if not inputs:
        yield from _group_by_id(keys)
        return
    groups: dict[str, list[Key]] = {}
    for key in keys:
        groups.setdefault(inputs.get(key[0], key[0]), []).append(key)
    yield from ((own[0][0], own) for own in groups.values())


def _group_by_id(keys: Sequence[Key]) -> Iterator[tuple[str, list[Key]]]:
    """Yield items with their epochs, from sorted keys."""
    if len({key[0] for key in keys}) == len(keys):
        yield from ((key[0], [key]) for key in keys)
        return
    for item, group in groupby(keys, key=lambda key: key[0]):
        yield item, list(group)


def _find_clusters(keys: Iterable[Key], *sides: SampleSet) -> frozenset[str]:
    return frozenset(side.clusters[key] for side in sides for key in keys if key in side.clusters)


def _compute_mean(column: Mapping[Key, float], keys: list[Key]) -> float | None:
    if len(keys) == 1:
        return column.get(keys[0])
    scores = [column[key] for key in keys if key in column]
    return math.fsum(scores) / len(scores) if len(scores) == len(keys) else None


def _find_unscored(side: SampleSet, column: Mapping[Key, float]) -> tuple[Key, ...]:
    return tuple(sorted(key for key in side.keys if key not in column and key not in side.errors))


def _average_side(
    side: SampleSet, column: Mapping[Key, float], inputs: Mapping[str, str], *, bounded: bool
) -> SideMean:
    scored: list[float] = []
    counted: list[float] = []
    for _, keys in _group_by_input(sorted(side.keys), inputs):
        mean = _compute_mean(column, keys)
        if mean is not None:
            scored.append(mean)
            counted.append(mean)
        else:
            counted.append(math.fsum(column.get(key, 0.0) for key in keys) / len(keys))
    return SideMean(
        scored=math.fsum(scored) / len(scored) if scored else None,
        scored_count=len(scored),
        over_all=math.fsum(counted) / len(counted) if bounded and counted else None,
        item_count=len(counted),
    )


def _find_different(
    base: Mapping[Key, int], cand: Mapping[Key, int], shared: Iterable[Key]
) -> tuple[Key, ...]:
    """Return the samples whose contents are known on both sides and differ."""
    if not base or not cand or base == cand:
        return ()
    return tuple(
        key
        for key in shared
        if (before := base.get(key)) is not None
        and (after := cand.get(key)) is not None
        and before != after
    )
