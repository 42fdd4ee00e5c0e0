"""Why a line was refused: every problem in it, each with its path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import msgspec

from gatemark.core.record import Form, Problem
from gatemark.core.text import is_one_line
from gatemark.evidence.json_schema import form_document
from gatemark.evidence.strict_json import parse_strictly, quoted

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_validators: dict[tuple[type[msgspec.Struct], str], Any] = {}


def diagnose(line: bytes, form: Form, *, max_depth: int) -> tuple[Problem, ...]:
    """Return every problem of one line; none for a valid record of the form."""
    value, problems = parse_strictly(line, max_depth=max_depth, show=form.shows_values)
    if value is None and problems:
        return problems
    found = list(problems)
    found.extend(
        document_problems(_get_validator(form), value, show=form.shows_values, looks=form.looks)
    )
    if not found:
        found.extend(_find_type_problems(line, form))
    return tuple(found)


def document_problems(
    validator: Any, value: object, *, show: bool = True, looks: Mapping[str, str] | None = None
) -> Iterator[Problem]:
    """Yield every problem that a JSON Schema validator finds in a value."""
    try:
        for error in validator.iter_errors(value):
            yield from _describe_error(error, show=show, looks=looks or {})
    except ValueError:
        # The validator has a limit of its own, far above ours.
        yield Problem("$", "nested too deeply to be checked")


def record_problems(record: object, form: Form) -> list[Problem]:
    """Return the problems that types cannot express: names of several lines, and broken rules."""
    found = []
    if form.identity:
        name = getattr(record, form.identity)
        if not is_one_line(name):
            seen = f"{quoted(name)} " if form.shows_values else ""
            found.append(Problem(f"$.{form.identity}", f"{seen}has a control character"))
    for rule in form.rules:
        found.extend(rule(record))
    return found


def _find_type_problems(line: bytes, form: Form) -> list[Problem]:
    """Return what the types refuse although JSON Schema allows it, such as 12.0 as an integer."""
    try:
        record = msgspec.json.decode(line, type=form.type)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        return [Problem(path.strip("`") or "$", message)]
    except (msgspec.DecodeError, RecursionError) as error:
        return [Problem("$", str(error))]
    return record_problems(record, form)


def _get_validator(form: Form) -> object:
    key = (form.type, form.identity)
    if key not in _validators:
        _validators[key] = jsonschema_rs.validator_for(form_document(form))
    return _validators[key]


def _describe_error(
    error: Any, base: tuple[str | int, ...] = (), *, show: bool, looks: Mapping[str, str]
) -> Iterator[Problem]:
    """Describe one schema error; for a choice of shapes, describe the likeliest one."""
    path = (*base, *error.instance_path)
    branches = getattr(error.kind, "context", None)
    if branches:
        # The branch that matched deepest before it failed.
        for inner in max(
            branches, key=lambda one: max((len(e.instance_path) for e in one), default=0)
        ):
            yield from _describe_error(
                inner, base if inner.instance_path[: len(path)] else path, show=show, looks=looks
            )
        return
    said = _word_error(error, show=show)
    if error.kind.name == "pattern" and error.kind.pattern in looks:
        wanted = looks[error.kind.pattern]
        said = f"got {quoted(error.instance)}, expected {wanted}" if show else f"must be {wanted}"
    yield Problem(_format_json_path(path), said)


def _word_error(error: Any, *, show: bool) -> str:
    """Describe an error; without ``show``, nothing from the line is repeated."""
    kind = error.kind
    seen = quoted(error.instance) if show else ""
    match kind.name:
        case "required":
            return f"key {quoted(kind.property)} is missing"
        case "additionalProperties":
            names = ", ".join(quoted(name) for name in kind.unexpected)
            return f"unknown key {names}" if show else "has a key that is not allowed"
        case "enum":
            allowed = ", ".join(quoted(option) for option in kind.options)
            return f"got {seen}, allowed: {allowed}" if show else f"must be one of: {allowed}"
        case "type":
            wanted = " or ".join(kind.types) if isinstance(kind.types, list) else kind.types
            return f"got {seen}, expected {wanted}" if show else f"expected {wanted}"
        case "pattern":
            return (
                f"{seen} does not match {kind.pattern}"
                if show
                else f"does not match {kind.pattern}"
            )
        case _ if show:
            return str(error.message)[:200]
        case "minimum":
            return f"must be >= {kind.limit}"
        case "maximum":
            return f"must be <= {kind.limit}"
        case "minLength":
            return f"must have at least {kind.limit} characters"
        case "maxLength":
            return f"must have at most {kind.limit} characters"
        case name:
            return f"breaks the schema's {name}"


def _format_json_path(parts: tuple[str | int, ...]) -> str:
    text = "$"
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}"
        else:
            text += f"[{json.dumps(part)}]"
    return text
