"""What a target answers, checked at the border: nothing is rounded or guessed into shape."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Final, get_args

from gatemark.core.errors import BadInputError
from gatemark.exams.overhead.targets.port import (
    MAX_COUNT,
    AccuracyCounts,
    Loss,
    MetricKind,
    OverheadTarget,
)

MAX_TEXT: Final = 512


def check_facts(target: OverheadTarget) -> None:
    """Refuse a target whose facts could not stand in an arm file."""
    kinds = get_args(MetricKind)
    _must(target.kind in kinds, "kind", f"one of {', '.join(kinds)}", target.kind)
    _must(_is_text(target.device), "device", "a text", target.device)
    for name in ("seq_len", "stride"):
        value = getattr(target, name)
        _must(_is_count(value) and value >= 1, name, "a whole number >= 1", value)
    guards: Any = target.guards
    is_list = isinstance(guards, tuple | list) and all(map(_is_text, guards))
    _must(is_list, "guards", "a tuple of names", guards)


def checked_outcome(kind: str, outcome: Any, place: str) -> Loss | AccuracyCounts:
    """An outcome of the right type in plain numbers; ``place`` is its window and arm."""
    wanted = AccuracyCounts if kind == "accuracy" else Loss
    if not isinstance(outcome, wanted):
        raise BadInputError(
            f"overhead target: evaluate() of window {place} must give {wanted.__name__} for kind "
            f"{kind}, got {type(outcome).__name__}"
        )
    subject = f"evaluate() of window {place}: "
    if isinstance(outcome, AccuracyCounts):
        for name in ("correct", "total"):
            value = getattr(outcome, name)
            _must(_is_count(value), subject + name, "a whole number >= 0", value)
        return AccuracyCounts(correct=int(outcome.correct), total=int(outcome.total))
    tokens, loss = outcome.tokens, outcome.loss
    _must(_is_count(tokens), subject + "tokens", "a whole number >= 0", tokens)
    _must(_is_number(loss, Real), subject + "loss", "a number", loss)
    return Loss(tokens=int(tokens), loss=_float(loss))


def checked_memory(peak: Any) -> int | str:
    """Bytes, or the reason why nobody can tell."""
    if isinstance(peak, str) and peak.strip():
        return peak
    _must(_is_count(peak), "peak_memory()", "bytes as a whole number >= 0, or a reason", peak)
    return int(peak)


def _must(holds: bool, subject: str, wanted: str, got: Any) -> None:
    if not holds:
        seen = got if isinstance(got, str | int | float | None) else type(got).__name__
        raise BadInputError(f"overhead target: {subject} must be {wanted}, got {seen!r:.80}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT


def _is_number(value: Any, kind: Any) -> bool:
    """Whether it is a number of that kind, numpy's included; a truth value is none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value, Integral) and 0 <= value <= MAX_COUNT


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
