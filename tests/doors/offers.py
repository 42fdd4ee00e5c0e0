"""What each door offers for an act, read from outside: its command, its OpenAPI, its form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any, NamedTuple

import click

from gatemark.cli.main import gatemark as root

NO_DEFAULT: tuple[object, ...] = (None, "", (), [], {}, False)
"""What stands for nothing at one door or another."""


class Offer(NamedTuple):
    """One field of an act at one door."""

    is_required: bool
    default: object = None
    words: frozenset[str] = frozenset()
    low: float | None = None
    high: float | None = None
    max_length: int | None = None
    is_fixed: bool = False
    """Whether the form was made for this value."""


Offers = dict[str, Offer]


def _number(text: object) -> float | None:
    return None if text is None else float(str(text))


def _default(value: object) -> object:
    return None if value in NO_DEFAULT else value


def command_at(path: str) -> click.Command:
    """The command that is called by these words."""
    found: click.Command = root
    for word in path.split():
        assert isinstance(found, click.Group)
        child = found.get_command(click.Context(found), word)
        assert child is not None, path
        found = child
    return found


def command_paths(command: click.Command = root, *words: str) -> Iterator[str]:
    """The words of every command."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    context = click.Context(command)
    for word in command.list_commands(context):
        child = command.get_command(context, word)
        assert child is not None
        yield from command_paths(child, *words, word)


def command_offers(path: str, names: Mapping[str, str]) -> Offers:
    """The options and arguments of a command, by the name of their field."""
    offers: Offers = {}
    for option in command_at(path).params:
        kind = option.type
        words = kind.choices if isinstance(kind, click.Choice) else ()
        low, high = getattr(kind, "min", None), getattr(kind, "max", None)
        offers[names.get(str(option.name), str(option.name))] = Offer(
            is_required=option.required,
            default=None if option.required else _default(option.to_info_dict()["default"]),
            words=frozenset(map(str, words)),
            low=low,
            high=high,
            max_length=getattr(kind, "max_length", None),
        )
    return offers


def body_offers(document: Mapping[str, Any], method: str, path: str) -> Offers:
    """The fields of the body that the OpenAPI document describes for a route."""
    operation = document["paths"][f"/api/v1{path}"][method.lower()]
    if "requestBody" not in operation:
        return {}
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    schema = _follow(document, schema)
    assert schema["additionalProperties"] is False, path
    required = set(schema.get("required", ()))
    return {
        name: _schema_offer(_follow(document, one), is_required=name in required)
        for name, one in schema["properties"].items()
    }


def _follow(document: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _schema_offer(schema: dict[str, Any], *, is_required: bool) -> Offer:
    parts = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    (plain,) = parts
    if plain.get("type") == "array" and "enum" in plain["items"]:
        plain = {"enum": plain["items"]["enum"]}
    if isinstance(plain.get("additionalProperties"), dict) and "enum" in (
        of := plain["additionalProperties"]
    ):
        plain = {"enum": of["enum"]}
    merged = {**schema, **plain}
    words = [merged["const"]] if "const" in merged else merged.get("enum") or ()
    return Offer(
        is_required=is_required,
        default=_default(merged.get("default")),
        words=frozenset(word for word in words if word is not None),
        low=_number(merged.get("minimum", merged.get("exclusiveMinimum"))),
        high=_number(merged.get("maximum", merged.get("exclusiveMaximum"))),
        max_length=merged.get("maxLength"),
    )


class Forms(HTMLParser):
    """The forms of a page, by their address."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: dict[str, Offers] = {}
        self._form: Offers = {}
        self._select: tuple[str, bool] | None = None
        self._words: list[str] = []
        self._option: dict[str, str | None] | None = None
        self._chosen: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "form":
            self._form = self.forms.setdefault(str(given.get("action")), {})
        elif tag == "select":
            self._select, self._words, self._chosen = (name, "required" in given), [], None
        elif tag == "option":
            self._option = given
        elif tag == "button" and name:
            self._add_word(name, given)
        elif tag in ("input", "textarea") and name:
            self._take_input(name, given)

    def _add_word(self, name: str, given: dict[str, str | None]) -> None:
        """One of the values that a field may have, or of those that a list or a map may hold."""
        name = name.partition(":")[0]
        before = self._form.get(name)
        words = (before.words if before else frozenset()) | {str(given["value"])}
        is_required = "required" in given or (before is not None and before.is_required)
        self._form[name] = Offer(is_required, words=words)

    def _take_input(self, name: str, given: dict[str, str | None]) -> None:
        kind = given.get("type", "text")
        if kind == "radio" or (kind == "checkbox" and given["value"] != "yes"):
            self._add_word(name, given)
            return
        length = given.get("maxlength")
        is_chosen = kind in ("checkbox", "hidden")
        offer = Offer(
            "required" in given,
            default=None if is_chosen else self._read_default(kind, given.get("value")),
            low=_number(given.get("min")),
            high=_number(given.get("max")),
            max_length=None if length is None else int(length),
            is_fixed=is_chosen,
        )
        # The first form with this address counts: others are made for fewer cases.
        self._form.setdefault(name, offer)

    @staticmethod
    def _read_default(kind: str | None, text: str | None) -> object:
        return _number(text) if kind == "number" else _default(text)

    def handle_data(self, data: str) -> None:
        if self._option is not None:
            word = self._option.get("value")
            word = data.strip() if word is None else word
            self._words.append(word)
            if "selected" in self._option:
                self._chosen = word
            self._option = None

    def handle_endtag(self, tag: str) -> None:
        if tag == "select" and self._select is not None:
            name, is_required = self._select[0].partition(":")[0], self._select[1]
            words = frozenset(word for word in self._words if word)
            offer = Offer(is_required, default=_default(self._chosen), words=words)
            self._form.setdefault(name, offer)
            self._select = None
        elif tag == "form":
            self._form = {}
