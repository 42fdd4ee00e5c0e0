"""Finding the target that a configuration names: one that ships, or a user's own function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from gatemark.core.errors import BadInputError, GatemarkError, UsageError
from gatemark.exams.overhead.targets.port import OverheadTarget, PassSeeds

_LET_THROUGH: Final[tuple[type[BaseException], ...]] = (
    GatemarkError,
    KeyboardInterrupt,
    GeneratorExit,
)


class TargetCode:
    """A ``with`` block around code of a target; ``doing`` says what it was asked for."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, _LET_THROUGH):
            return
        raise BadInputError(
            f"overhead target: {self._doing} raised {type(error).__name__}: {error}{_place(trace)}"
        ) from error


def _place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


EXAMPLES: Final[Mapping[str, str]] = {"numpy_lm": "gatemark.exams.overhead.targets.numpy_lm:build"}
_REFERENCE: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
_MEMBERS: Final = (
    *("kind", "device", "seq_len", "stride", "guards"),
    *("windows", "snapshot", "restore", "fingerprint", "toggle", "evaluate"),
)

Builder = Callable[[Mapping[str, Any], PassSeeds], OverheadTarget]


def build_target(
    spec: Mapping[str, str], options: Mapping[str, Any], seeds: PassSeeds, folder: Path
) -> OverheadTarget:
    """The target of ``{"example": NAME}`` or ``{"python": "module:function"}``.

    A function is looked up in ``folder`` first. It gets the options and the seeds.
    """
    if set(spec) == {"example"}:
        if spec["example"] not in EXAMPLES:
            known = ", ".join(EXAMPLES)
            raise UsageError(f"no example target is called {spec['example']!r} (known: {known})")
        reference = EXAMPLES[spec["example"]]
    elif set(spec) == {"python"}:
        reference = spec["python"]
    else:
        raise UsageError(f"target must name an example or a python function, got {dict(spec)}")
    with _importable(folder):
        builder = _load(reference)
        with TargetCode(f"{reference}(options, seeds)"):
            target = builder(options, seeds)
    missing = [name for name in _MEMBERS if not hasattr(target, name)]
    if missing:
        raise BadInputError(
            f"overhead target: {reference} must return a target, got {type(target).__name__} "
            f"without {', '.join(missing)}"
        )
    return target


def _load(reference: str) -> Builder:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise UsageError(f"target must look like 'module:function', got {reference!r}")
    module_name, function_name = match.groups()
    try:
        with TargetCode(f"importing {module_name}"):
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


def _imported(module_name: str) -> Any:
    importlib.invalidate_caches()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        return importlib.import_module(module_name)
    finally:
        sys.dont_write_bytecode = before


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules of the folder can be imported, and are forgotten again afterwards."""
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
