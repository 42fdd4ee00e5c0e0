"""Digests of the files that a target's answers depend on; they are part of its identity.

A function's identity includes its module and every module alongside it that this one imports. Other
files are named in the pack, or on the command line of a program.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import BadInputError, UsageError

MAX_SOURCE_BYTES = 16 * 1024 * 1024


def digest_sources(source: Path, folder: Path) -> dict[str, str]:
    """Return digests of a module and of every module in the folder that it imports, recursively.

    Follows ``import`` statements, also those inside functions; modules named only by text at run
    time and data files are not seen.
    """
    folder = folder.resolve()
    digests: dict[str, str] = {}
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        inside = path.is_relative_to(folder)
        name = path.relative_to(folder).as_posix() if inside else path.name
        if name in digests:
            continue
        if path.stat().st_size > MAX_SOURCE_BYTES:
            raise BadInputError(f"{name} must be at most {MAX_SOURCE_BYTES} bytes of source")
        text = path.read_bytes()
        digests[name] = digest_bytes(text)
        if inside and path.suffix == ".py":
            waiting.extend(_find_imported_files(text, path, folder))
    return dict(sorted(digests.items()))


def _find_imported_files(text: bytes, path: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return  # it cannot be imported either
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _find_files(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(path.parents):
                continue
            base = path.parents[node.level - 1] if node.level else folder
            module = node.module or ""
            yield from _find_files(base, module)
            for alias in node.names:
                yield from _find_files(base, f"{module}.{alias.name}".lstrip("."))


def _find_files(base: Path, dotted: str) -> Iterator[Path]:
    """Yield the files that importing ``a.b.c`` runs: each package, then the module."""
    place = base
    for step in dotted.split("."):
        if not step:
            continue
        place = place / step
        for candidate in (place / "__init__.py", place.with_name(f"{step}.py")):
            if candidate.is_file():
                yield candidate.resolve()
                break


def find_module_file(module_name: str, folder: Path) -> Path | None:
    """Return the file of a module as a worker will find it, without running any of its code."""
    importlib.invalidate_caches()
    places: list[str] | None = [str(folder), *sys.path]
    found = None
    steps = module_name.split(".")
    for count in range(1, len(steps) + 1):
        found = PathFinder.find_spec(".".join(steps[:count]), places)
        if found is None:
            return None
        places = found.submodule_search_locations
    return Path(found.origin) if found and found.has_location and found.origin else None


def digest_declared_files(patterns: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the digests of the files that a pack declares, by path; each pattern must match."""
    folder = folder.resolve()
    digests: dict[str, str] = {}
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UsageError(f"files: {pattern!r} must stay inside the pack's folder")
        matched = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
        if not matched:
            raise UsageError(f"files: no file matches {pattern!r} in {folder}")
        for path in matched:
            digests[path.relative_to(folder).as_posix()] = digest_file(path)
    return dict(sorted(digests.items()))


def digest_named_files(words: Sequence[str], folder: Path) -> dict[str, str]:
    """Return digests of the files in a folder that a command line names, as they are now."""
    paths = {word: (folder / word).resolve() for word in words}
    return {
        word: digest_bytes(path.read_bytes())
        for word, path in paths.items()
        if path.is_relative_to(folder) and path.is_file()
    }


def digest_file(path: Path) -> str:
    """Return the digest of a file of any size."""
    with path.open("rb") as file:
        return DIGEST_PREFIX + hashlib.file_digest(file, "sha256").hexdigest()
