"""Types of values in run-log records, and checks of their texts.

Patterns are part of the JSON Schema and are checked by the record rules, not by the decoder: one
case id is in every record of a file, and matching a regular expression each time would take
longer than reading the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Annotated, Any, Final

from msgspec import Meta

from gatemark.core.errors import UsageError
from gatemark.evidence.record_fields import DATE, text_like


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
_SPACES: Final = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""Written out: what ``\\s`` means differs between engines."""
URI_PATTERN: Final = f"^[A-Za-z][A-Za-z0-9+.-]*:[^{_SPACES}]+$"
_TIME: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
MOMENT_PATTERN: Final = rf"^{DATE}T{_TIME}:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-]{_TIME})$"


LARGEST: Final = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Misplaced = Annotated[Any, Meta(description="belongs to run_meta, nowhere else")]


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
    return _compile_matcher(MOMENT_PATTERN)(text) is not None


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


Hash = Annotated[
    str, text_like(HASH_PATTERN, "sha256: and 64 hexadecimal digits", check_all=are_hashes)
]
CaseId = Annotated[str, text_like(CASE_PATTERN, "a case id of letters, digits, - and _")]
Version = Annotated[str, text_like(VERSION_PATTERN, "a version such as 1.5.0")]
MasRunId = Annotated[str, text_like(MAS_RUN_PATTERN, "mas_ and small letters, digits and _")]
OlderMasRunId = Annotated[
    str, text_like(OLDER_MAS_RUN_PATTERN, "mas_ or mas- and small letters, digits, - and _")
]
EvalRunId = Annotated[
    str, text_like(EVAL_RUN_PATTERN, "a run id such as eval-c173b1f8-00000000 (hexadecimal digits)")
]
DatasetId = Annotated[
    str, text_like(DATASET_PATTERN, "exaid_traces_ and small letters, digits and _")
]
VariantName = Annotated[
    str, text_like(VARIANT_PATTERN, "a variant: letters, digits and _, a letter first")
]
Uri = Annotated[str, text_like(URI_PATTERN, "an address such as https://example.org/agents.git")]
Moment = Annotated[
    str,
    text_like(
        MOMENT_PATTERN,
        "a date and time with an offset",
        check_all=are_moments,
        format="date-time",
    ),
]
EventId = Annotated[str, text_like(EVENT_PATTERN, "the id of an event such as case-1-V0-se-000")]
DecisionId = Annotated[
    str, text_like(DECISION_PATTERN, "the id of a decision such as case-1-V0-bd-000")
]
