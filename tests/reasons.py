"""Reasons for tests: any text, which only its code identifies."""

from __future__ import annotations

from gatemark.core.reason import Reason, ReasonKind

STATED = ReasonKind("stated", "(in the words of a test)")


def state_reason(text: str) -> Reason:
    return STATED.word(text)
