"""Answers without a score: how many of an arm's there are, and what went wrong most often."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatemark.core.measurement import Measurement, rate
from gatemark.packs.answers import Answer

MOST_KINDS = 3
SHOWN_LENGTH = 160
UNSCORED = "not scored"


def error_rate(name: str, lane: str, answers: Sequence[Answer]) -> Measurement:
    """The share of answers without a score; its caveats say why, the most frequent reason first."""
    failed = [answer for answer in answers if answer.score is None]
    found = rate(name, len(failed), len(answers), direction="lower_is_better")
    return msgspec.structs.replace(found, lane=lane, caveats=_reasons(failed))


def _reasons(failed: Sequence[Answer]) -> tuple[str, ...]:
    by_kind: dict[str, list[Answer]] = {}
    for answer in failed:
        by_kind.setdefault(answer.error or UNSCORED, []).append(answer)
    ranked = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    told = [f"{len(hit)} {kind}, such as {hit[0].id}: {_said(hit[0])}" for kind, hit in ranked]
    more = len(told) - MOST_KINDS
    return (*told[:MOST_KINDS], *((f"{more} other kinds of error",) if more > 0 else ()))


def _said(answer: Answer) -> str:
    text = " ".join((answer.reason or "no reason was given").split())
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"
