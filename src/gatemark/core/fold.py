"""Every number is a fold: start, step over batches, merge, finish.

``merge`` must be associative and commutative, so that an answer never depends on how the input
was split. States are msgspec structs: they travel between processes as plain bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from gatemark.core.measurement import Measurement

S = TypeVar("S", bound=msgspec.Struct)
K = TypeVar("K")

Batch = Sequence[Any] | Mapping[Any, int]
"""Items one by one or, where they can be counted, each once with its count."""


class KnownAnswer(msgspec.Struct, frozen=True):
    """A worked example that a measure carries: a batch and the values it must give.

    ``None`` as an expected value means that the measure must give a reason instead of a number.
    """

    title: str
    batch: Sequence[object]
    expected: dict[str, float | None]
    tolerance: float = 1e-9


class Measure(msgspec.Struct, Generic[S], frozen=True):
    """A metric plugin: four small functions under a name, with its own known answers.

    ``counted`` says that a batch may also be a mapping from each item to its count.
    """

    name: str
    summary: str
    state: type[S]
    zero: Callable[[], S]
    step: Callable[[S, Batch], S]
    merge: Callable[[S, S], S]
    finish: Callable[[S], tuple[Measurement, ...]]
    known: tuple[KnownAnswer, ...]
    gives: tuple[str, ...]
    counted: bool = False

    def measure(self, batch: Batch) -> tuple[Measurement, ...]:
        """Return the measurements of one batch."""
        return self.finish(self.step(self.zero(), batch))


AnyMeasure = Measure[Any]
"""A measure whose state is its own affair."""


def add_counts(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    """Return the counts of two states together."""
    total = dict(left)
    for key, count in right.items():
        total[key] = total.get(key, 0) + count
    return total
