"""What is kept with the result of one exam, so that the exam can be sat again from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from gatemark.core.canonical import canonical_bytes, plain
from gatemark.core.errors import IntegrityError, NewerFormatError
from gatemark.core.formats import FORMAT, is_newer, newer_format
from gatemark.core.stored import convert_stored
from gatemark.evidence.reading_options import ReadingChoices

SITTING_FORMAT: Final = "gatemark.sitting/1"
SITTING: Final = "sitting.json"
"""The name under which a sitting is kept with a result."""


class ExamInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An exam, its options, how its evidence was read, and what each evidence file was to it.

    ``left_out`` counts items that a review was to judge and could not show.
    """

    kind: str
    options: dict[str, Any]
    reading: dict[str, str]
    roles: tuple[str, ...]
    left_out: Annotated[int, msgspec.Meta(ge=0)] = 0


def write_sitting(
    kind: str,
    options: Mapping[str, Any],
    choices: ReadingChoices,
    roles: Sequence[str],
    *,
    left_out: int = 0,
) -> bytes:
    """The same sitting is the same bytes."""
    sitting = ExamInputs(kind, dict(options), choices.checks(), tuple(roles), left_out)
    return canonical_bytes({**plain(sitting), FORMAT: SITTING_FORMAT})


def read_sitting(data: bytes) -> ExamInputs:
    """What ``write_sitting`` wrote, or a word about what else it is."""
    try:
        content = msgspec.json.decode(data, type=dict[str, Any])
        name = content.pop(FORMAT, SITTING_FORMAT)
        if isinstance(name, str) and is_newer(name, SITTING_FORMAT):
            raise NewerFormatError(f"its {SITTING} {newer_format(name)}")
        return convert_stored(content, ExamInputs)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"its {SITTING} is not one: {error}") from error
