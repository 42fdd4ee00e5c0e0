"""Check that files, programs, modules and functions of a target exist. Nothing is run."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

from gatemark.core.errors import BadInputError, GatemarkError
from gatemark.core.text import did_you_mean
from gatemark.evidence.source import inspect_source
from gatemark.targets.load_function import split_reference
from gatemark.targets.network_specs import HttpSpec, OpenAISpec
from gatemark.targets.prompt_files import read_prompt_files
from gatemark.targets.spec import parse_spec


def check_target(raw: object, place: str, folder: Path) -> None:
    """Raise BadInputError when a target names something that is missing."""
    spec = parse_spec(raw, place)
    if spec.recorded is not None:
        inspect_source(str(folder / spec.recorded), name=f"{place}: {spec.recorded}")
    if spec.command is not None and not _find_program(spec.command[0], folder):
        raise BadInputError(
            f"{place}: no program is called {spec.command[0]!r}; install it, or give its path "
            "relative to the pack"
        )
    if spec.python is not None:
        _check_function(spec.python, place, folder)
    endpoint = spec.http or spec.openai
    if endpoint is not None:
        _check_request(endpoint, place, folder)


def _check_request(endpoint: HttpSpec | OpenAISpec, place: str, folder: Path) -> None:
    """Raise when a prompt file is missing, or every item would get the same request."""
    try:
        template = read_prompt_files(endpoint, folder).template()
    except GatemarkError as error:
        raise BadInputError(f"{place}: {error}") from error
    if not template.reads:
        raise BadInputError(
            f"{place}: the request never uses the item, so every item gets the same one; "
            "add {{input}} to the prompt"
        )


def _find_program(name: str, folder: Path) -> bool:
    return shutil.which(name) is not None or shutil.which(str(folder / name)) is not None


def _check_function(reference: str, place: str, folder: Path) -> None:
    module, function = split_reference(reference)
    source = _find_source(module, folder)
    if source is None:
        if _is_installed(module.partition(".")[0], folder):
            return  # finding out more would import it
        near = [path.stem for path in folder.glob("*.py")]
        raise BadInputError(
            f"{place}: no module {module!r} in the pack's folder or installed"
            f"{did_you_mean(module, near)}; python: takes module:function"
        )
    try:
        tree = ast.parse(source.read_bytes(), filename=source.name)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadInputError(f"{place}: {source.name}:{line}: cannot be parsed: {error}") from error
    names = set(_list_top_level_names(tree.body))
    first = function.partition(".")[0]
    if "*" not in names and "__getattr__" not in names and first not in names:
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        known = ", ".join(functions) or "none"
        raise BadInputError(
            f"{place}: {source.name} has no function {first!r}{did_you_mean(first, functions)} "
            f"(functions there: {known})"
        )


def _find_source(module: str, folder: Path) -> Path | None:
    """Return the file of a module in the pack's folder."""
    base = folder.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _is_installed(top: str, folder: Path) -> bool:
    if (folder / top).is_dir():
        return False  # a package in the folder that lacks the module
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _list_top_level_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield every name that a module defines, also below ``if`` and ``try``."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield alias.asname or alias.name.partition(".")[0]
            case _:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                        yield inner.id
                    elif isinstance(inner, ast.stmt) and inner is not node:
                        yield from _list_top_level_names([inner])
