"""The inputs of an exam, stored with its result so that it can be run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from gatemark.core.canonical import canonical_bytes, plain
from gatemark.core.errors import IntegrityError, NewerFormatError
from gatemark.core.stored import FORMAT, convert_stored, is_newer, newer_format

if TYPE_CHECKING:
    from gatemark.evidence.reading_choices import ReadingChoices


EXAM_INPUTS_FORMAT: Final = "gatemark.sitting/1"
EXAM_INPUTS: Final = "sitting.json"
"""The name of the inputs that are stored with a result."""
EXPECTED_IDS: Final = "expected_ids.txt"
"""The name of a list of pinned ids that is stored with a result."""


class ExamInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The inputs of an exam: its options, how evidence was read, and the role of each file.

    ``left_out`` counts pinned items that could not be shown to reviewers.
    """

    kind: str
    options: dict[str, Any]
    reading: dict[str, str]
    roles: tuple[str, ...]
    left_out: Annotated[int, msgspec.Meta(ge=0)] = 0


def write_exam_inputs(
    kind: str,
    options: Mapping[str, object],
    choices: ReadingChoices,
    roles: Sequence[str],
    *,
    left_out: int = 0,
) -> bytes:
    """Return an exam's inputs as bytes; the same inputs give the same bytes."""
    sitting = ExamInputs(kind, dict(options), choices.checks(), tuple(roles), left_out)
    return canonical_bytes({**plain(sitting), FORMAT: EXAM_INPUTS_FORMAT})


def read_exam_inputs(data: bytes) -> ExamInputs:
    """Return the inputs that ``write_exam_inputs`` wrote."""
    try:
        content = msgspec.json.decode(data, type=dict[str, object])
        name = content.pop(FORMAT, EXAM_INPUTS_FORMAT)
        if isinstance(name, str) and is_newer(name, EXAM_INPUTS_FORMAT):
            raise NewerFormatError(f"its {EXAM_INPUTS} {newer_format(name)}")
        return convert_stored(content, ExamInputs)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"its {EXAM_INPUTS} is not valid: {error}") from error
