"""Problems of an input as messages, and the error that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gatemark.core.errors import BadInputError
from gatemark.core.record import KEY_SEPARATOR, Form, Problem
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


def repeated_lines(places: Iterable[tuple[str, list[tuple[str, int]]]], form: Form) -> list[str]:
    """Return one message per extra occurrence of a name."""
    messages: list[str] = []
    for name, found in places:
        first_file, first_line = found[0]
        key = (name,) if form.unique is None else tuple(name.split(KEY_SEPARATOR))
        messages.extend(
            f"{file}:{line}: {form.key_words(key)} was seen before at {first_file}:{first_line}"
            for file, line in found[1:]
        )
    return messages
