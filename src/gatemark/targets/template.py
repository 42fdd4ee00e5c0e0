"""Templates for request bodies: placeholders such as ``{{input}}``, filled in by structure.

A string that is only a placeholder becomes the value itself, of whatever type; inside longer text,
strings are inserted as they are and other values as JSON. Filled-in text is never parsed again, so
an input that contains ``{{sample.target}}`` stays those characters.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.targets.paths import Path, follow, parse_path
from gatemark.targets.port import Call, CallPart, TargetError

_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z_][^{}\s]*)\s*\}\}")
_PARTS: Final[tuple[CallPart, ...]] = ("input", "sample", "variables")
_ROOTS: Final = ("id", "epoch", *_PARTS)
_TEXTS: Final = frozenset({"prompt", "system", "messages"})


class _Slot(msgspec.Struct, frozen=True):
    text: str
    path: Path


class _Mixed(msgspec.Struct, frozen=True):
    pieces: tuple[str | _Slot, ...]


class Template:
    """A JSON value with placeholders, checked on creation and filled in once per call."""

    def __init__(self, source: object, *, name: str) -> None:
        self.name = name
        self._slots: list[_Slot] = []
        self._compiled = self._compile(source)
        self.reads: frozenset[CallPart] = frozenset(
            part for part in _PARTS if any(slot.path[0] == part for slot in self._slots)
        )

    @property
    def paths(self) -> tuple[Path, ...]:
        """The path of each placeholder."""
        return tuple(slot.path for slot in self._slots)

    def render(self, call: Call) -> object:
        """Return the value for one call; raise an error for a placeholder without a value."""
        roots = {
            "id": call.id,
            "epoch": call.epoch,
            "input": call.input,
            "sample": call.sample,
            "variables": call.variables,
        }
        return self._fill(self._compiled, roots)

    def _compile(self, source: object) -> object:
        if isinstance(source, str):
            return self._compile_text(source)
        if isinstance(source, list):
            return [self._compile(item) for item in source]
        if isinstance(source, dict):
            for key in source:
                if not isinstance(key, str) or _PLACEHOLDER.search(key):
                    raise InvalidValueError(
                        f"{self.name}: a key must be plain text without placeholders, got {key!r}"
                    )
            return {key: self._compile(item) for key, item in source.items()}
        return source

    def _compile_text(self, source: str) -> str | _Slot | _Mixed:
        pieces: list[str | _Slot] = []
        end = 0
        for match in _PLACEHOLDER.finditer(source):
            if match.start() > end:
                pieces.append(source[end : match.start()])
            pieces.append(self._parse_slot(match.group(1)))
            end = match.end()
        if end < len(source):
            pieces.append(source[end:])
        if len(pieces) == 1:
            return pieces[0]
        return _Mixed(tuple(pieces)) if pieces else ""

    def _parse_slot(self, text: str) -> _Slot:
        path = parse_path(text)
        if path[0] not in _ROOTS:
            hint = f"; add {text} or {text}_file beside the body" if text in _TEXTS else ""
            known = ", ".join(_ROOTS)
            raise InvalidValueError(
                f"{self.name}: unknown placeholder {{{{{text}}}}} (known: {known}){hint}"
            )
        slot = _Slot(text, path)
        self._slots.append(slot)
        return slot

    def _fill(self, node: object, roots: dict[str, object]) -> object:
        if isinstance(node, _Slot):
            return self._look_up(node, roots)
        if isinstance(node, _Mixed):
            return "".join(
                piece if isinstance(piece, str) else spell_value(self._look_up(piece, roots))
                for piece in node.pieces
            )
        if isinstance(node, list):
            return [self._fill(item, roots) for item in node]
        if isinstance(node, dict):
            return {key: self._fill(item, roots) for key, item in node.items()}
        return node

    def _look_up(self, slot: _Slot, roots: dict[str, object]) -> object:
        found, value = follow(roots, slot.path)
        if not found:
            raise TargetError(
                "refused",
                f"{self.name} needs {slot.text}, which id {roots['id']!r} does not have",
            )
        return value


def spell_value(value: object) -> str:
    """Return a value inside text: strings unchanged, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
