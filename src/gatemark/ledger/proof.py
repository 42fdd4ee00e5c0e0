"""Create proofs from a store with few reads, and read and write them as text (C2SP tlog-proof)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.event import EventRow, check_row, encode_row
from gatemark.ledger.merkle import (
    Frontier,
    ReadNode,
    consistency_proof,
    includes,
    inclusion_proof,
    leaf_hash,
    node_number,
    nodes_for,
    peaks_of,
    tree_root,
)
from gatemark.ledger.port import LedgerStore
from gatemark.ledger.signing.note import Checkpoint, Note, read_checkpoint

T = TypeVar("T")
_HEADER: Final = "c2sp.org/tlog-proof@v1"
_INDEX: Final = re.compile(r"index (0|[1-9][0-9]{0,15})\Z")
MOST_HASHES: Final = 64


def root_at(events: LedgerStore, size: int) -> bytes:
    """Return the root over the first ``size`` events, from the stored tree."""
    return _read_tree(events, lambda read: tree_root(size, read))


def root_from_events(events: LedgerStore, earlier: Checkpoint | None) -> tuple[int, bytes]:
    """Return the ledger's size and root, computed from the events after an earlier checkpoint.

    A signature must not depend on stored nodes that nobody verified. They are used only up to the
    checkpoint, and must give its root.
    """
    start = 0 if earlier is None else earlier.size
    peaks = _read_tree(events, lambda read: [read(*place) for place in peaks_of(start)])
    frontier = Frontier(start, peaks)
    if earlier is not None and frontier.root() != earlier.root:
        raise IntegrityError(f"checkpoint {start} is not from the history of this ledger")
    previous = bytes(32)
    if start:
        previous = _read_row(events, start).digest
    for row in events.rows(after=start):
        check_row(row)
        if row.seq != frontier.size + 1 or row.prev != previous:
            raise IntegrityError(f"event {row.seq} does not follow event {frontier.size}")
        frontier.add(leaf_hash(encode_row(row)))
        previous = row.digest
    if frontier.root() != root_at(events, frontier.size):
        raise IntegrityError("the stored tree does not match the events")
    return frontier.size, frontier.root()


def _read_row(events: LedgerStore, seq: int) -> EventRow:
    row = events.rows_at([seq]).get(seq)
    if row is None:
        raise IntegrityError(f"event {seq} is missing from the store")
    return row


def prove_inclusion(events: LedgerStore, seq: int, size: int) -> list[bytes]:
    """Return the proof that an event is among the first ``size``."""
    return _read_tree(events, lambda read: inclusion_proof(seq - 1, size, read))


def prove_consistency(events: LedgerStore, earlier: int, later: int) -> list[bytes]:
    """Return the proof that the later ledger starts with the earlier one."""
    return _read_tree(events, lambda read: consistency_proof(earlier, later, read))


def _read_tree(events: LedgerStore, make: Callable[[ReadNode], T]) -> T:
    """Fetch the nodes that ``make`` reads in two queries, then call it."""
    wanted = nodes_for(make)
    numbers = [node_number(*place) for place in wanted if place[0] > 0]
    kept = events.nodes_at(numbers) if numbers else {}
    leaves = [index + 1 for level, index in wanted if level == 0]
    rows = events.rows_at(leaves) if leaves else {}

    def read(level: int, index: int) -> bytes:
        try:
            if level == 0:
                return leaf_hash(encode_row(rows[index + 1]))
            return kept[node_number(level, index)]
        except KeyError as error:
            raise IntegrityError("the tree over the events lacks nodes") from error

    return make(read)


class InclusionProof(NamedTuple):
    """The position of an event in the tree of a checkpoint, and its audit path."""

    leaf: int
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    note: Note

    def holds_for(self, body: bytes) -> bool:
        """Whether the event with these canonical bytes is at that position."""
        size, root = self.checkpoint.size, self.checkpoint.root
        return includes(leaf_hash(body), self.leaf, size, self.path, root)


def proof_text(index: int, path: list[bytes], checkpoint_note: str) -> str:
    """Return a proof as self-contained text."""
    hashes = "".join(f"{base64.b64encode(one).decode()}\n" for one in path)
    return f"{_HEADER}\nindex {index}\n{hashes}\n{checkpoint_note}"


def read_proof(text: str, place: str = "proof") -> InclusionProof:
    """Read a proof from text; neither the path nor the signatures are verified."""
    head, _, tail = text.partition("\n\n")
    header, *lines = head.split("\n")
    match = _INDEX.match(lines[0]) if lines else None
    if header != _HEADER or match is None or len(lines) > MOST_HASHES:
        raise BadInputError(f"{place}: not a proof (expected {_HEADER})")
    try:
        path = tuple(base64.b64decode(line, validate=True) for line in lines[1:])
    except ValueError as error:
        raise BadInputError(f"{place}: has a hash that is not base64") from error
    if any(len(one) != 32 for one in path):
        raise BadInputError(f"{place}: has a hash that is not 32 bytes long")
    return InclusionProof(int(match[1]), path, *read_checkpoint(tail, place))
