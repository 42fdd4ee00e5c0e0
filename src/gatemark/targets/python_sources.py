"""Which source files of a folder a Python module is made of, found without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError

MAX_SOURCE_BYTES = 16 * 1024 * 1024


def source_digests(source: Path, folder: Path) -> dict[str, str]:
    """Digests of a module and of every module in the folder that it imports, however far.

    Follows ``import`` statements, also those inside functions; modules named only by text at
    run time and data files are not seen.
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
            waiting.extend(_imported_files(text, path, folder))
    return dict(sorted(digests.items()))


def _imported_files(text: bytes, path: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return  # it cannot be imported either
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(path.parents):
                continue
            base = path.parents[node.level - 1] if node.level else folder
            module = node.module or ""
            yield from _files_of(base, module)
            for alias in node.names:
                yield from _files_of(base, f"{module}.{alias.name}".lstrip("."))


def _files_of(base: Path, dotted: str) -> Iterator[Path]:
    """The files that importing ``a.b.c`` runs: each package on the way, then the module."""
    place = base
    for step in dotted.split("."):
        if not step:
            continue
        place = place / step
        for candidate in (place / "__init__.py", place.with_name(f"{step}.py")):
            if candidate.is_file():
                yield candidate.resolve()
                break
