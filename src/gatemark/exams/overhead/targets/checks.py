"""Check the facts and outcomes of a target, and name its windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Final, TypeGuard, get_args

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.exams.overhead.records import MAX_COUNT, MetricKind
from gatemark.exams.overhead.targets.loading import target_code
from gatemark.exams.overhead.targets.port import (
    AccuracyCounts,
    EvidenceWindow,
    Loss,
    OverheadTarget,
)

MAX_WINDOWS: Final = 1_000_000
MAX_TEXT: Final = 512


def check_facts(target: OverheadTarget) -> None:
    """Refuse a target whose facts do not fit an arm file."""
    kinds = get_args(MetricKind)
    _must(target.kind in kinds, "kind", f"one of {', '.join(kinds)}", target.kind)
    _must(_is_text(target.device), "device", "a text", target.device)
    for name in ("seq_len", "stride"):
        value = getattr(target, name)
        _must(_is_count(value) and value >= 1, name, "a whole number >= 1", value)
    guards: object = target.guards
    is_list = isinstance(guards, tuple | list) and all(map(_is_text, guards))
    _must(is_list, "guards", "a tuple of names", guards)


def checked_outcome(kind: str, outcome: object, place: str) -> Loss | AccuracyCounts:
    """Return an outcome of the right type in plain numbers; ``place`` names window and arm."""
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
    try:
        return Loss(tokens=int(tokens), loss=float(loss))
    except OverflowError:
        return Loss(tokens=int(tokens), loss=math.inf)


def checked_outcomes(found: object, count: int, place: str) -> list[Loss | AccuracyCounts]:
    """Return the outcomes of a batch, one per window; each is checked by itself later."""
    if not isinstance(found, Sequence) or len(found) != count:
        got = len(found) if isinstance(found, Sequence) else type(found).__name__
        raise BadInputError(
            f"overhead target: evaluate_batch() of windows {place} must give a list of {count} "
            f"outcomes, got {got}"
        )
    return list(found)


def checked_memory(peak: object) -> int | str:
    """Return the peak in bytes, or the reason why it is unknown."""
    if isinstance(peak, str) and peak.strip():
        return peak
    if _is_count(peak):
        return int(peak)
    raise _wrong("peak_memory()", "bytes as a whole number >= 0, or a reason", peak)


def _must(holds: bool, subject: str, wanted: str, got: object) -> None:
    if not holds:
        raise _wrong(subject, wanted, got)


def _wrong(subject: str, wanted: str, got: object) -> BadInputError:
    seen = got if isinstance(got, str | int | float | None) else type(got).__name__
    return BadInputError(f"overhead target: {subject} must be {wanted}, got {seen!r:.80}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT


def _is_number(value: object, kind: type) -> TypeGuard[float]:
    """Whether a value is a number of that kind, numpy's included; booleans are not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_count(value: object) -> TypeGuard[int]:
    return _is_number(value, Integral) and 0 <= value <= MAX_COUNT


class NamedWindow(msgspec.Struct, frozen=True):
    """A window with its id and hash in the arm files."""

    window_id: str
    content_hash: str
    window: EvidenceWindow


def name_windows(target: OverheadTarget) -> tuple[NamedWindow, ...]:
    """Name windows by content, position and plan, so that no two plans share a name."""
    with target_code("windows()"):
        windows = tuple(target.windows())
    if not windows:
        raise BadInputError("overhead target: windows() must give at least one window, got none")
    if len(windows) > MAX_WINDOWS:
        raise BadInputError(f"overhead target: windows() gave more than {MAX_WINDOWS} windows")
    plan = {"seq_len": target.seq_len, "stride": target.stride, "windows": len(windows)}
    named = []
    for place, window in enumerate(windows):
        if not isinstance(getattr(window, "content", None), bytes):
            raise BadInputError(
                f"overhead target: windows() must give EvidenceWindow(content=bytes, data=…), "
                f"got {type(window).__name__} at {place} without content in bytes"
            )
        content = digest_bytes(window.content)
        name = digest({"plan": plan, "place": place, "content": content})
        named.append(NamedWindow(f"w{place:06d}-{name[7:19]}", content, window))
    return tuple(named)
