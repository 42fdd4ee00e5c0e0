"""The interface of an engine: map one function over tasks, in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Engine(Protocol):
    """Runs work somewhere. Results may come back in any order; none may be lost.

    ``work`` and the tasks must be picklable by reference to importable code; results are bytes.
    The first error ends the run and is raised to the caller. Where all work is done by this process
    in turn, ``in_process`` is true, and the caller may do it without the engine.
    """

    in_process: bool

    def run(self, work: Callable[[T], bytes], tasks: Sequence[T]) -> Iterator[bytes]:
        """Yield the result of ``work`` for every task."""
        ...
