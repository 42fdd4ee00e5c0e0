"""Types of values in run-log records, and checks of their texts.

Patterns are part of the JSON Schema and are checked by the record rules, not by the decoder: one
case id is in every record of a file, and matching a regular expression each time would take
longer than reading the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct

from gatemark.core.canonical import is_digest
from gatemark.core.errors import UsageError
from gatemark.core.record import Problem


def refuse_no_moment(given: str | None, option: str) -> None:
    """Refuse an option that is not a date and time with an offset."""
    if given is not None and not is_moment(given):
        raise UsageError(f"{option} must be a date and time with an offset, got {given!r}")


HASH_PATTERN: Final = r"^sha256:[a-f0-9]{64}$"
CASE_PATTERN: Final = r"^[a-zA-Z0-9][a-zA-Z0-9_-]*$"
VERSION_PATTERN: Final = r"^[0-9]+\.[0-9]+\.[0-9]+$"
MAS_RUN_PATTERN: Final = r"^mas_[a-z0-9_]+$"
OLDER_MAS_RUN_PATTERN: Final = r"^mas[-_][a-z0-9_-]+$"
EVAL_RUN_PATTERN: Final = r"^eval-[a-f0-9]{8}-[a-f0-9]{8}$"
EVENT_PATTERN: Final = r"^[a-zA-Z0-9][a-zA-Z0-9_-]*-se-[0-9]{3,}$"
DECISION_PATTERN: Final = r"^[a-zA-Z0-9][a-zA-Z0-9_-]*-bd-[0-9]{3,}$"
DATASET_PATTERN: Final = r"^exaid_traces_[a-z0-9_]+$"
VARIANT_PATTERN: Final = r"^[a-zA-Z][a-zA-Z0-9_]*$"
URI_PATTERN: Final = r"^[A-Za-z][A-Za-z0-9+.-]*:[^\s]+$"
MOMENT_PATTERN: Final = (
    r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$"
)


def _describe_text(pattern: str, **more: object) -> Meta:
    return Meta(extra_json_schema={"pattern": pattern, **more})


Hash = Annotated[str, _describe_text(HASH_PATTERN)]
CaseId = Annotated[str, _describe_text(CASE_PATTERN)]
Version = Annotated[str, _describe_text(VERSION_PATTERN)]
MasRunId = Annotated[str, _describe_text(MAS_RUN_PATTERN)]
OlderMasRunId = Annotated[str, _describe_text(OLDER_MAS_RUN_PATTERN)]
EvalRunId = Annotated[str, _describe_text(EVAL_RUN_PATTERN)]
DatasetId = Annotated[str, _describe_text(DATASET_PATTERN)]
VariantName = Annotated[str, _describe_text(VARIANT_PATTERN)]
Uri = Annotated[str, _describe_text(URI_PATTERN)]
Moment = Annotated[str, _describe_text(MOMENT_PATTERN, format="date-time")]
EventId = Annotated[str, _describe_text(EVENT_PATTERN)]
DecisionId = Annotated[str, _describe_text(DECISION_PATTERN)]
LARGEST: Final = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Misplaced = Annotated[
    Any, Meta(extra_json_schema={"not": {}}, description="belongs to run_meta, nowhere else")
]


_MOMENT_LENGTH: Final = len("2023-11-14T22:13:20.000Z")
_MINUTE: Final = len("2023-11-14T22:13:")
_HEX_DIGITS: Final = b"0123456789abcdef"
_HASH_LENGTH: Final = 71
_HASH_PREFIX: Final = tuple((at, bytes([sign])) for at, sign in enumerate(b"sha256:"))


@cache
def _compile_matcher(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern.replace("$", r"\Z")).match


@lru_cache(maxsize=4096)
def matches_pattern(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern; cached, because few texts recur often."""
    return _compile_matcher(pattern)(text) is not None


@lru_cache(maxsize=4096)
def is_moment(text: str) -> bool:
    """Whether a text is a valid date and time with an offset; cached, since records repeat it."""
    return _compile_matcher(MOMENT_PATTERN)(text) is not None and parse_moment_ms(text) is not None


def are_hashes(texts: Sequence[str]) -> bool:
    """Whether all texts are digests, checked together for speed: seven columns are the prefix.

    After removing hexadecimal digits, only the rest of the prefixes may remain.
    """
    data = "".join(texts).encode("utf-8", "replace")
    count = len(texts)
    return (
        len(data) == _HASH_LENGTH * count
        and data.translate(None, _HEX_DIGITS) == b"sh:" * count
        and all(data[at::_HASH_LENGTH] == sign * count for at, sign in _HASH_PREFIX)
    )


def are_moments(texts: Sequence[str]) -> bool:
    """Whether all texts are times; those of one minute are checked together for speed.

    In the usual form, a date and time with milliseconds and Z, the minute comes first and is
    checked once. The seconds only have to be digits below 60.
    """
    if set(map(len, texts)) != {_MOMENT_LENGTH}:
        return all(map(is_moment, set(texts)))
    count = len(texts)
    seconds = "".join([text[_MINUTE:] for text in texts]).encode("utf-8", "replace")
    if (
        seconds.translate(None, b"0123456789") != b".Z" * count
        or seconds[2 :: _MOMENT_LENGTH - _MINUTE] != b"." * count
        or seconds[6 :: _MOMENT_LENGTH - _MINUTE] != b"Z" * count
        or seconds[0 :: _MOMENT_LENGTH - _MINUTE].translate(None, b"012345")
    ):
        return all(map(is_moment, set(texts)))
    return all(is_moment(f"{minute}00.000Z") for minute in {text[:_MINUTE] for text in texts})


def parse_moment_ms(text: str) -> int | None:
    """Return a date and time as milliseconds since 1970; None if it is not valid."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


class TextCheck(NamedTuple):
    """A field, a check of its text, and what is expected."""

    field: str
    holds: Callable[[str], bool]
    expected: str


@cache
def list_text_checks(kind: type[Struct]) -> tuple[TextCheck, ...]:
    """Return a check of every field whose type has a pattern.

    Names of events and decisions are left out: they must be those that follow from their record.
    """
    hints = get_type_hints(kind, include_extras=True)
    patterns = {name: _find_pattern(hint) for name, hint in hints.items()}
    return tuple(
        _make_text_check(name, pattern)
        for name, pattern in patterns.items()
        if pattern not in (None, EVENT_PATTERN, DECISION_PATTERN)
    )


def _find_pattern(hint: object) -> Any:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    metas = [note for kind in kinds for note in getattr(kind, "__metadata__", ())]
    return next(((meta.extra_json_schema or {}).get("pattern") for meta in metas), None)


def _make_text_check(field: str, pattern: str) -> TextCheck:
    if pattern == HASH_PATTERN:
        return TextCheck(field, is_digest, pattern)
    if pattern == MOMENT_PATTERN:
        return TextCheck(field, is_moment, "a date and time with an offset")
    return TextCheck(field, lambda text: matches_pattern(pattern, text), pattern)


def check_texts(record: Struct, kind: type[Struct]) -> Iterator[Problem]:
    """Yield the texts of a record that do not fit their types; skip unset and null fields."""
    for field, holds, expected in list_text_checks(kind):
        text = getattr(record, field)
        if text is UNSET or text is None or holds(text):
            continue
        yield Problem(f"$.{field}", f"got {text[:80]!r}, expected {expected}")
