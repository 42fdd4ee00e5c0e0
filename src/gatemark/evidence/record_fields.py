"""What the types of a record say about its texts: what they look like, and which are searched.

A field says both in its annotation, so that a new field is one line of its struct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

import msgspec

FreeText = Literal["code", "note"]
"""A free text is a short code, or a note of several words."""
_LOOKS: Final = "looks"
_CHECK: Final = "check"
_FREE: Final = "free"
_YEAR: Final = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_BY_FOUR: Final = "(?:0[48]|[2468][048]|[13579][26])"
DATE: Final = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    rf"|(?:[0-9]{{2}}{_BY_FOUR}|{_BY_FOUR}00)-02-29)"
)
"""The pattern of a day of the calendar; the last line has those of leap years."""


def text_like(
    pattern: str,
    looks: str,
    *,
    check_all: Callable[[Sequence[str]], bool] | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    **more: object,
) -> msgspec.Meta:
    """Return the annotation of texts that match a pattern; ``looks`` says in words which.

    ``check_all`` is a faster check of many texts; ``more`` goes into their JSON Schema.

    The pattern is in the JSON Schema and in the rules that ``rules_of_texts`` makes. Checking it in
    the decoder, text by text, would cost a quarter of the reading time.
    """
    return msgspec.Meta(
        min_length=min_length,
        max_length=max_length,
        extra_json_schema={"pattern": pattern, **more},
        extra={_LOOKS: looks, _CHECK: check_all},
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
    check_all: Callable[[Sequence[str]], bool] | None


@cache
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
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            yield from _walk(info.item_type, path, is_list=True)
        case msgspec.inspect.Metadata(extra=dict() as extra):
            pattern = (info.extra_json_schema or {}).get("pattern")
            yield TextField(
                path, is_list, pattern, extra.get(_LOOKS), extra.get(_FREE), extra.get(_CHECK)
            )
        case _:
            pass
