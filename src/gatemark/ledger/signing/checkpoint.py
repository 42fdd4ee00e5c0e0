"""Checkpoints (C2SP tlog-checkpoint): how far the ledger went, and the root of its tree there."""

from __future__ import annotations

import base64
import re
from typing import Final, NamedTuple

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError
from gatemark.ledger.event import Event
from gatemark.ledger.signing.note import Note, SigningKey, read_note, sign_note

ORIGIN_PREFIX: Final = "gatemark/ledger/"
_SIZE: Final = re.compile(r"(?:0|[1-9][0-9]{0,15})\Z")


class Checkpoint(NamedTuple):
    """What a ledger says of itself: who it is, its size, its root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    def signed(self, key: SigningKey) -> str:
        """The checkpoint as a signed note."""
        return sign_note(self.text, key)


def origin_of(first: Event) -> str:
    """The name of a ledger: no two share their first event, since its payload is salted."""
    return ORIGIN_PREFIX + first.digest.removeprefix(DIGEST_PREFIX)[:32]


def read_checkpoint(text: str, place: str = "checkpoint") -> tuple[Checkpoint, Note]:
    """A checkpoint and the note it stands in, its signatures not checked yet."""
    note = read_note(text, place)
    lines = note.text.split("\n")
    if len(lines) < 4 or not lines[0] or "" in lines[:-1] or not _SIZE.match(lines[1]):
        raise BadInputError(f"{place}: is no checkpoint (origin, size, root)")
    try:
        root = base64.b64decode(lines[2], validate=True)
    except ValueError as error:
        raise BadInputError(f"{place}: is no checkpoint: its root is not base64") from error
    if len(root) != 32:
        raise BadInputError(f"{place}: is no checkpoint: its root has {len(root)} bytes")
    return Checkpoint(lines[0], int(lines[1]), root), note
