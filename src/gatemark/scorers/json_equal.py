"""Equal to the target as JSON; otherwise reports the first difference.

A text output is parsed; text that is not JSON is a wrong answer, not a missing score. A text target
is parsed too. Places are JSON Pointers (RFC 6901); in ``ignore`` a ``*`` matches any one key or
index.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, NoReturn, TypeGuard

import msgspec

from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    Scorer,
    scored,
    text_of,
    truncate,
    with_options,
)

MAX_DEPTH: Final = 64
MAX_COMPARISONS: Final = 1_000_000
MAX_UNORDERED_ITEMS: Final = 500

_FENCE: Final = "```"

Path = tuple[str, ...]


class JsonEqualOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer; ``fences`` removes a code fence around the whole output."""

    ignore: Annotated[
        tuple[str, ...], about("JSON Pointers to values that may differ, such as `/items/*/id`.")
    ] = ()
    abs_tolerance: Annotated[float, about("Absolute tolerance of numbers.")] = 0.0
    rel_tolerance: Annotated[float, about("Relative tolerance of numbers.")] = 0.0
    unordered_lists: Annotated[bool, about("Whether the order of lists is ignored.")] = False
    fences: Annotated[bool, about("Whether a code fence around the output is taken off.")] = True

    def __post_init__(self) -> None:
        for name in ("abs_tolerance", "rel_tolerance"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InvalidValueError(f"{name} must be finite and >= 0, got {value}")
        for pointer in self.ignore:
            if not pointer.startswith("/"):
                raise InvalidValueError(f"ignore must hold JSON Pointers (/a/*/b), got {pointer!r}")


class _Difference(NamedTuple):
    path: Path
    expected: str
    found: str


class _Comparison:
    """One comparison of two values, with a limit on its work."""

    def __init__(self, options: JsonEqualOptions) -> None:
        self._options = options
        self._ignored = [
            tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
            for pointer in options.ignore
        ]
        self._left = MAX_COMPARISONS

    def difference(self, target: object, output: object, path: Path = ()) -> _Difference | None:
        """Return the first difference in the order of the target, or None."""
        self._left -= 1
        if self._left < 0:
            raise BadInputError(f"values too large to compare in {MAX_COMPARISONS} steps")
        if self._ignored and self._is_ignored(path):
            return None
        if isinstance(target, dict) and isinstance(output, dict):
            return self._compare_objects(target, output, path)
        if isinstance(target, (list, tuple)) and isinstance(output, (list, tuple)):
            return self._compare_lists(target, output, path)
        if self._are_equal(target, output):
            return None
        return _Difference(path, _summarize_value(target), _summarize_value(output))

    def _compare_objects(
        self, target: dict[str, object], output: dict[str, object], path: Path
    ) -> _Difference | None:
        for key, value in target.items():
            place = (*path, str(key))
            if key in output:
                found = self.difference(value, output[key], place)
            elif self._is_ignored(place):
                found = None
            else:
                found = _Difference(place, _summarize_value(value), "nothing")
            if found:
                return found
        for key, value in output.items():
            place = (*path, str(key))
            if key not in target and not self._is_ignored(place):
                return _Difference(place, "nothing", _summarize_value(value))
        return None

    def _compare_lists(
        self, target: Sequence[object], output: Sequence[object], path: Path
    ) -> _Difference | None:
        if len(target) != len(output):
            return _Difference(path, f"{len(target)} items", f"{len(output)} items")
        if self._options.unordered_lists:
            return self._compare_unordered_lists(target, output, path)
        for index, (expected, found) in enumerate(zip(target, output, strict=True)):
            difference = self.difference(expected, found, (*path, str(index)))
            if difference:
                return difference
        return None

    def _compare_unordered_lists(
        self, target: Sequence[object], output: Sequence[object], path: Path
    ) -> _Difference | None:
        """Match every item of one list with an equal one of the other.

        With a tolerance, taking the first equal item may leave another without a partner, so a full
        matching is computed.
        """
        if len(target) > MAX_UNORDERED_ITEMS:
            raise BadInputError(
                f"a list compared without order must have at most {MAX_UNORDERED_ITEMS} items, "
                f"got {len(target)}"
            )
        if not target:
            return None
        import numpy as np  # noqa: PLC0415 - most comparisons keep the order and need none of these

        places = [(*path, str(index)) for index in range(len(target))]
        fits = np.asarray(
            [
                [self.difference(wanted, given, place) is None for given in output]
                for place, wanted in zip(places, target, strict=True)
            ],
            dtype=np.int8,
        )
        if fits.diagonal().all():
            return None  # in the same order after all
        from scipy.sparse import csr_array  # noqa: PLC0415
        from scipy.sparse.csgraph import maximum_bipartite_matching  # noqa: PLC0415

        partners = maximum_bipartite_matching(csr_array(fits), perm_type="column")
        for index, partner in enumerate(partners):
            if partner < 0:
                return _Difference(
                    (*path, str(index)), _summarize_value(target[index]), "no equal item"
                )
        return None

    def _are_equal(self, target: object, output: object) -> bool:
        if type(target) is type(output) and target == output:
            return True
        if not (_is_number(target) and _is_number(output)):
            return False
        if target == output:
            return True
        try:
            room = max(self._options.abs_tolerance, self._options.rel_tolerance * abs(target))
            return bool(abs(target - output) <= room)
        except OverflowError:
            return False

    def _is_ignored(self, path: Path) -> bool:
        return any(
            len(pattern) == len(path)
            and all(want in {"*", part} for want, part in zip(pattern, path, strict=True))
            for pattern in self._ignored
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def format_pointer(path: Path) -> str:
    """Return a path as a JSON Pointer; the empty one is the whole value."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def parse_json(text: str) -> object:
    """Parse strict JSON: no NaN, no repeated keys, limited depth; ValueError says what is wrong."""
    try:
        value = json.loads(
            text, object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse_constant
        )
    except RecursionError as error:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from error
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Raise ValueError for containers nested deeper than the limit, without recursion."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list, tuple))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
        if len(level) > MAX_COMPARISONS:
            raise ValueError(f"larger than {MAX_COMPARISONS} values")
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def strip_fence(text: str) -> str:
    """Return the inside of a code fence around the whole text; otherwise the text."""
    stripped = text.strip()
    opening, line_end, rest = stripped.partition("\n")
    if opening.startswith(_FENCE) and line_end and rest.endswith(_FENCE):
        return rest.removesuffix(_FENCE)
    return text


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears more than once")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _summarize_value(value: object) -> str:
    """Return a short form of a value for a detail."""
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)} items"
    return truncate(value)


def _read_value(value: object, subject: str, options: JsonEqualOptions) -> object:
    if not isinstance(value, str):
        check_depth(value)
        return value
    text = text_of(value, subject)
    return parse_json(strip_fence(text) if options.fences else text)


def _score(options: JsonEqualOptions, item: Scorable) -> Score:
    try:
        target = _read_value(item.target, "target", options)
    except ValueError as error:
        raise BadInputError(f"target must be JSON: {error}") from error
    try:
        output = _read_value(item.output, "output", options)
    except ValueError as error:
        return scored(0.0, why=truncate(f"the output is not JSON: {error}"))
    difference = _Comparison(options).difference(target, output)
    if difference is None:
        return scored(1.0)
    path, expected, found = difference
    return scored(0.0, path=truncate(format_pointer(path)), expected=expected, found=found)


SCORER = Scorer(
    name="json_equal",
    summary="1 when output and target are the same JSON value; reports the first difference.",
    options=JsonEqualOptions,
    build=with_options(_score),
    known=(
        KnownScore("keys in any order", 1.0, {"a": 1, "b": [1, 2]}, '{"b": [1, 2], "a": 1.0}'),
        KnownScore("fenced", 1.0, {"a": 1}, '```json\n{"a": 1}\n```'),
        KnownScore("lists keep order", 0.0, [1, 2], [2, 1]),
        KnownScore(
            "unless told not to",
            1.0,
            target=[1, {"x": [2, 3]}],
            output=[{"x": [3, 2]}, 1],
            options={"unordered_lists": True},
        ),
        KnownScore(
            "an ignored place may differ or be absent",
            1.0,
            target={"id": 7, "rows": [{"at": 1, "v": 2}]},
            output={"rows": [{"at": 9, "v": 2}]},
            options={"ignore": ["/id", "/rows/*/at"]},
        ),
        KnownScore(
            "near numbers", 1.0, {"p": 0.3333}, {"p": 1 / 3}, options={"abs_tolerance": 1e-3}
        ),
        KnownScore("true is not 1", 0.0, {"a": 1}, {"a": True}),
        KnownScore("an extra key", 0.0, {}, {"a": 1}),
        KnownScore("not JSON is wrong", 0.0, {}, "sorry"),
        KnownScore("NaN is not JSON", 0.0, 1, "NaN"),
        KnownScore("a null answer is the text null", 1, "null", "null"),
        KnownScore("a broken target", None, "{", {}),
    ),
)
