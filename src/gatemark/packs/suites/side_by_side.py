"""Items of a suite side by side: what was asked and expected, and what both arms said."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatemark.core.figure import Figure, Table
from gatemark.packs.answers import Answer, AnswerPair
from gatemark.packs.suites.suite import ArmsEvidence

SHOWN_ITEMS = 50
SHOWN_LENGTH = 200


def worse_items(
    evidence: ArmsEvidence, pairs: Sequence[AnswerPair], *, title: str, expected: str
) -> tuple[Figure, ...]:
    """The items that got worse, worst first; ``expected`` names what their target is."""
    worse = sorted(
        (pair for pair in pairs if pair.candidate.mean < pair.baseline.mean),
        key=lambda pair: (pair.candidate.mean - pair.baseline.mean, pair.id),
    )
    if not worse:
        return ()
    asked = {row.id: row for row in evidence.rows}
    now, before = first_answers(evidence.candidate), first_answers(evidence.baseline or ())
    rows = tuple(
        (
            pair.id,
            round(pair.baseline.mean, 4),
            round(pair.candidate.mean, 4),
            short_text(asked[pair.id].input) if pair.id in asked else None,
            short_text(asked[pair.id].target) if pair.id in asked else None,
            said(before[pair.id]),
            said(now[pair.id]),
        )
        for pair in worse[:SHOWN_ITEMS]
    )
    columns = ("item", "baseline", "candidate", "asked", expected)
    spoken = ("baseline said", "candidate said")
    return (Table(title, (*columns, *spoken), rows, len(worse)),)


def first_answers(answers: Sequence[Answer]) -> dict[str, Answer]:
    """Each item's first answer."""
    return {answer.id: answer for answer in reversed(answers)}


def said(answer: Answer) -> str:
    """An answer's words, or what went wrong in their place."""
    if answer.error is not None:
        return short_text(f"({answer.error}: {answer.reason})")
    return short_text(answer.output)


def short_text(value: object) -> str:
    """A JSON value as one short text."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"
