"""Classify a schema change as major, minor or patch, and compare it with the version number.

A new optional field, or a required one with a default, is minor. A field that is required without a
default, narrowed, removed, renamed or marked differently is major. Descriptions are a patch. A
change of an unknown keyword is major, because its meaning is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from gatemark.core.canonical import canonical_bytes
from gatemark.core.errors import InvalidValueError
from gatemark.release.lifecycle.decisions.release_gates import CLASS_RANK
from gatemark.release.lifecycle.model.nouns import ChangeClass

MAX_DEPTH: Final = 64
MAX_REASONS: Final = 20
_WORDS: Final = frozenset({"title", "description", "examples", "$comment", "$id", "$schema"})
_MARKINGS: Final = frozenset({"marking", "markings", "x-marking", "x-markings"})
_FLOORS: Final = frozenset(
    {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"}
)
_CEILINGS: Final = frozenset(
    {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"}
)
_SEMANTIC: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z"
)


class SchemaDifference(msgspec.Struct, frozen=True):
    """How two schemas differ, most serious reasons first."""

    change: ChangeClass
    reasons: tuple[str, ...]
    is_marking_change: bool


class _Found(msgspec.Struct):
    reasons: list[tuple[ChangeClass, str]] = []
    is_marking_change: bool = False


class _Spot(msgspec.Struct, frozen=True):
    """A location in both schemas, and the list that findings are added to."""

    path: str
    depth: int
    found: _Found

    def at(self, name: str) -> _Spot:
        if self.depth >= MAX_DEPTH:
            raise InvalidValueError(f"{self.path}: must be at most {MAX_DEPTH} levels deep")
        return _Spot(f"{self.path}.{name}", self.depth + 1, self.found)

    def add(self, change: ChangeClass, what: str) -> None:
        self.found.reasons.append((change, f"{self.path}: {what}"))

    def mapping(self, value: object) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            raise InvalidValueError(f"{self.path}: must be an object")
        return value

    def listing(self, value: object) -> list[object]:
        if not isinstance(value, list):
            raise InvalidValueError(f"{self.path}: must be a list")
        return value


def bump(before: str, after: str) -> ChangeClass | None:
    """Return what a step between two version numbers announces, or None if they are not semantic.

    Below 1.0.0 the second number takes the place of the first, and the third that of the second.
    """
    old, new = _SEMANTIC.match(before), _SEMANTIC.match(after)
    if old is None or new is None:
        return None
    then, now = tuple(map(int, old.groups()[:3])), tuple(map(int, new.groups()[:3]))
    if now < then or (now == then and before == after):
        return None
    if now == then:
        return "patch"
    if now[0] > then[0]:
        return "major"
    if now[1] > then[1]:
        return "major" if now[0] == 0 else "minor"
    return "minor" if now[0] == 0 else "patch"


def compare_schemas(before: object, after: object) -> SchemaDifference:
    """Classify every difference between two JSON Schemas."""
    found = _Found()
    _compare(before, after, _Spot("$", 0, found))
    ordered = sorted(found.reasons, key=lambda reason: -CLASS_RANK[reason[0]])
    return SchemaDifference(
        change=ordered[0][0] if ordered else "none",
        reasons=tuple(words for _, words in ordered[:MAX_REASONS]),
        is_marking_change=found.is_marking_change,
    )


def _same(left: object, right: object) -> bool:
    return canonical_bytes(left) == canonical_bytes(right)


def _compare(before: object, after: object, spot: _Spot) -> None:
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        if not _same(before, after):
            # True allows everything, so a change to it widens the schema.
            spot.add("minor" if after is True else "major", "the schema was replaced")
        return
    for key in sorted({*before, *after} - {"properties", "required"}):
        if not (key in before and key in after and _same(before[key], after[key])):
            _keyword(key, before, after, spot.at(key))
    _properties(before, after, spot)


def _keyword(
    key: str, before: Mapping[str, object], after: Mapping[str, object], spot: _Spot
) -> None:
    then, now = before.get(key), after.get(key)
    if key in _MARKINGS:
        spot.found.is_marking_change = True
        spot.add("major", "the marking changed")
    elif key in _WORDS:
        spot.add("patch", "words changed")
    elif key in ("default", "deprecated"):
        spot.add("minor", f"{key} changed")
    elif key in ("$defs", "definitions", "patternProperties"):
        _named(before.get(key, {}), after.get(key, {}), spot)
    elif key in ("items", "additionalProperties", "contains", "propertyNames"):
        # If one of these is missing, everything is allowed.
        _compare(before.get(key, True), after.get(key, True), spot)
    elif key == "type":
        _types(then, now, spot)
    elif key in ("enum", "anyOf", "oneOf"):
        _choices(then, now, spot)
    elif key in _FLOORS or key in _CEILINGS:
        _limits(then, now, spot, is_floor=key in _FLOORS)
    elif key not in after:
        loosened = key in ("pattern", "format", "const", "multipleOf", "uniqueItems")
        spot.add("minor" if loosened else "major", "was removed")
    else:
        spot.add("major", "was added" if key not in before else "changed")


def _named(before: object, after: object, spot: _Spot) -> None:
    then, now = spot.mapping(before), spot.mapping(after)
    for name in sorted({*then, *now}):
        if name not in then:
            spot.at(name).add("minor", "was added")
        elif name not in now:
            spot.at(name).add("major", "was removed")
        else:
            _compare(then[name], now[name], spot.at(name))


def _types(before: object, after: object, spot: _Spot) -> None:
    then, now = _type_set(before), _type_set(after)
    if now is None or (then is not None and then < now):
        spot.add("minor", "became wider")
    else:
        spot.add("major", f"must still allow {_list(then)}, allows {_list(now)}")


def _type_set(value: object) -> set[str] | None:
    if value is None:
        return None
    names = {str(one) for one in (value if isinstance(value, list) else [value])}
    return names | {"integer"} if "number" in names else names


def _list(names: set[str] | None) -> str:
    return "anything" if names is None else ", ".join(sorted(names))


def _choices(before: object, after: object, spot: _Spot) -> None:
    if before is None:
        spot.add("major", "was added")
        return
    if after is None:
        spot.add("minor", "was removed")
        return
    then = {canonical_bytes(choice) for choice in spot.listing(before)}
    now = {canonical_bytes(choice) for choice in spot.listing(after)}
    if then - now:
        spot.add("major", f"lost {len(then - now)} of {len(then)} choices")
    elif now - then:
        spot.add("minor", f"gained {len(now - then)} choices")
    else:
        spot.add("patch", "the order changed")


def _limits(before: object, after: object, spot: _Spot, *, is_floor: bool) -> None:
    if after is None:
        spot.add("minor", "the limit was removed")
    elif before is None:
        spot.add("major", "a limit was added")
    elif not isinstance(before, int | float) or not isinstance(after, int | float):
        raise InvalidValueError(f"{spot.path}: must be a number")
    else:
        is_tighter = after > before if is_floor else after < before
        spot.add("major" if is_tighter else "minor", f"went from {before} to {after}")


def _properties(before: Mapping[str, object], after: Mapping[str, object], spot: _Spot) -> None:
    then = spot.mapping(before.get("properties", {}))
    now = spot.mapping(after.get("properties", {}))
    needed_then = set(map(str, spot.listing(before.get("required", []))))
    needed_now = set(map(str, spot.listing(after.get("required", []))))
    for name in sorted({*then, *now, *needed_then, *needed_now}):
        place = spot.at(name)
        declared = now.get(name)
        has_default = isinstance(declared, Mapping) and "default" in declared
        if name in then and name not in now:
            place.add("major", "was removed")
        elif name in now and name not in then:
            if name in needed_now and not has_default:
                place.add("major", "was added as required, without a default")
            else:
                place.add("minor", "was added")
        else:
            if name in now:
                _compare(then[name], now[name], place)
            if name in needed_now - needed_then:
                place.add("minor" if has_default else "major", "became required")
            elif name in needed_then - needed_now:
                place.add("minor", "is no longer required")
