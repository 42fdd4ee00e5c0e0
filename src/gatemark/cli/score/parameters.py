"""From what an exam declares to options of the command line."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec
from msgspec import NODEFAULT, Meta

from gatemark.cli.options import FiniteRange
from gatemark.evidence.exam import EvidenceRole

Decorator = Callable[[Any], Any]


class NamedFile(click.ParamType[tuple[str, str]]):
    """A name and a file, as NAME=FILE. Names of other options are refused."""

    name = "NAME=FILE"

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = taken

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, found, path = str(value).partition("=")
        if not (found and name and path):
            self.fail(f"expected NAME=FILE, got {value!r}", param, ctx)
        if name in self._taken:
            self.fail(f"{name} has an option of its own", param, ctx)
        return name, path


def file_parameters(roles: Sequence[EvidenceRole]) -> Iterator[Decorator]:
    """An argument or an option per role."""
    taken = frozenset(role.name for role in roles if not role.named)
    for role in roles:
        if role.positional:
            many = role.many
            yield click.argument(
                role.name,
                nargs=-1 if many else 1,
                required=True,
                metavar="FILE..." if many else "FILE",
            )
        elif role.named:
            yield click.option(
                f"--{role.name}", multiple=True, type=NamedFile(taken), help=role.help
            )
        else:
            yield click.option(f"--{role.name}", multiple=role.many, metavar="FILE", help=role.help)


def files_of(roles: Sequence[EvidenceRole], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every file that was given, with its role or, where it brings one, its own name."""
    files: list[tuple[str, str]] = []
    for role in roles:
        value = given[role.name]
        if role.named:
            names = [name for name, _ in value]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise click.UsageError(f"two {role.name}s are called {twice[0]!r}")
            files.extend(value)
        elif role.many:
            files.extend((role.name, path) for path in value)
        elif value is not None:
            files.append((role.name, value))
    return files


def struct_options(struct: type[msgspec.Struct]) -> Iterator[Decorator]:
    """An option per field that the command line can hold."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        default = None if field.default is NODEFAULT else field.default
        option = _option(field.name, hints[field.name], default)
        if option is not None:
            yield option


def _option(name: str, hint: Any, default: Any) -> Decorator | None:
    hint, meta = _unwrapped(hint)
    extra = dict((meta.extra if meta else None) or {})
    flag = "--" + name.replace("_", "-")
    text = meta.description if meta else None
    if hint is bool:
        spelling = f"{flag}/--no-{name.replace('_', '-')}" if default else flag
        return click.option(spelling, name, is_flag=True, default=default, help=text)
    kind = _click_type(hint, meta, extra)
    if kind is None:
        return None
    return click.option(
        flag,
        name,
        type=kind,
        default=default,
        show_default=default not in (None, ""),
        metavar=extra.get("metavar"),
        help=text,
    )


def _unwrapped(hint: Any) -> tuple[Any, Meta | None]:
    """The type without ``None`` and without annotations, and what they say."""
    meta = None
    while get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        meta = next((note for note in notes if isinstance(note, Meta)), meta)
    if get_origin(hint) in (Union, types.UnionType):
        rest = [one for one in get_args(hint) if one is not type(None)]
        if len(rest) == 1:
            inner, found = _unwrapped(rest[0])
            return inner, found or meta
    return hint, meta


def _click_type(
    hint: Any, meta: Meta | None, extra: Mapping[str, Any]
) -> click.ParamType[Any] | None:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    low = extra.get("low", meta.ge if meta else None)
    high = extra.get("high", meta.le if meta else None)
    is_open = bool(extra.get("is_open"))
    if hint is float:
        hint_text = str(extra.get("hint", ""))
        return FiniteRange(low, high, hint=hint_text, min_open=is_open, max_open=is_open)
    if hint is int:
        return click.IntRange(low, high)
    return click.STRING if hint is str else None
