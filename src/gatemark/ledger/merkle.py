"""The RFC 6962 Merkle tree over the ledger's events: roots, proofs and their verification.

Only complete subtrees are stored, so a stored node never changes. The node at ``level`` and
``index`` covers ``1 << level`` leaves, starting at ``index << level``. Inner nodes are numbered
from 1 in the order in which they become complete, so they can be appended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gatemark.core.errors import InvalidValueError

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

ReadNode = Callable[[int, int], bytes]
"""Returns the hash of the complete subtree at a level and an index."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with two children."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def node_number(level: int, index: int) -> int:
    """Return the number of an inner node."""
    leaves = (index + 1) << level
    return node_count(leaves - 1) + level


def node_count(size: int) -> int:
    """Return the number of complete inner nodes in a tree of that size."""
    return size - size.bit_count()


def peaks_of(size: int) -> list[tuple[int, int]]:
    """Return level and index of the complete subtrees that make up a tree, largest first."""
    found = []
    start = 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            found.append((level, start >> level))
            start += 1 << level
    return found


class Frontier:
    """The right edge of a growing tree: enough to add leaves and compute the root."""

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)

    def add(self, leaf: bytes) -> list[tuple[int, bytes]]:
        """Add a leaf hash; return the number and hash of each inner node it completes."""
        completed: list[tuple[int, bytes]] = []
        current = leaf
        size = self.size
        number = node_count(size)
        while size >> len(completed) & 1:
            current = node_hash(self._peaks.pop(), current)
            number += 1
            completed.append((number, current))
        self._peaks.append(current)
        self.size = size + 1
        return completed

    def root(self) -> bytes:
        """Return the root over all leaves added so far."""
        if not self._peaks:
            return EMPTY_ROOT
        current = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            current = node_hash(peak, current)
        return current


def tree_root(size: int, read: ReadNode) -> bytes:
    """Return the root over the first ``size`` leaves."""
    return EMPTY_ROOT if size == 0 else _hash_range(0, size, read)


def inclusion_proof(index: int, size: int, read: ReadNode) -> list[bytes]:
    """Return the audit path of a leaf in a tree of that size, lowest sibling first."""
    _check_order(0, index, size - 1)
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_hash_range(middle, end, read))
            end = middle
        else:
            path.append(_hash_range(start, middle, read))
            start = middle
    return path[::-1]


def consistency_proof(earlier: int, later: int, read: ReadNode) -> list[bytes]:
    """Return the proof that the later tree starts with the earlier tree."""
    _check_order(1, earlier, later)
    path: list[bytes] = []
    start, end, known = 0, later, True
    while earlier < end:
        middle = start + _split(end - start)
        if earlier <= middle:
            path.append(_hash_range(middle, end, read))
            end = middle
        else:
            path.append(_hash_range(start, middle, read))
            start, known = middle, False
    if not known:
        path.append(_hash_range(start, end, read))
    return path[::-1]


def includes(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether an audit path leads from a leaf hash to a root."""
    if not 0 <= index < size:
        return False
    place, last = index, size - 1
    current = leaf
    for sibling in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            current = node_hash(sibling, current)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            current = node_hash(current, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and current == root


def is_consistent(
    sizes: tuple[int, int], roots: tuple[bytes, bytes], path: Sequence[bytes]
) -> bool:
    """Whether a proof shows that the second tree starts with the first."""
    earlier, later = sizes
    if not 0 < earlier <= later:
        return False
    if earlier == later:
        return not path and roots[0] == roots[1]
    steps = list(path) if earlier & (earlier - 1) else [roots[0], *path]
    if not steps:
        return False
    place, last = earlier - 1, later - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = steps[0]
    for sibling in steps[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and (old, new) == roots


def nodes_for(make: Callable[[ReadNode], object]) -> list[tuple[int, int]]:
    """Return the nodes that a proof reads, so that a store can fetch them in one query."""
    wanted: list[tuple[int, int]] = []

    def note(level: int, index: int) -> bytes:
        wanted.append((level, index))
        return b""

    make(note)
    return wanted


def _split(count: int) -> int:
    """Return the largest power of two below ``count``."""
    return 1 << ((count - 1).bit_length() - 1)


def _hash_range(start: int, end: int, read: ReadNode) -> bytes:
    count = end - start
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return read(level, start >> level)
    middle = start + _split(count)
    return node_hash(_hash_range(start, middle, read), _hash_range(middle, end, read))


def _check_order(*numbers: int) -> None:
    if list(numbers) != sorted(numbers):
        raise InvalidValueError(f"sizes must be non-decreasing, got {numbers}")
