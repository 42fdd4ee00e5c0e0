"""Options made from the fields of a struct: names, help, limits and defaults stand there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click
import msgspec
from msgspec import NODEFAULT

from gatemark.cli.options import MOMENT, FiniteRange, OptionDecorator, OptionGroup
from gatemark.core.request_fields import (
    Hint,
    RequestField,
    read_request,
    request_fields,
    require_field,
    unwrap_hint,
)

Decorator = Callable[[Any], Any]
S = TypeVar("S", bound=msgspec.Struct)


def struct_options(struct: type[msgspec.Struct]) -> Iterator[Decorator]:
    """Yield an option per field that fits on the command line."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        default = None if field.default is NODEFAULT else field.default
        option = _make_option(field.name, unwrap_hint(hints[field.name]), default)
        if option is not None:
            yield option


def struct_group(struct: type[S], **own: OptionDecorator) -> OptionGroup[S]:
    """Return options for the fields that say what they are for; ``own`` replace some of them."""
    hints = get_type_hints(struct, include_extras=True)
    options: dict[str, OptionDecorator] = {}
    for field in msgspec.structs.fields(struct):
        default = None if field.default is NODEFAULT else field.default
        option = own.get(field.name)
        hint = unwrap_hint(hints[field.name])
        if option is None and hint.description is not None:
            option = _make_option(field.name, hint, default)
        if option is not None:
            options[field.name] = option
    return OptionGroup(struct, **options)


def request_options(
    struct: type[msgspec.Struct], *, without: Sequence[str] = ()
) -> dict[str, OptionDecorator]:
    """Return the option of each field that a request offers, by the name of the field."""
    return {
        field.name: request_option(field)
        for field in request_fields(struct)
        if field.name not in without
    }


def given_group(
    struct: type[msgspec.Struct],
    *,
    without: Sequence[str] = (),
    arguments: Sequence[str] = (),
    **own: OptionDecorator,
) -> OptionGroup[dict[str, object]]:
    """Return options whose values arrive as given, for ``read_request`` to read.

    ``arguments`` are fields that stand without a name, in this order; ``own`` replace some options.
    """
    placed = {name: _request_argument(require_field(struct, name)) for name in arguments}
    options = request_options(struct, without=(*without, *arguments))
    return OptionGroup(partial(_keep_given, struct), **{**placed, **options, **own})


def _keep_given(_: type[msgspec.Struct], /, **given: object) -> dict[str, object]:
    # An option that was not given has the default of its field.
    return {name: value for name, value in given.items() if value is not None}


def read_given(
    struct: type[S],
    given: Mapping[str, object],
    known: Mapping[str, object] = MappingProxyType({}),
    *,
    arguments: Sequence[str] = (),
) -> S:
    """Return a request; a value that it may not hold is refused with its option or argument."""
    flags = {field.name: field.flags for field in request_fields(struct)}

    def place(name: str) -> str:
        if name in arguments:
            return name.upper()
        own = flags.get(name)
        return own[0] if own else "--" + name.replace("_", "-")

    return read_request(struct, given, known, place=place)


def _request_argument(field: RequestField) -> OptionDecorator:
    if field.is_list:
        kind = _request_type(field.entry or field)
        return click.argument(field.name, nargs=-1, type=kind, metavar=field.metavar)
    return click.argument(
        field.name,
        type=_request_type(field),
        metavar=field.metavar,
        required=field.is_required,
    )


def request_option(field: RequestField, **changes: Any) -> OptionDecorator:
    """Return the option of one field of a request; ``changes`` are for ``click.option``."""
    flag = "--" + field.name.replace("_", "-")
    # An option with a name of its own also has the environment variable of that name.
    flags = field.flags or (flag, field.name)
    settings: dict[str, Any] = {"help": field.description, "metavar": field.metavar, **changes}
    if field.kind is bool:
        return click.option(*flags, is_flag=True, **settings)
    if field.is_list or field.is_map:
        settings["help"] = f"{field.description} Repeatable."
        settings["type"] = _request_type(field.entry or field)
        if field.is_map:
            settings |= {"type": click.STRING, "callback": _parse_entries}
        return click.option(*flags, multiple=True, required=field.is_required, **settings)
    settings["type"] = _request_type(field)
    if field.is_required:
        return click.option(*flags, **{"required": True, **settings})
    is_shown = field.default not in (None, "")
    return click.option(*flags, default=field.default, show_default=is_shown, **settings)


def _request_type(field: RequestField) -> click.ParamType[Any]:
    if field.words:
        return click.Choice([*field.words])
    if field.kind is float:
        return FiniteRange(
            field.low, field.high, min_open=field.is_low_open, max_open=field.is_high_open
        )
    if field.kind is int:
        low = None if field.low is None else int(field.low)
        return click.IntRange(low, None if field.high is None else int(field.high))
    return MOMENT if field.kind is datetime else click.STRING


def _parse_entries(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, str] | None:
    """Return entries by name, from texts such as ITEM=LABEL; a name may contain ``=``."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or name in found:
            problem = "is given twice" if name in found else f"expected {param.metavar}"
            raise click.BadParameter(f"{text!r}: {problem}", ctx, param)
        found[name] = value
    return found or None


def _make_option(name: str, hint: Hint, default: object) -> Decorator | None:
    extra, text = hint.extra, hint.description
    flag = "--" + name.replace("_", "-")
    # An option with a name of its own also has the environment variable of that name.
    flags = extra.get("flags") or (flag, name)
    if hint.kind is bool:
        spelling = f"{flag}/--no-{name.replace('_', '-')}" if default else flag
        spellings = extra.get("flags") or (spelling, name)
        return click.option(*spellings, is_flag=True, default=default, help=text)
    if hint.kind == dict[str, float]:
        return click.option(
            flag,
            name,
            multiple=True,
            metavar="NAME=NUMBER",
            callback=_parse_numbers_by_name,
            help=f"{text or ''} Repeatable.".strip(),
        )
    if hint.kind == tuple[str, ...]:
        return click.option(*flags, multiple=True, metavar=extra.get("metavar"), help=text)
    kind = _choose_click_type(hint)
    if kind is None:
        return None
    return click.option(
        *flags,
        type=kind,
        default=default,
        show_default=default not in (None, ""),
        metavar=extra.get("metavar"),
        help=text,
    )


def _parse_numbers_by_name(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, float]:
    """Return numbers by name; raise for a repeated name."""
    found: dict[str, float] = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not (name and equals) or name in found:
            problem = "is given twice" if name in found else "expected NAME=NUMBER"
            raise click.BadParameter(f"{text!r}: {problem}", ctx, param)
        found[name] = FiniteRange().convert(number, param, ctx)
    return found


def _choose_click_type(hint: Hint) -> click.ParamType[object] | None:
    extra: Mapping[str, Any] = hint.extra
    if get_origin(hint.kind) is Literal:
        # Integer literals are versions of rules, which users do not choose.
        words = get_args(hint.kind)
        return click.Choice(words) if all(isinstance(word, str) for word in words) else None
    low = extra.get("low", hint.limits.get("ge"))
    high = extra.get("high", hint.limits.get("le"))
    is_open = bool(extra.get("is_open"))
    if hint.kind is float:
        hint_text = str(extra.get("hint", ""))
        return FiniteRange(low, high, hint=hint_text, min_open=is_open, max_open=is_open)
    if hint.kind is int:
        return click.IntRange(low, high)
    return click.STRING if hint.kind is str else None
