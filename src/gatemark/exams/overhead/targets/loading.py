"""Find the target of a configuration: a built-in example, or a user's own function."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.exams.overhead.targets.port import OverheadTarget, PassSeeds

_LET_THROUGH: Final = (GatemarkError, KeyboardInterrupt, GeneratorExit)


@contextmanager
def target_code(doing: str) -> Iterator[None]:
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


EXAMPLES: Final[Mapping[str, str]] = {"numpy_lm": "gatemark.exams.overhead.targets.numpy_lm:build"}
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
    """Build the target of ``{"example": NAME}`` or ``{"python": "module:function"}``.

    A function is looked up in ``folder`` first. It gets the options and the seeds.
    """
    if set(spec) == {"example"}:
        if spec["example"] not in EXAMPLES:
            known = ", ".join(EXAMPLES)
            raise UsageError(f"unknown example target {spec['example']!r} (known: {known})")
        reference = EXAMPLES[spec["example"]]
    elif set(spec) == {"python"}:
        reference = spec["python"]
    else:
        raise UsageError(f"target must name an example or a python function, got {dict(spec)}")
    with _importable(folder):
        builder = _load(reference)
        with target_code(f"{reference}(options, seeds)"):
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
        with target_code(f"importing {module_name}"):
            module = _imported(module_name)
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


def _imported(module_name: str) -> ModuleType:
    importlib.invalidate_caches()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(module_name)
    finally:
        sys.dont_write_bytecode = before


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
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
