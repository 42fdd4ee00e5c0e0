"""The pattern language: what ``re`` accepts, less what cannot be matched in linear time."""

from __future__ import annotations

import re
import warnings
from typing import Final, Literal, NamedTuple, NoReturn

from gatemark.core.errors import BadInputError
from gatemark.scorers.scorer import truncate

MAX_PATTERN_LENGTH: Final = 1_000
MAX_NESTING: Final = 50

_QUANTIFIER: Final = re.compile(r"[*+?]|\{([0-9]*)(?:(,)([0-9]*))?\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_GROUP_START: Final = re.compile(r"\((?:\?:|\?P<\w+>)?")
_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[abefnrtvdDwWsSAZ]|[^\w])",
    re.DOTALL,
)

AssertionKind = Literal["^", "$", "\\A", "\\Z", "\\b"]


class Empty(NamedTuple):
    """Matches nothing, everywhere."""


class Leaf(NamedTuple):
    """One character, tested by ``re``."""

    source: str


class Assertion(NamedTuple):
    """A condition on a place between characters."""

    kind: AssertionKind


class Sequence(NamedTuple):
    """One after the other."""

    parts: tuple[Node, ...]


class Alternation(NamedTuple):
    """Any of them."""

    branches: tuple[Node, ...]


class Repeat(NamedTuple):
    """The body, at least and at most so often; ``most`` None has no limit."""

    body: Node
    least: int
    most: int | None


Node = Empty | Leaf | Assertion | Sequence | Alternation | Repeat


def parse(pattern: str) -> Node:
    """The tree of a pattern, or a BadInputError that names what is refused."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise BadInputError(
            f"pattern must have at most {MAX_PATTERN_LENGTH} characters, got {len(pattern)}"
        )
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):
            re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        raise BadInputError(f"pattern {truncate(pattern, 60)!r} is not valid: {error}") from error
    return _Parser(pattern).whole()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._nesting = 0

    def whole(self) -> Node:
        node = self._alternation()
        if self._position != len(self._pattern):
            self._refuse("an unbalanced parenthesis")
        return node

    def _alternation(self) -> Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._position += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in {"", "|", ")"}:
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts)) if parts else Empty()

    def _repeated(self, body: Node) -> Node:
        match = _QUANTIFIER.match(self._pattern, self._position)
        # As in re: empty braces are two plain characters.
        if match is None or match.group() == "{}":
            return body
        self._position = match.end()
        if self._peek() == "+":
            self._refuse("a possessive repeat")
        if self._peek() == "?":
            self._position += 1
        least, most = _bounds(match)
        return Repeat(body, least, most)

    def _atom(self) -> Node:
        character = self._peek()
        if character == "(":
            return self._group()
        if character == "[":
            match = _CLASS.match(self._pattern, self._position)
            return Leaf(self._taken(match.end())) if match else self._refuse("an open class")
        if character == "\\":
            return self._escape()
        source = self._taken(self._position + 1)
        if source in {"^", "$"}:
            return Assertion("^" if source == "^" else "$")
        return Leaf(source if source == "." else re.escape(source))

    def _group(self) -> Node:
        match = _GROUP_START.match(self._pattern, self._position)
        end = match.end() if match else self._position
        if self._pattern[end : end + 1] == "?":
            self._refuse(
                "lookaround, inline flags, atomic groups or named backreferences; "
                "use plain groups, and set ignore_case, multiline or dotall as options"
            )
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            self._refuse(f"more than {MAX_NESTING} nested groups")
        self._position = end
        node = self._alternation()
        self._position += 1
        self._nesting -= 1
        return node

    def _escape(self) -> Node:
        match = _ESCAPE.match(self._pattern, self._position)
        if match is None:
            self._refuse("a backreference, an octal escape or \\B")
        source = self._taken(match.end())
        if source in {"\\A", "\\Z", "\\b"}:
            return Assertion("\\A" if source == "\\A" else "\\Z" if source == "\\Z" else "\\b")
        return Leaf(source)

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _taken(self, end: int) -> str:
        start, self._position = self._position, end
        return self._pattern[start:end]

    def _refuse(self, what: str) -> NoReturn:
        raise BadInputError(
            f"pattern {truncate(self._pattern, 60)!r} must do without {what} "
            f"(at character {self._position})"
        )


def _bounds(match: re.Match[str]) -> tuple[int, int | None]:
    match match.group():
        case "*":
            return 0, None
        case "+":
            return 1, None
        case "?":
            return 0, 1
    least, comma, most = match.groups()
    if not comma:
        return int(least), int(least)
    return int(least or 0), int(most) if most else None
