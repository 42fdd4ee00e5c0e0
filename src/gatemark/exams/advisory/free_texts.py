"""The free texts of records, which are scanned for private content. The types say which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Final

from gatemark.evidence.columns import Columns
from gatemark.evidence.record_fields import FreeText, TextField, list_text_fields
from gatemark.exams.advisory.record import AdvisoryDecision

FREE_FIELDS: Final = sorted(
    (field for field in list_text_fields(AdvisoryDecision) if field.free),
    key=lambda field: field.is_list,
)
"""Every field with free texts, in the order in which private ones are reported: lists come last."""
_readers: Final = [(field, attrgetter(field.path)) for field in FREE_FIELDS]


def list_free_texts(record: AdvisoryDecision) -> Iterator[tuple[str, str, bool]]:
    """Yield every free text of a record: its field, itself, and whether it is a note."""
    for field, get in _readers:
        found = get(record)
        if not found:
            continue
        for index, text in enumerate(found if field.is_list else (found,)):
            place = f"[{index}]" if field.is_list else ""
            yield f"$.{field.path}{place}", text, field.free == "note"


def collect_texts(columns: Columns, fields: Iterable[TextField], kind: FreeText) -> list[str]:
    """Return the free texts of one kind that a batch has in some fields."""
    found: list[str] = []
    for field in fields:
        if field.free == kind:
            texts = filter(None, columns[field.path])
            found.extend(chain.from_iterable(texts) if field.is_list else texts)
    return found
