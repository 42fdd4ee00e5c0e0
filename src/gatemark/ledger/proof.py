"""Proofs from a store in few reads, and their written form (C2SP tlog-proof)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.chain import row_bytes
from gatemark.ledger.checkpoint import Checkpoint, read_checkpoint
from gatemark.ledger.merkle import (
    ReadNode,
    consistency_proof,
    includes,
    inclusion_proof,
    leaf_hash,
    node_number,
    nodes_for,
    tree_root,
)
from gatemark.ledger.note import Note
from gatemark.ledger.port import LedgerStore

T = TypeVar("T")
_HEADER: Final = "c2sp.org/tlog-proof@v1"
_INDEX: Final = re.compile(r"index (0|[1-9][0-9]{0,15})\Z")
MOST_HASHES: Final = 64


def root_at(events: LedgerStore, size: int) -> bytes:
    """The root over the first events, from the kept tree."""
    return _from_tree(events, lambda read: tree_root(size, read))


def prove_inclusion(events: LedgerStore, seq: int, size: int) -> list[bytes]:
    """What shows that an event is among the first ``size``."""
    return _from_tree(events, lambda read: inclusion_proof(seq - 1, size, read))


def prove_consistency(events: LedgerStore, earlier: int, later: int) -> list[bytes]:
    """What shows that the ledger of the later size began as the one of the earlier size."""
    return _from_tree(events, lambda read: consistency_proof(earlier, later, read))


def _from_tree(events: LedgerStore, make: Callable[[ReadNode], T]) -> T:
    """Find out which nodes are needed, fetch them in two questions, and make it."""
    wanted = nodes_for(make)
    numbers = [node_number(*place) for place in wanted if place[0] > 0]
    kept = events.nodes_at(numbers) if numbers else {}
    leaves = [index + 1 for level, index in wanted if level == 0]
    rows = events.rows_at(leaves) if leaves else {}

    def read(level: int, index: int) -> bytes:
        try:
            if level == 0:
                return leaf_hash(row_bytes(rows[index + 1]))
            return kept[node_number(level, index)]
        except KeyError as error:
            raise IntegrityError("the tree over the events lacks nodes") from error

    return make(read)


class InclusionProof(NamedTuple):
    """Where an event stands in the tree of a checkpoint, and the way up to its root."""

    leaf: int
    path: tuple[bytes, ...]
    checkpoint: Checkpoint
    note: Note

    def holds_for(self, body: bytes) -> bool:
        """Whether these canonical bytes of an event are the ones at that place."""
        size, root = self.checkpoint.size, self.checkpoint.root
        return includes(leaf_hash(body), self.leaf, size, self.path, root)


def proof_text(index: int, path: list[bytes], checkpoint_note: str) -> str:
    """A proof as text, whole in itself."""
    hashes = "".join(f"{base64.b64encode(one).decode()}\n" for one in path)
    return f"{_HEADER}\nindex {index}\n{hashes}\n{checkpoint_note}"


def read_proof(text: str, place: str = "proof") -> InclusionProof:
    """A proof from its text; neither its way nor its signatures are checked yet."""
    head, _, tail = text.partition("\n\n")
    header, *lines = head.split("\n")
    match = _INDEX.match(lines[0]) if lines else None
    if header != _HEADER or match is None or len(lines) > MOST_HASHES:
        raise BadInputError(f"{place}: is no proof of the form {_HEADER}")
    try:
        path = tuple(base64.b64decode(line, validate=True) for line in lines[1:])
    except binascii.Error as error:
        raise BadInputError(f"{place}: has a hash that is not base64") from error
    if any(len(one) != 32 for one in path):
        raise BadInputError(f"{place}: has a hash that is not 32 bytes long")
    return InclusionProof(int(match[1]), path, *read_checkpoint(tail, place))
