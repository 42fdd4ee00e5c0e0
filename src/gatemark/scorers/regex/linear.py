"""Regular expressions in time proportional to the text, whatever the pattern.

The standard ``re`` backtracks: ``(a+)+$`` takes years on forty letters, and no limit on lengths
or timer inside the process helps. Here a pattern becomes a set of states, and every character
of the text is read once. What cannot be done this way (backreferences, lookaround, atomic
groups, possessive repeats) is refused by name. Single characters and classes keep the meaning
that ``re`` gives them; the answer is only whether the text matches.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gatemark.core.errors import BadInputError
from gatemark.scorers.regex.syntax import (
    Alternation,
    Assertion,
    AssertionKind,
    Empty,
    Leaf,
    Node,
    Repeat,
    Sequence,
    parse,
)
from gatemark.scorers.scorer import truncate

MAX_STATES: Final = 500
MAX_WORK: Final = 10_000_000
"""States times characters; about three seconds at worst."""
_MEMO_SIZE: Final = 20_000

_ACCEPT: Final = 0

_START: Final = 1
_END: Final = 2
_LINE_START: Final = 4
_LINE_END: Final = 8
_LAST_LINE_END: Final = 16
_WORD_EDGE: Final = 32


class LinearPattern:
    """A compiled pattern. Build it with ``compiled``, which validates and remembers."""

    def __init__(self, pattern: str, flags: re.RegexFlag) -> None:
        self.pattern = pattern
        self._leaf_flags = flags & (re.IGNORECASE | re.DOTALL)
        self._multiline = bool(flags & re.MULTILINE)
        # Parallel lists over states: the test of a character, what the place must be, where next.
        self._leaves: list[re.Pattern[str] | None] = [None]
        self._needed: list[int] = [0]
        self._nexts: list[tuple[int, ...]] = [()]
        self._start = self._add(parse(pattern), _ACCEPT)
        self._has_assertions = any(self._needed)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        return self._run(text, anywhere=True)

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self._run(text, anywhere=False)

    def _new_state(self) -> int:
        if len(self._nexts) >= MAX_STATES:
            raise BadInputError(
                f"pattern must need fewer than {MAX_STATES} states, "
                f"got more: {truncate(self.pattern, 60)}"
            )
        self._leaves.append(None)
        self._needed.append(0)
        self._nexts.append(())
        return len(self._nexts) - 1

    def _add(self, node: Node, after: int) -> int:
        """The state that matches ``node`` and goes on to ``after``."""
        match node:
            case Empty():
                return after
            case Leaf(source):
                state = self._new_state()
                self._leaves[state] = re.compile(source, self._leaf_flags)
                self._nexts[state] = (after,)
                return state
            case Assertion(kind):
                state = self._new_state()
                self._needed[state] = self._place_for(kind)
                self._nexts[state] = (after,)
                return state
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._add(part, after)
                return after
            case Alternation(branches):
                state = self._new_state()
                self._nexts[state] = tuple(self._add(branch, after) for branch in branches)
                return state
            case Repeat(body, least, most):
                return self._add_repeat(body, least, most, after)

    def _add_repeat(self, body: Node, least: int, most: int | None, after: int) -> int:
        if most is None:
            loop = self._new_state()
            self._nexts[loop] = (self._add(body, loop), after)
            state = loop
        else:
            state = after
            for _ in range(most - least):
                skip = self._new_state()
                self._nexts[skip] = (self._add(body, state), after)
                state = skip
        for _ in range(least):
            added = self._add(body, state)
            if added == state:
                # An empty body is the same however often it stands there.
                break
            state = added
        return state

    def _place_for(self, kind: AssertionKind) -> int:
        match kind:
            case "^":
                return _LINE_START if self._multiline else _START
            case "$":
                return _LINE_END if self._multiline else _LAST_LINE_END
            case "\\A":
                return _START
            case "\\Z":
                return _END
            case "\\b":
                return _WORD_EDGE

    def _run(self, text: str, *, anywhere: bool) -> bool:
        if len(text) * len(self._nexts) > MAX_WORK:
            raise BadInputError(
                f"text must have at most {MAX_WORK // len(self._nexts)} characters for the pattern "
                f"{truncate(self.pattern, 60)}, got {len(text)}"
            )
        current = frozenset((self._start,))
        memo: dict[tuple[frozenset[int], int, str], tuple[bool, frozenset[int]]] = {}
        for position in range(len(text) + 1):
            character = text[position : position + 1]
            place = _place(text, position) if self._has_assertions else 0
            key = (current, place, character)
            step = memo.get(key)
            if step is None:
                if len(memo) >= _MEMO_SIZE:
                    memo.clear()
                step = memo[key] = self._step(current, place, character, anywhere=anywhere)
            accepted, current = step
            if accepted and (anywhere or not character):
                return True
        return False

    def _step(
        self, current: frozenset[int], place: int, character: str, *, anywhere: bool
    ) -> tuple[bool, frozenset[int]]:
        """Whether the pattern has matched up to here, and the states after the character."""
        states = self._closure(current, place)
        after: set[int] = {self._start} if anywhere else set()
        for state in states:
            leaf = self._leaves[state]
            if leaf is not None and character and leaf.fullmatch(character):
                after.update(self._nexts[state])
        return _ACCEPT in states, frozenset(after)

    def _closure(self, states: frozenset[int], place: int) -> set[int]:
        """Every state reachable without reading a character."""
        reached = set(states)
        pending = list(states)
        while pending:
            state = pending.pop()
            needed = self._needed[state]
            if self._leaves[state] is not None or (needed and not place & needed):
                continue
            for following in self._nexts[state]:
                if following not in reached:
                    reached.add(following)
                    pending.append(following)
        return reached


def _place(text: str, position: int) -> int:
    """What holds between two characters, as bits."""
    before = text[position - 1] if position else ""
    here = text[position : position + 1]
    bits = 0
    if not before:
        bits |= _START | _LINE_START
    if before == "\n":
        bits |= _LINE_START
    if not here:
        bits |= _END | _LINE_END | _LAST_LINE_END
    if here == "\n":
        bits |= _LINE_END | (_LAST_LINE_END if position == len(text) - 1 else 0)
    if _is_word(before) != _is_word(here):
        bits |= _WORD_EDGE
    return bits


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


@lru_cache(maxsize=256)
def compiled(
    pattern: str, *, ignore_case: bool = False, multiline: bool = False, dotall: bool = False
) -> LinearPattern:
    """The pattern ready to use, or a BadInputError that says what it may not have."""
    flags = re.NOFLAG
    if ignore_case:
        flags |= re.IGNORECASE
    if multiline:
        flags |= re.MULTILINE
    if dotall:
        flags |= re.DOTALL
    return LinearPattern(pattern, flags)
