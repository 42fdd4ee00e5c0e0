"""Reading one line of JSON the slow way, to say everything that is wrong with it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from gatemark.core.record import Problem


class _BadJSONError(ValueError):
    pass


def parse_strictly(
    line: bytes, *, max_depth: int, show: bool = True
) -> tuple[Any, tuple[Problem, ...]]:
    """The value of a line and what is wrong with it as JSON; the value is None when unreadable.

    Without ``show`` no key of the line is repeated in a message.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, (Problem("$", f"not UTF-8: byte 0x{line[error.start]:02x} at {error.start}"),)
    repeated: list[str] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            repeated.extend(sorted({name for name in names if names.count(name) > 1}))
        return result

    try:
        value = json.loads(text, object_pairs_hook=object_of, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return None, (Problem("$", f"not JSON: {error.msg} at column {error.colno}"),)
    except _BadJSONError as error:
        return None, (Problem("$", f"not JSON: {error}"),)
    except (RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return None, (Problem("$", f"not readable: {why} (limit {max_depth} levels)"),)
    problems = [
        Problem("$", f"{f'key {shown(name)}' if show else 'a key'} appears more than once")
        for name in repeated
    ]
    if depth(value) > max_depth:
        problems.append(Problem("$", f"nested deeper than {max_depth} levels"))
    return value, tuple(problems)


def _refuse_constant(name: str) -> NoReturn:
    raise _BadJSONError(f"{name} is not a JSON number")


def depth(value: Any) -> int:
    """How many containers stand inside each other, found without recursion."""
    deepest = 0
    pending = [(value, 1)]
    while pending:
        item, level = pending.pop()
        children = (
            item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
        )
        if children is None:
            continue
        deepest = max(deepest, level)
        pending.extend((child, level + 1) for child in children)
    return deepest


def shown(value: Any, limit: int = 60) -> str:
    """A value as it looks in JSON, cut to a length that fits a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
