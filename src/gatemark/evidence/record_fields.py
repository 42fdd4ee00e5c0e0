"""What the types of a record say about its texts: what they look like, and which are searched.

A field says both in its annotation, so that a new field is one line of its struct.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import msgspec

FreeText = Literal["code", "note"]
"""A free text is a short code, or a note of several words."""
_LOOKS: Final = "looks"
_FREE: Final = "free"


def text_like(
    pattern: str, looks: str, *, min_length: int | None = None, max_length: int | None = None
) -> msgspec.Meta:
    """Return the annotation of texts that match a pattern; ``looks`` says in words which.

    The pattern is in the JSON Schema and in the rules that ``rules_of_texts`` makes. Checking it in
    the decoder, text by text, would cost a quarter of the reading time.
    """
    return msgspec.Meta(
        min_length=min_length,
        max_length=max_length,
        extra_json_schema={"pattern": pattern},
        extra={_LOOKS: looks},
    )


def searched_as(kind: FreeText) -> msgspec.Meta:
    """Return the annotation of texts that are searched for private content."""
    return msgspec.Meta(extra={_FREE: kind})


class TextField(NamedTuple):
    """A text of a record, or a list of texts, as its type describes it."""

    path: str
    is_list: bool
    pattern: str | None
    looks: str | None
    free: FreeText | None


def list_text_fields(record_type: type[msgspec.Struct]) -> tuple[TextField, ...]:
    """Return the texts of a record whose types say something about them, in the struct's order."""
    return tuple(_walk(msgspec.inspect.type_info(record_type), "", is_list=False))


def _walk(info: msgspec.inspect.Type, path: str, *, is_list: bool) -> Iterator[TextField]:
    match info:
        case msgspec.inspect.StructType():
            for field in info.fields:
                inner = f"{path}.{field.name}" if path else field.name
                yield from _walk(field.type, inner, is_list=is_list)
        case msgspec.inspect.UnionType():
            for part in info.types:
                yield from _walk(part, path, is_list=is_list)
        case msgspec.inspect.VarTupleType():
            yield from _walk(info.item_type, path, is_list=True)
        case msgspec.inspect.Metadata(extra=dict() as extra):
            pattern = (info.extra_json_schema or {}).get("pattern")
            yield TextField(path, is_list, pattern, extra.get(_LOOKS), extra.get(_FREE))
        case _:
            pass
