"""Problems of an input as messages, and the error that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gatemark.core.errors import BadInputError
from gatemark.core.record import KEY_SEPARATOR, Form, Problem
from gatemark.evidence.inputs import SameInput, normalize_ids
from gatemark.evidence.reading_choices import ReadingChoices


def format_problem(name: str, line: int, problem: Problem) -> str:
    """Return one problem as one line of text."""
    where = "" if problem.path == "$" else f" at {problem.path}"
    return f"{name}:{line}: {problem.message}{where}"


def refuse_input(
    problems: Sequence[str], choices: ReadingChoices, total: int | None = None
) -> None:
    """Stop with these problems; more than ``max_errors`` are counted, not listed."""
    if not problems:
        return
    shown = tuple(problems[: choices.max_errors])
    count = max(len(problems), total or 0)
    raise BadInputError(shown, unlisted_count=count - len(shown))


class PlacedName(NamedTuple):
    """The name of a record, and where it stands."""

    name: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """The place for a message."""
        return f"{self.file}:{self.line}"


def normalize_names(names: Sequence[str], form: Form) -> Sequence[str]:
    """Return the names of records such that those of one input are equal."""
    if form.unique is None:
        return normalize_ids(names)
    return [KEY_SEPARATOR.join(normalize_ids(name.split(KEY_SEPARATOR))) for name in names]


def describe_same_inputs(groups: Iterable[Sequence[PlacedName]], form: Form) -> list[str]:
    """Return one message per further record of an input; a group has the records of one."""

    def words(name: str) -> str:
        return form.key_words((name,) if form.unique is None else tuple(name.split(KEY_SEPARATOR)))

    messages = []
    for first, *others in groups:
        for one in others:
            same = SameInput.named(words(one.name), words(first.name), f"at {first.place}")
            messages.append(f"{one.place}: {same.describe()}")
    return messages
