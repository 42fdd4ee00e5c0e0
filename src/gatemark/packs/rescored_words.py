"""Compare the figures and caveats of a result with those that its evidence gives.

Both are for people, and a later build may word them in another way. So it is compared what they
say, not how: the numbers of every figure and caveat, and the words in cells that are no sentences.
A result may say more than its evidence gives, such as who chose a baseline, but never less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from gatemark.core.measurement import Measurement
from gatemark.core.reason import Reason
from gatemark.core.result import Figure, Result
from gatemark.ledger.port import erasure_of
from gatemark.packs.judge import JudgedAgain, PackDecision

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
Leaf = float | str | tuple[str, ...] | None


def list_other_words(result: Result, derived: PackDecision, tolerance: float) -> Iterator[str]:
    """Yield which figures and caveats of a result its evidence does not give."""
    if erasure_of(result) is not None:
        return
    for number, (old, new) in enumerate(zip_longest(result.figures, derived.figures), 1):
        if old is None or new is None or not _says_the_same(old, new, tolerance):
            title = (old or new).title
            yield f"its figure {number} ({title}) is not what its evidence gives"
    said = Counter(map(_find_numbers, result.caveats))
    for caveat in derived.verdict.caveats:
        numbers = _find_numbers(caveat)
        if not said[numbers]:
            yield f"it lacks a caveat that its evidence gives: {caveat}"
        said[numbers] -= 1


def list_other_sentences(
    result: Result, derived: JudgedAgain, has_same_numbers: bool
) -> Iterator[str]:
    """Yield which sentences of a result this build would not have written.

    Only for a result of this very build: another may have worded them in another way. The numbers
    in them count only if the same libraries computed them.
    """
    if erasure_of(result) is not None:
        return

    def is_same(one: str, other: str) -> bool:
        if has_same_numbers:
            return one == other
        return _NUMBER.sub("#", one) == _NUMBER.sub("#", other)

    def differ(said: Sequence[str], written: Sequence[str]) -> bool:
        return len(said) != len(written) or not all(map(is_same, said, written))

    judged = derived.judged
    if derived.title is not None and not is_same(result.title, derived.title):
        yield f"its title is {result.title!r}, its evidence gives {derived.title!r}"
    if differ(result.blockers, judged.verdict.blockers):
        yield "its blockers are not those that its evidence gives"
    if differ(result.caveats, (*judged.verdict.caveats, *derived.caveats)):
        yield "its caveats are not those that its evidence gives"
    numbers = {number.key: number for number in judged.measurements}
    for number in result.measurements:
        if number.key in numbers and differ(number.caveats, numbers[number.key].caveats):
            yield f"{number.name} has other caveats than its evidence gives"
    said, written = dict(_list_reasons(result)), dict(_list_reasons(judged))
    for place, sentences in said.items():
        if place in written and differ(sentences, written[place]):
            yield f"{place} is worded {sentences[0]!r}, which its evidence does not give"


def _list_reasons(part: Result | PackDecision) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the place of each reason, and the sentences of it and of what is behind it."""
    verdict = part.verdict if isinstance(part, PackDecision) else part
    found: list[tuple[str, Reason | None]] = [
        *((f"the reason of rule {one.rule}", one.reason) for one in verdict.findings),
        *((f"the reason of {_name_number(one)}", one.reason) for one in part.measurements),
        ("the reason of its bench", None if verdict.bench is None else verdict.bench.reason),
        (
            "the reason of its regression",
            None if verdict.regression is None else verdict.regression.reason,
        ),
    ]
    for place, reason in found:
        if reason is not None:
            yield place, tuple(_list_sentences(reason))


def _name_number(number: Measurement) -> str:
    return number.name if number.scope is None else f"{number.scope}.{number.name}"


def _list_sentences(reason: Reason) -> Iterator[str]:
    yield reason.text
    if reason.because is not None:
        yield from _list_sentences(reason.because)


def _says_the_same(old: Figure, new: Figure, tolerance: float) -> bool:
    pairs = zip_longest(
        _list_leaves(msgspec.to_builtins(old)), _list_leaves(msgspec.to_builtins(new))
    )
    return all(_is_close(one, other, tolerance) for one, other in pairs)


def _is_close(one: Leaf, other: Leaf, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= tolerance
    return one == other


def _list_leaves(value: object) -> Iterator[Leaf]:
    """Yield what a figure says: numbers, words, and of sentences their numbers."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _list_leaves(value[key])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield str(len(value))
        for one in value:
            yield from _list_leaves(one)
    elif isinstance(value, str):
        yield _find_numbers(value) if " " in value.strip() else value
    elif isinstance(value, bool) or value is None:
        yield str(value)
    elif isinstance(value, int | float):
        yield float(value)


def _find_numbers(text: str) -> tuple[str, ...]:
    return tuple(_NUMBER.findall(text))
