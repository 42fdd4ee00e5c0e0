"""How the schemas of run-log records write down their forms and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from gatemark.core.record import BadExample, Form, Problem

Example = dict[str, object]


def drop_keys(record: Mapping[str, object], *keys: str) -> Example:
    """Return a record without some of its keys."""
    return {name: value for name, value in record.items() if name not in keys}


def make_bad(
    base: Example, title: str, key: str, value: object = UNSET, path: str | None = None
) -> BadExample:
    """Return a bad example: the base with another value of one key, or without the key."""
    if value is UNSET:
        return BadExample(title, drop_keys(base, key), path or "$")
    return BadExample(title, base | {key: value}, path or f"$.{key}")


def change_record(
    file: tuple[Example, ...], place: int, changes: Mapping[str, object]
) -> tuple[Example, ...]:
    """Return a file in which one record has other values."""
    return (*file[:place], {**file[place], **changes}, *file[place + 1 :])


def make_tagged_form(
    kind: type[Struct],
    rule: Callable[[Any], Sequence[Problem]],
    good: tuple[Example, ...],
    bad_ones: tuple[BadExample, ...],
    *,
    identity: str = "case_id",
    proof: Callable[[Sequence[Any]], bool] | None = None,
) -> Form:
    """Return the form of a record type that is known by its tag."""
    config = kind.__struct_config__
    return Form(
        name=str(config.tag),
        type=kind,
        marks=frozenset({str(config.tag_field)}),
        identity=identity,
        good=good,
        bad=bad_ones,
        rules=(rule,),
        proof=proof,
    )
