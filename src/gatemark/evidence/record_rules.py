"""Rules of records as rows: each gives a message, a JSON Schema and the check of a batch.

``RecordRule("$.fallback.kind", when={"fallback.occurred": True}, must=PRESENT, says="…")``: where
the condition holds, the value at the place must meet the demand. Every demand can be said in JSON
Schema, so the published schema refuses what the rows refuse.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET

from gatemark.core.record import Problem
from gatemark.evidence.columns import Columns, make_getter
from gatemark.evidence.record_fields import list_text_fields

_EACH: Final = "[*]"
_REMEMBERED: Final = 50_000


class Demand(msgspec.Struct, frozen=True):
    """What a value must be. A missing key and null are both None.

    ``accepts`` decides, ``schema`` says the same in JSON Schema. ``accepts_all`` decides for many
    values at once, where a missing key is UNSET; it may say no wrongly, never yes. Numbers between
    two ``edges`` are alike to a demand; one without edges tells apart no numbers, and None means
    that any two may differ.
    """

    accepts: Callable[[Any], bool]
    schema: Mapping[str, object]
    accepts_all: Callable[[Sequence[Any]], bool] | None = None
    edges: tuple[float, ...] | None = None

    def holds_for_all(self, values: Sequence[Any]) -> bool:
        """Whether every value of a column is accepted; in it a missing key is UNSET."""
        if self.accepts_all is not None and self.accepts_all(values):
            return True
        return all(map(self.accepts, _list_values(set(values))))


PRESENT: Final = Demand(lambda value: value is not None, {"not": {"type": "null"}}, edges=())
ABSENT: Final = Demand(lambda value: value is None, {"type": "null"}, edges=())

FALSE: Final = Demand(lambda value: value is False, {"const": False})
NOT_TRUE: Final = Demand(lambda value: value is not True, {"not": {"const": True}})


def equals(wanted: object) -> Demand:
    """Demand one value."""
    return Demand(lambda value: value == wanted, {"const": wanted})


def differs(unwanted: object) -> Demand:
    """Demand another value, or none."""
    return Demand(lambda value: value != unwanted, {"not": {"const": unwanted}})


def one_of(wanted: Iterable[str]) -> Demand:
    """Demand one of several values."""
    allowed = frozenset(wanted)
    return Demand(allowed.__contains__, {"enum": sorted(allowed)})


def none_of(unwanted: Iterable[str]) -> Demand:
    """Demand a value other than several, or none."""
    refused = frozenset(unwanted)
    return Demand(lambda value: value not in refused, {"not": {"enum": sorted(refused)}})


def in_range(low: float, high: float) -> Demand:
    """Demand a number of at least ``low`` and below ``high``."""
    return Demand(
        lambda value: value is not None and low <= value < high,
        {"type": "number", "minimum": low, "exclusiveMaximum": high},
        edges=(low, high),
    )


def at_most_items(limit: int) -> Demand:
    """Demand a list that is not longer, or none."""
    return Demand(
        lambda value: value is None or len(value) <= limit,
        {"maxItems": limit},
        lambda values: max(map(len, filter(None, values)), default=0) <= limit,
    )


def matches(pattern: str) -> Demand:
    """Demand that a text, if there is one, matches a whole pattern, ``^`` to ``$``."""

    def accepts_all(values: Sequence[Any]) -> bool:
        texts = list(filter(None, values))
        if len(texts) < len(values) and "" in values:
            return False
        lines = "\n".join(texts) + "\n"
        return not texts or (lines.count("\n") == len(texts) and lines_match(pattern, lines))

    return Demand(
        lambda value: value is None or _is_found(pattern, value), {"pattern": pattern}, accepts_all
    )


def lacks(pattern: str) -> Demand:
    """Demand that a pattern is not found in a text, if there is one."""

    def accepts_all(values: Sequence[Any]) -> bool:
        # As many lines, a pattern can be found more often, never less often.
        return not _is_found(f"(?m){pattern}", "\n".join(filter(None, values)))

    return Demand(
        lambda value: value is None or not _is_found(pattern, value),
        {"not": {"type": "string", "pattern": pattern}},
        accepts_all,
    )


def contains(pattern: str) -> Demand:
    """Demand a text in which a pattern is found."""
    return Demand(
        lambda value: value is not None and _is_found(pattern, value),
        {"type": "string", "pattern": pattern},
    )


def any_of(*demands: Demand) -> Demand:
    """Demand what one of these demands."""
    return Demand(
        lambda value: any(demand.accepts(value) for demand in demands),
        {"anyOf": [demand.schema for demand in demands]},
        lambda values: any(demand.holds_for_all(values) for demand in demands),
    )


def _is_found(pattern: str, text: str) -> bool:
    return _compile(pattern).search(text.encode("utf-8", "replace")) is not None


@cache
def _compile(pattern: str) -> Any:
    # RE2 reads patterns as validators of JSON Schema do: its $ is the end, not a newline before it.
    return importlib.import_module("re2").compile(pattern.encode())


class RecordRule(msgspec.Struct, frozen=True):
    """One row: where ``when`` holds, the value at ``place`` must meet a demand.

    ``place`` is a path such as ``$.fallback.kind``; ``[*]`` at its end means each item of a list.
    ``when`` has demands or plain values by their paths. ``says`` may name ``{value}``, ``{count}``
    of a list, and ``{record.…}``; ``says_missing`` is said of a key that is not there.
    """

    place: str
    must: Demand
    says: str
    when: Mapping[str, object] = {}
    says_missing: str = ""

    @property
    def path(self) -> str:
        """The path of the field, without the sign of the root."""
        return self.place.removeprefix("$.").removesuffix(_EACH)

    @property
    def is_for_each(self) -> bool:
        """Whether the demand is on each item of a list."""
        return self.place.endswith(_EACH)

    @property
    def conditions(self) -> dict[str, Demand]:
        """What ``when`` demands."""
        return {
            path: wanted if isinstance(wanted, Demand) else equals(wanted)
            for path, wanted in self.when.items()
        }

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that the rule reads."""
        return (self.path, *self.when)

    def to_json_schema(self) -> dict[str, object]:
        """Return the rule as JSON Schema."""
        then: dict[str, Any] = {}
        if self.is_for_each:
            _add_field(then, self.path, {"items": self.must.schema}, is_needed=False)
        else:
            _add_demand(then, self.path, self.must)
        if not self.when:
            return {"$comment": self.says, **then}
        condition: dict[str, Any] = {}
        for path, demand in self.conditions.items():
            _add_demand(condition, path, demand)
        return {"$comment": self.says, "if": condition, "then": then}


def _add_demand(root: dict[str, Any], path: str, demand: Demand) -> None:
    _add_field(root, path, demand.schema, is_needed=not demand.accepts(None))


def _add_field(
    root: dict[str, Any], path: str, schema: Mapping[str, object], *, is_needed: bool
) -> None:
    """Add what is wanted of a field to the schema of a record."""
    place = root
    for name in path.split("."):
        if is_needed and name not in place.setdefault("required", []):
            place["required"].append(name)
        place = place.setdefault("properties", {}).setdefault(name, {})
    place.update(schema)


def rules_of_texts(record_type: type[msgspec.Struct]) -> tuple[RecordRule, ...]:
    """Return the rules that the types of a record state about its texts."""
    return tuple(
        RecordRule(
            f"$.{field.path}{_EACH if field.is_list else ''}",
            matches(field.pattern),
            f"must be {field.looks}",
        )
        for field in list_text_fields(record_type)
        if field.pattern is not None
    )


def words_of_patterns(record_type: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the patterns of a record ask for, in words."""
    return {
        field.pattern: field.looks
        for field in list_text_fields(record_type)
        if field.pattern is not None and field.looks is not None
    }


class _RowCheck:
    """A rule prepared to look at values in the order of ``paths``."""

    def __init__(self, rule: RecordRule) -> None:
        self._accepts = rule.must.accepts
        self._conditions = [demand.accepts for demand in rule.conditions.values()]
        self._is_for_each = rule.is_for_each
        self._get = make_getter(rule.paths)

    def find_broken(self, record: object) -> Iterator[tuple[str, Any]]:
        """Yield what is not accepted, and its place within the field."""
        value, *conditions = _list_values(self._get(record))
        if not self._does_apply(conditions):
            return
        if not self._is_for_each:
            if not self._accepts(value):
                yield "", value
            return
        for index, item in enumerate(value or ()):
            if not self._accepts(item):
                yield f"[{index}]", item

    def is_broken(self, values: Sequence[Any]) -> bool:
        """Whether a record with these values, in the order of ``paths``, breaks the rule."""
        value, *conditions = _list_values(values)
        if not self._does_apply(conditions):
            return False
        if self._is_for_each:
            return not all(map(self._accepts, value or ()))
        return not self._accepts(value)

    def _does_apply(self, values: Sequence[Any]) -> bool:
        return all(accepts(value) for accepts, value in zip(self._conditions, values, strict=True))


def _list_values(found: Iterable[Any]) -> list[Any]:
    return [None if value is UNSET else value for value in found]


class _CheckGroup:
    """Rules with conditions that read the same part of a record, over distinct values."""

    def __init__(self, rules: Sequence[RecordRule]) -> None:
        self._paths = tuple(dict.fromkeys(path for rule in rules for path in rule.paths))
        self._checks = [
            (rule, [self._paths.index(path) for path in rule.paths], _RowCheck(rule))
            for rule in rules
        ]
        self._edges = [_join_edges(rules, path) for path in self._paths]
        self._good: set[tuple[Any, ...]] = set()

    def list_broken(self, columns: Columns) -> list[RecordRule]:
        """Return the rules that some record breaks; equal values are checked once."""
        read = [
            _round_down(columns[path], edges) if edges else columns[path]
            for path, edges in zip(self._paths, self._edges, strict=True)
        ]
        unknown = set(zip(*read, strict=True)) - self._good
        broken = [
            rule
            for rule, places, check in self._checks
            if any(check.is_broken([values[place] for place in places]) for values in unknown)
        ]
        if not broken:
            if len(self._good) > _REMEMBERED:
                self._good.clear()
            self._good |= unknown
        return broken


def _join_edges(rules: Iterable[RecordRule], path: str) -> tuple[float, ...]:
    """Return the edges between which all numbers of a field are alike; none if any may differ."""
    demands = [rule.must for rule in rules if rule.path == path]
    demands += [rule.conditions[path] for rule in rules if path in rule.when]
    edges: set[float] = set()
    for demand in demands:
        if demand.edges is None:
            return ()
        edges.update(demand.edges)
    return tuple(sorted(edges))


def _round_down(values: Iterable[Any], edges: tuple[float, ...]) -> list[Any]:
    """Return each number as the edge at or below it."""
    steps = (float("-inf"), *edges)
    return [
        steps[bisect_right(edges, value)] if value is not None and value is not UNSET else value
        for value in values
    ]


R = TypeVar("R", bound=RecordRule)


class RecordRules(Generic[R]):
    """Rows, as the three things they give."""

    def __init__(self, rules: Iterable[R]) -> None:
        self.rules = tuple(rules)
        self._checks = [(rule, _RowCheck(rule)) for rule in self.rules]
        self._alone = [rule for rule in self.rules if not rule.when]
        by_part: dict[frozenset[str], list[RecordRule]] = {}
        for rule in self.rules:
            if rule.when:
                part = frozenset(path.partition(".")[0] for path in rule.paths)
                by_part.setdefault(part, []).append(rule)
        self._groups = [_CheckGroup(group) for group in by_part.values()]

    def find_broken(self, record: object) -> list[tuple[R, Problem]]:
        """Return every broken rule of a record, with its problem."""
        return [
            (rule, _describe(rule, record, index, value))
            for rule, check in self._checks
            for index, value in check.find_broken(record)
        ]

    def find_problems(self, record: object) -> list[Problem]:
        """Return every problem of a record."""
        return [problem for _, problem in self.find_broken(record)]

    @property
    def paths(self) -> frozenset[str]:
        """Everything that the rules read."""
        return frozenset(path for rule in self.rules for path in rule.paths)

    def list_broken(self, columns: Columns) -> list[R]:
        """Return the rules that some record of a batch breaks.

        Whole columns are checked, and each combination of values once.
        """
        broken: list[RecordRule] = [
            rule for rule in self._alone if not _holds_alone(rule, columns[rule.path])
        ]
        broken.extend(rule for group in self._groups for rule in group.list_broken(columns))
        return [rule for rule in self.rules if rule in broken]

    def hold_for_all(self, columns: Columns) -> bool:
        """Whether no record of a batch breaks a rule."""
        return not self.list_broken(columns)

    def select(self, chooses: Callable[[R], bool]) -> RecordRules[R]:
        """Return some of the rules."""
        return RecordRules(rule for rule in self.rules if chooses(rule))


def _holds_alone(rule: RecordRule, column: Sequence[Any]) -> bool:
    if rule.is_for_each:
        column = list(set(chain.from_iterable(filter(None, column))))
    return rule.must.holds_for_all(column)


def _describe(rule: RecordRule, record: object, index: str, value: Any) -> Problem:
    says = rule.says
    if rule.says_missing and not index:
        given = reduce(getattr, rule.path.split("."), record)
        says = rule.says_missing if given is UNSET else says
    count = len(value) if isinstance(value, tuple) else None
    return Problem(f"$.{rule.path}{index}", says.format(record=record, value=value, count=count))


@cache
def _compile_lines(pattern: str) -> Any:
    re2 = importlib.import_module("re2")
    return re2.compile(rf"(?:(?:{pattern.strip('^$')})\n)*".encode())


def lines_match(pattern: str, lines: str) -> bool:
    """Whether each line matches a pattern; RE2 takes a third of the time of ``re`` for many."""
    return _compile_lines(pattern).fullmatch(lines.encode("utf-8", "replace")) is not None
