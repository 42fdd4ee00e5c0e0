"""Comparing the kept tree with the tree over the events as they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatemark.ledger.checks.findings import MOST_KEPT, TroubleList
from gatemark.ledger.merkle import node_count, node_number


class TreeCheck:
    """Takes the nodes that each event completes, in order, beside the stream of kept ones."""

    def __init__(self, troubles: TroubleList, kept: Iterator[tuple[int, bytes]] | None) -> None:
        self._troubles = troubles
        self._kept = kept
        self._next = None if kept is None else next(kept, None)
        self._different: dict[int, tuple[int, int]] = {}

    def compare(self, leaf_count: int, completed: Sequence[tuple[int, bytes]]) -> None:
        """The nodes that the event of that number completes against those that were kept."""
        if self._kept is None:
            return
        for level, (number, hashed) in enumerate(completed, start=1):
            while self._next is not None and self._next[0] < number:
                self._next = next(self._kept, None)
            if self._next is None or self._next[0] != number:
                message = f"event {leaf_count}: node {number} of the tree is missing"
                self._troubles.add(leaf_count, "tree", message)
                continue
            if self._next[1] != hashed and len(self._different) < MOST_KEPT:
                self._different[number] = (level, (leaf_count >> level) - 1)
            self._next = next(self._kept, None)

    def finish(self, size: int) -> None:
        """Say what the differences mean, now that all of them are known."""
        if self._kept is None:
            return
        for number, (level, index) in self._different.items():
            self._explain(number, level, index, size)
        if self._next is not None:
            message = f"event {size + 1}: missing, but the tree has nodes over more events"
            self._troubles.add(size + 1, "tree", message)

    def _explain(self, number: int, level: int, index: int, size: int) -> None:
        """A node whose parts are as kept was changed itself; else its events were."""
        last = (index + 1) << level
        if level > 1:
            parts = (node_number(level - 1, 2 * index), node_number(level - 1, 2 * index + 1))
            if any(part in self._different for part in parts):
                return
            alone = True
        else:
            above = node_number(level + 1, index >> 1)
            alone = above <= node_count(size) and above not in self._different
        if alone:
            message = f"event {last}: node {number} of the tree was changed"
            self._troubles.add(last, "tree", message)
        else:
            message = f"event {last - 1} or {last}: is not what the tree was built over"
            self._troubles.add(last - 1, "tree", message, until=last)
