"""Load a function from the folder of a pack, and see which parts of a call it takes.

The first parameter receives the input; further parameters called ``sample``, ``variables``, ``id``
or ``epoch`` receive those. ``sample`` has the fields of the item that the pack lists, and never the
expected answer.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.text import did_you_mean
from gatemark.targets.foreign_code import ForeignCode
from gatemark.targets.port import CallPart, TargetError

_PASSED_BY_NAME: Final = ("id", "epoch", "sample", "variables")


def list_parts_read(extras: Iterable[str]) -> frozenset[CallPart]:
    """Return the parts of a call that reach a function with these further parameters."""
    asked = set(extras)
    parts: tuple[CallPart, ...] = ("sample", "variables")
    always: tuple[CallPart, ...] = ("input",)
    return frozenset((*always, *(part for part in parts if part in asked)))


def split_reference(reference: str) -> tuple[str, str]:
    """Return module and function of ``module:function``."""
    module_name, colon, function_name = reference.partition(":")
    parts = (*module_name.split("."), *function_name.split("."))
    if not colon or not all(part.isidentifier() for part in parts):
        raise UsageError(f"python target must look like 'module:function', got {reference!r}")
    return module_name, function_name


def load_module(module_name: str, folder: Path) -> ModuleType:
    """Import a module of the folder; refuse a name that another loaded module has."""
    top = module_name.split(".", 1)[0]
    loaded = sys.modules.get(top)
    ours = (folder / f"{top}.py").is_file() or (folder / top).is_dir()
    if loaded is not None and ours and not comes_from(loaded, folder):
        raise UsageError(
            f"python target: module {top!r} of this pack has the name of one that is already "
            "loaded from elsewhere; rename it"
        )
    importlib.invalidate_caches()
    # Stale bytecode is detected by whole seconds and size, which is too coarse for a pin.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with ForeignCode(f"importing {module_name}", (ModuleNotFoundError, KeyboardInterrupt)):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            near = did_you_mean(module_name, [path.stem for path in folder.glob("*.py")])
            raise UsageError(
                f"python target: no module {module_name!r} in the pack's folder or installed{near}"
            ) from error
        raise UsageError(
            f"python target: {module_name} needs module {error.name!r}, which is not installed"
        ) from error
    except TargetError as error:
        raise BadInputError(f"python target: {error}") from error
    finally:
        sys.dont_write_bytecode = before


def find_function(module: ModuleType, function_name: str, reference: str) -> Callable[..., Any]:
    """Return the function of a loaded module; raise if there is none of that name."""
    found: object = module
    for step in function_name.split("."):
        if not hasattr(found, step):
            functions = [name for name, one in vars(found).items() if inspect.isroutine(one)]
            holder = Path(module.__file__ or module.__name__).name if found is module else found
            raise UsageError(
                f"python target: {holder} has no function {step!r}"
                f"{did_you_mean(step, functions)} (in {reference!r})"
            )
        found = getattr(found, step)
    if not callable(found):
        raise UsageError(
            f"python target: {reference!r} must be a function, got {type(found).__name__}"
        )
    function: Callable[..., Any] = found
    return function


def list_extra_parameters(
    function: Callable[..., Any], reference: str, *, has_fields: bool
) -> tuple[str, ...]:
    """Return the further parameters of a function that a call can fill."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()  # builtins may have no signature; they get the input alone
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise UsageError(f"python target: {reference!r} must take the input as first parameter")
    extras: list[str] = []
    for parameter in parameters[1:]:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.name == "sample" and not has_fields:
            if parameter.default is parameter.empty:
                raise UsageError(
                    f"python target: {reference!r} asks for 'sample'; list the fields of an item "
                    "that it may see, such as fields: [context] next to python:"
                )
        elif named and parameter.name in _PASSED_BY_NAME:
            extras.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise UsageError(
                f"python target: {reference!r} asks for {parameter.name!r}, which a call does "
                f"not have (known: {', '.join(_PASSED_BY_NAME)})"
            )
    return tuple(extras)


def list_loaded_names() -> set[str]:
    """Return the names of the top-level modules that are loaded."""
    return {name.split(".", 1)[0] for name in list(sys.modules)}


def comes_from(module: ModuleType | None, folder: Path) -> bool:
    """Return whether a top-level module is directly in the folder, not in an environment."""
    file = getattr(module, "__file__", None)
    packages = [Path(place).parent for place in getattr(module, "__path__", ())]
    return folder in (packages or ([Path(file).parent] if file else []))
