"""The share of answers without a score, with the most frequent reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import Measurement, rate
from gatemark.core.reason import ReasonKind
from gatemark.packs.answers import Answer
from gatemark.packs.outages import select_asked

NOTHING_ASKED: Final = ReasonKind("nothing_asked", "nothing could be asked")
MOST_KINDS = 3
SHOWN_LENGTH = 160
UNSCORED = "not scored"


def measure_error_rate(name: str, scope: str, answers: Sequence[Answer]) -> Measurement:
    """Return the share of answers without a score; caveats list the most frequent reasons first.

    Calls that could not be made are not counted. An input that was asked more often than another
    counts as often as that one, by what has no score: its copies must not thin out errors.
    """
    found_out = select_asked(_take_evenly(answers))
    failed = [answer for answer in found_out if answer.score is None]
    found = rate(
        name,
        len(failed),
        len(found_out),
        direction="lower_is_better",
        empty_reason=NOTHING_ASKED(),
    )
    return msgspec.structs.replace(found, scope=scope, caveats=_count_reasons(failed))


def _take_evenly(answers: Sequence[Answer]) -> Sequence[Answer]:
    """Return as many answers of each input as the one with the fewest has, the unscored first."""
    by_input: dict[str, list[Answer]] = {}
    for answer in answers:
        by_input.setdefault(answer.id, []).append(answer)
    fewest = min(map(len, by_input.values()), default=0)
    if all(len(own) == fewest for own in by_input.values()):
        return answers
    return [
        answer
        for own in by_input.values()
        for answer in sorted(own, key=lambda one: one.score is not None)[:fewest]
    ]


def _count_reasons(failed: Sequence[Answer]) -> tuple[str, ...]:
    by_kind: dict[str, list[Answer]] = {}
    for answer in failed:
        by_kind.setdefault(answer.error or UNSCORED, []).append(answer)
    ranked = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    counted = [
        f"{len(hit)} {kind}, such as {hit[0].id}: {_shorten_reason(hit[0])}" for kind, hit in ranked
    ]
    more = len(counted) - MOST_KINDS
    return (*counted[:MOST_KINDS], *((f"{more} other kinds of error",) if more > 0 else ()))


def _shorten_reason(answer: Answer) -> str:
    text = " ".join((answer.reason or "no reason was given").split())
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"
