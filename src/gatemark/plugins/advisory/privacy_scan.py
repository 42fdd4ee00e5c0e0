"""The private texts of records: the scan of their free texts. The types say which are free."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from gatemark.evidence.columns import Columns
from gatemark.evidence.private_text import PrivateTextScan
from gatemark.evidence.record_fields import FreeText, list_text_fields
from gatemark.plugins.advisory.record import AdvisoryDecision

FREE_FIELDS: Final = sorted(
    (field for field in list_text_fields(AdvisoryDecision) if field.free),
    key=lambda field: field.is_list,
)
"""Every field with free texts, in the order in which private ones are reported: lists come last."""


class PrivateText(NamedTuple):
    """What is private in a text of a record: its place in the batch, its field; never the text."""

    place: int
    field: str
    kind: str


def find_private_texts(fields: Columns, scan: PrivateTextScan) -> Iterator[PrivateText]:
    """Yield what is private in the free texts of a batch, field by field."""
    private = {
        "code": scan.private(_collect_texts(fields, "code")),
        "note": scan.private(_collect_texts(fields, "note"), note=True),
    }
    for field in FREE_FIELDS:
        if not (wanted := private[field.free or "code"]):
            continue
        for place, found in enumerate(fields[field.path]):
            for index, text in enumerate((found if field.is_list else (found,)) if found else ()):
                if text in wanted:
                    item = f"[{index}]" if field.is_list else ""
                    for kind in scan.kinds(text, note=field.free == "note"):
                        yield PrivateText(place, f"$.{field.path}{item}", kind)


def _collect_texts(fields: Columns, kind: FreeText) -> list[str]:
    """Return the free texts of one kind that a batch has."""
    found: list[str] = []
    for field in FREE_FIELDS:
        if field.free == kind:
            texts = filter(None, fields[field.path])
            found.extend(chain.from_iterable(texts) if field.is_list else texts)
    return found
