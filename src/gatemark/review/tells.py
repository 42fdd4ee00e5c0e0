"""What could give an arm away. Tells are named when a review is made and never edited out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gatemark.review.plan import ReviewPair

SHARE_MIN: Final = 0.9
PAIRS_MIN: Final = 5


def _ends_blank(answer: Any) -> bool:
    return isinstance(answer, str) and answer != answer.strip()


def _is_object(answer: Any) -> bool:
    return not isinstance(answer, str)


def _has_markup(answer: Any) -> bool:
    return isinstance(answer, str) and any(mark in answer for mark in ("**", "```", "\n- ", "\n# "))


_TRAITS: Final[tuple[tuple[str, Callable[[Any], bool]], ...]] = (
    ("have blanks at their ends", _ends_blank),
    ("are data and not text", _is_object),
    ("have Markdown in them", _has_markup),
)


def find_tells(pairs: Sequence[ReviewPair], arms: Sequence[str]) -> tuple[str, ...]:
    """Traits by which a reviewer could learn to tell the arms apart, in words."""
    answers: dict[str, list[Any]] = {arm: [] for arm in arms}
    for pair in pairs:
        if not pair.is_gold:
            for arm, answer in zip(pair.arms, pair.answers, strict=True):
                answers[arm].append(answer)
    found = [
        f"{count} answers of {arm} name an arm"
        for arm, given in answers.items()
        if (count := sum(_names(answer, arms) for answer in given))
    ]
    for words, has in _TRAITS:
        shares = {arm: sum(map(has, given)) / len(given) for arm, given in answers.items() if given}
        if not shares or min(map(len, answers.values())) < PAIRS_MIN:
            continue
        if max(shares.values()) >= SHARE_MIN and min(shares.values()) <= 1 - SHARE_MIN:
            told = ", ".join(f"{share:.0%} of {arm}" for arm, share in shares.items())
            found.append(f"answers {words}: {told}")
    return tuple(found)


def _names(answer: Any, arms: Sequence[str]) -> bool:
    """Whether a text names an arm; short and everyday names would be found everywhere."""
    text = str(answer).casefold()
    everyday = {"candidate", "baseline"}
    return any(len(arm) >= 4 and arm not in everyday and arm.casefold() in text for arm in arms)
