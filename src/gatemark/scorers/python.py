"""A user-defined scorer: ``module:function`` from the pack's folder.

The function gets a ``Scorable`` and returns a number in [0, 1], a bool, a ``Score``, or a mapping
with ``value`` or ``reason`` and optionally ``detail``. Any other return value or an exception
becomes a reason: a broken scorer never gives a zero. The file is loaded alone: it may import
installed packages, but not its neighbours, so that its digest identifies what was run.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Annotated, Final, NoReturn

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
    unscored,
)

MAX_SOURCE_BYTES: Final = 1_000_000
_REFERENCE: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
_RAISED: Final = (Exception, SystemExit)
"""What user code raises. A scorer that calls ``sys.exit`` must not end the run, least with 0."""


class PythonOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer; ``folder`` is set when the pack is read."""

    function: Annotated[str, about("Function in the pack's folder, as `module:function`.")] = ""
    folder: str = "."

    def __post_init__(self) -> None:
        if self.function and not _REFERENCE.fullmatch(self.function):
            raise InvalidValueError(f"function must be module:function, got {self.function!r}")


def _find_source(options: PythonOptions) -> tuple[Path, str]:
    """Return the module's file, which must be inside the folder, and the function's name."""
    match = _REFERENCE.fullmatch(options.function)
    if match is None:
        raise BadInputError("scorer python needs function: module:function, got none")
    folder = Path(options.folder).resolve()
    path = folder.joinpath(*match.group(1).split(".")).with_suffix(".py")
    if not path.is_file():
        raise BadInputError(f"scorer python: {options.function} must name a file in the pack")
    if not path.resolve().is_relative_to(folder):
        raise BadInputError(f"scorer python: {options.function} must not lead out of the pack")
    if path.stat().st_size > MAX_SOURCE_BYTES:
        raise BadInputError(
            f"scorer python: {options.function} must be at most {MAX_SOURCE_BYTES} bytes"
        )
    return path, match.group(2)


class _SourceOnly(SourceFileLoader):
    """Loads the source itself, without reading or writing bytecode."""

    def path_stats(self, path: object) -> NoReturn:
        raise OSError(f"no bytecode for {path}")


def _load(options: PythonOptions) -> Callable[[Scorable], object]:
    path, name = _find_source(options)
    # Named by its path, so that equal file names in two packs stay apart.
    module_name = f"gatemark_pack_{path.stem}_{digest_bytes(str(path).encode())[-12:]}"
    loader = _SourceOnly(module_name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(module_name, loader, origin=str(path)))
    # Dataclasses and structs look up their own module while it is being executed.
    sys.modules[module_name] = module
    try:
        loader.exec_module(module)
    except _RAISED as error:
        del sys.modules[module_name]
        raise BadInputError(
            f"scorer python: {options.function} cannot be loaded: {_describe_error(error)}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise BadInputError(f"scorer python: {options.function} must be a function, got {function}")
    return function  # type: ignore[no-any-return]


def _build(options: PythonOptions) -> ScoreFunction:
    if not options.function:
        return lambda _: unscored("scorer python needs function: module:function, got none")
    function = _load(options)

    def score(item: Scorable) -> Score:
        try:
            answer = function(item)
        except BadInputError:
            raise
        except _RAISED as error:
            return unscored(truncate(f"{options.function} raised {_describe_error(error)}"))
        return _score_from(answer, options.function)

    return score


def _score_from(answer: object, function: str) -> Score:
    try:
        if isinstance(answer, Score):
            return answer
        if isinstance(answer, Mapping):
            return msgspec.convert({"value": None, **answer}, Score)
        if isinstance(answer, (int, float)):
            return scored(answer)
    except (msgspec.ValidationError, InvalidValueError, OverflowError) as error:
        return unscored(truncate(f"{function} must return a score in [0, 1]: {error}"))
    return unscored(truncate(f"{function} must return a number or a score, got {truncate(answer)}"))


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _pin_file(options: PythonOptions) -> dict[str, str]:
    """Return the digest of the function's file; the pack pins what that file imports."""
    return (
        {"source": digest_bytes(_find_source(options)[0].read_bytes())} if options.function else {}
    )


SCORER = Scorer(
    name="python",
    summary="The score of a function in the pack's folder: module:function.",
    options=PythonOptions,
    build=_build,
    needs_target=False,
    pins=_pin_file,
    places=("folder",),
    known=(KnownScore("no function named", None, "x", "x"),),
)
