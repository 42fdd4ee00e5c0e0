"""Find the target of a configuration, check what it says and returns, and name its windows.

A target comes from a user's own function.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Final, TypeGuard, get_args

import msgspec

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.plugins.overhead.records import MAX_COUNT, MetricKind
from gatemark.plugins.overhead.targets.port import (
    AccuracyCounts,
    EvidenceWindow,
    Loss,
    OverheadTarget,
    PassSeeds,
)

_LET_THROUGH: Final = (GatemarkError, KeyboardInterrupt, GeneratorExit)


@contextmanager
def name_target_errors(doing: str) -> Iterator[None]:
    """Turn an exception of a target into an error with its place; ``doing`` names the call."""
    try:
        yield
    except _LET_THROUGH:
        raise
    except BaseException as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise BadInputError(
            f"overhead target: {doing} raised {type(error).__name__}: {error} ({place})"
        ) from error


_REFERENCE: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
_MEMBERS: Final = (
    *("kind", "device", "seq_len", "stride", "guards"),
    *("windows", "fingerprint", "toggle", "evaluate"),
)
_TO_RESTORE: Final = ("snapshot", "restore")

Builder = Callable[[Mapping[str, object], PassSeeds], OverheadTarget]


def build_target(
    spec: Mapping[str, str],
    options: Mapping[str, object],
    seeds: PassSeeds,
    folder: Path,
    *,
    needs_restore: bool = True,
) -> OverheadTarget:
    """Build the target of ``{"python": "module:function"}``.

    A function is looked up in ``folder`` first. It gets the options and the seeds.
    """
    if set(spec) != {"python"}:
        raise UsageError(
            f'target must name a function, as in {{python: "module:function"}}, got {dict(spec)}'
        )
    reference = spec["python"]
    with _make_importable(folder):
        builder = _load(reference)
        with name_target_errors(f"{reference}(options, seeds)"):
            target = builder(options, seeds)
    needed = (*_MEMBERS, *_TO_RESTORE) if needs_restore else _MEMBERS
    missing = [name for name in needed if not hasattr(target, name)]
    if missing:
        hint = ""
        if set(missing) <= set(_TO_RESTORE):
            hint = "; to have the target built again for each pass, set 'reload: true'"
        raise BadInputError(
            f"overhead target: {reference} must return a target, got {type(target).__name__} "
            f"without {', '.join(missing)}{hint}"
        )
    return target


def _load(reference: str) -> Builder:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UsageError(f"target must look like 'module:function', got {reference!r}")
    module_name, function_name = match.groups()
    try:
        with name_target_errors(f"importing {module_name}"):
            module = _import_fresh(module_name)
    except BadInputError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError):
            raise UsageError(f"overhead target: {reference}: {cause}") from error
        raise
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(f"overhead target: {module_name} has no function {function_name!r}")
    builder: Builder = function
    return builder


def _import_fresh(module_name: str) -> ModuleType:
    importlib.invalidate_caches()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(module_name)
    finally:
        sys.dont_write_bytecode = before


@contextmanager
def _make_importable(folder: Path) -> Iterator[None]:
    """Make modules of the folder importable, and unload them afterwards."""
    place = str(folder.resolve())
    known = set(sys.modules)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).resolve().is_relative_to(place):
                del sys.modules[name]


MAX_WINDOWS: Final = 1_000_000
MAX_TEXT: Final = 512


def check_facts(target: OverheadTarget) -> None:
    """Refuse a target whose facts do not fit an arm file."""
    kinds = get_args(MetricKind)
    _require(target.kind in kinds, "kind", f"one of {', '.join(kinds)}", target.kind)
    _require(_is_text(target.device), "device", "a text", target.device)
    for name in ("seq_len", "stride"):
        value = getattr(target, name)
        _require(_is_count(value) and value >= 1, name, "a whole number >= 1", value)
    guards: object = target.guards
    is_list = isinstance(guards, tuple | list) and all(map(_is_text, guards))
    _require(is_list, "guards", "a tuple of names", guards)


def check_outcome(kind: str, outcome: object, place: str) -> Loss | AccuracyCounts:
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
            _require(_is_count(value), subject + name, "a whole number >= 0", value)
        return AccuracyCounts(correct=int(outcome.correct), total=int(outcome.total))
    tokens, loss = outcome.tokens, outcome.loss
    _require(_is_count(tokens), subject + "tokens", "a whole number >= 0", tokens)
    _require(_is_number(loss, Real), subject + "loss", "a number", loss)
    try:
        return Loss(tokens=int(tokens), loss=float(loss))
    except OverflowError:
        return Loss(tokens=int(tokens), loss=math.inf)


def check_outcomes(found: object, count: int, place: str) -> list[Loss | AccuracyCounts]:
    """Return the outcomes of a batch, one per window; each is checked separately later."""
    if not isinstance(found, Sequence) or len(found) != count:
        got = len(found) if isinstance(found, Sequence) else type(found).__name__
        raise BadInputError(
            f"overhead target: evaluate_batch() of windows {place} must give a list of {count} "
            f"outcomes, got {got}"
        )
    return list(found)


def check_memory(peak: object) -> int | str:
    """Return the peak in bytes, or the reason why it is unknown."""
    if isinstance(peak, str) and peak.strip():
        return peak
    if _is_count(peak):
        return int(peak)
    raise _make_error("peak_memory()", "bytes as a whole number >= 0, or a reason", peak)


def _require(holds: bool, subject: str, wanted: str, got: object) -> None:
    if not holds:
        raise _make_error(subject, wanted, got)


def _make_error(subject: str, wanted: str, got: object) -> BadInputError:
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
    with name_target_errors("windows()"):
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
