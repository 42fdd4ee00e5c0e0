"""One line of strict JSON: every deviation is a problem with its place."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from gatemark.core.errors import BadInputError
from gatemark.core.record import Problem

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _BadJSONError(ValueError):
    pass


MAX_CONTAINERS: Final = 1_000_000
_MOST_QUOTED: Final = 60


def refuse_many_containers(path: str, data: bytes) -> None:
    """Refuse a document whose arrays and objects would take gigabytes once they are read."""
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise BadInputError(f"{path}: has more than {MAX_CONTAINERS:,} arrays and objects")


def parse_strictly(
    line: bytes, *, max_depth: int, show: bool = True
) -> tuple[Any, tuple[Problem, ...]]:
    """Return the value of a line and its problems as JSON; the value is None if unreadable.

    Without ``show`` no key of the line is repeated in a message.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, (Problem("$", f"not UTF-8: byte 0x{line[error.start]:02x} at {error.start}"),)
    repeated: list[str] = []

    def object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            repeated.extend(sorted(name for name, count in counts.items() if count > 1))
        return result

    try:
        value = json.loads(
            text,
            object_pairs_hook=object_of,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
        )
    except json.JSONDecodeError as error:
        return None, (Problem("$", f"not JSON: {error.msg} at column {error.colno}"),)
    except _BadJSONError as error:
        return None, (Problem("$", f"not JSON: {error}"),)
    except (RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        return None, (Problem("$", f"not readable: {why} (limit {max_depth} levels)"),)
    if "\\u" in text and _has_lone_surrogate(value):
        return None, (Problem("$", "not JSON: half of a surrogate pair stands alone"),)
    problems = [
        Problem("$", f"{f'key {quoted(name)}' if show else 'a key'} appears more than once")
        for name in repeated
    ]
    if depth(value) > max_depth:
        problems.append(Problem("$", f"nested deeper than {max_depth} levels"))
    return value, tuple(problems)


def _refuse_constant(name: str) -> NoReturn:
    raise _BadJSONError(f"{name} is not a JSON number")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _BadJSONError(f"{quoted(digits)} is too large for a number")
    return number


def _has_lone_surrogate(value: object) -> bool:
    """Return whether a text or key has a lone surrogate, which UTF-8 cannot encode."""
    return any(
        _SURROGATE.search(text)
        for item, _ in _walk_values(value)
        for text in (item if isinstance(item, dict) else (item,) if isinstance(item, str) else ())
    )


def depth(value: object) -> int:
    """Return the nesting depth of a value."""
    if isinstance(value, dict) and not any(isinstance(one, dict | list) for one in value.values()):
        return 1
    return max(
        (level for item, level in _walk_values(value) if isinstance(item, dict | list)), default=0
    )


def _walk_values(value: object) -> Iterator[tuple[object, int]]:
    """Yield a value and everything in it with its level, without recursion."""
    pending = [(value, 1)]
    while pending:
        item, level = pending.pop()
        yield item, level
        children = (
            item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        )
        pending.extend((child, level + 1) for child in children)


def quoted(value: object) -> str:
    """Return a value as JSON, shortened for a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + "…"
