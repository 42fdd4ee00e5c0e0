"""Report formats, and writing the files of a command: all of them or none."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from gatemark.core.atomic import write_together, write_whole
from gatemark.core.canonical import json_file
from gatemark.core.errors import UsageError, not_installed
from gatemark.core.result import Result, verify_seal


class Format(msgspec.Struct, frozen=True):
    """A report format; its renderer is loaded on first use."""

    media_type: str
    module: str
    function: str
    summary: str


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        ".json": Format(
            "application/json", "json_report", "render_json", "the sealed result itself"
        ),
        ".md": Format(
            "text/markdown; charset=utf-8", "markdown", "render", "a pull request comment"
        ),
        ".html": Format("text/html; charset=utf-8", "html", "render", "a self-contained page"),
        ".junit.xml": Format("application/xml", "junit", "render", "test cases for CI viewers"),
        ".jsonl": Format(
            "application/jsonl", "json_report", "render_jsonl", "a line per finding and measurement"
        ),
    }
)


def format_for(path: str) -> str:
    """Return the extension that selects the format of a file."""
    name = PurePath(path).name.lower()
    for extension in sorted(FORMATS, key=len, reverse=True):
        if name.endswith(extension):
            return extension
    raise UsageError(f"no report format for {path!r} (the name must end in {_format_allowed()})")


def render(result: Result, extension: str) -> bytes:
    """Render a result in the format of an extension; raise if its seal does not verify."""
    chosen = FORMATS.get(extension)
    if chosen is None:
        raise UsageError(f"no report format {extension!r} (known: {_format_allowed()})")
    verify_seal(result)
    return load_renderer(f"{__package__}.{chosen.module}", chosen.function, extension)(result)


def load_renderer(module: str, function: str, extension: str) -> Callable[[Any], bytes]:
    """Load a renderer; raise UsageError with what to install when a library is missing."""
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gatemark":
            raise
        raise UsageError(
            not_installed(f"a {extension} report needs", error.name, "report")
        ) from error
    return cast("Callable[[Any], bytes]", getattr(loaded, function))


def _format_allowed() -> str:
    return ", ".join(FORMATS)


def check_formats(
    paths: Sequence[str], *, inputs: Sequence[str | None] = (), folder: str | None = None
) -> None:
    """Check that all output files can be written, before any work is done.

    Raise UsageError for an unknown format, a path that is a directory or has no parent directory, a
    repeated path, or a path that is also an input. ``folder`` is a directory to write into.
    """
    for path in paths:
        format_for(path)
    places = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - takes .. out as well
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path}: named twice as an output file")
    for path in paths:
        target = Path(path)
        if target.is_dir():
            raise UsageError(f"{path}: is a directory; name a file")
        if any(_is_same(target, Path(found)) for found in inputs if found):
            raise UsageError(f"{path}: is an input file; choose another output file")
        _check_folder(target.parent)
    if folder is not None:
        _check_folder(Path(folder))


def _is_same(target: Path, other: Path) -> bool:
    return target.exists() and other.exists() and target.samefile(other)


def _check_folder(folder: Path) -> None:
    """Check that a folder exists or can be created, and is writable."""
    found = next((place for place in (folder, *folder.parents) if place.exists()), Path())
    if not found.is_dir():
        raise UsageError(f"{found}: is a file; name a folder to write into")
    if not os.access(found, os.W_OK | os.X_OK):
        raise UsageError(f"{found}: not writable")


def write_reports(
    result: Result,
    paths: Sequence[str],
    *,
    summary: Mapping[str, object] | None = None,
    folder: str | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> None:
    """Write a result to files; a ``.json`` file gets the exam's summary if there is one.

    ``attachments`` are written into ``folder``, together with the reports or not at all.
    """
    rendered: list[tuple[Path, bytes]] = []
    if folder is not None:
        rendered = [(Path(folder) / name, data) for name, data in (attachments or {}).items()]
    for path in paths:
        extension = format_for(path)
        if extension == ".json" and summary is not None:
            data = json_file(summary)
        else:
            data = render(result, extension)
        rendered.append((Path(path), data))
    write_together(rendered)


def check_extensions(paths: Sequence[str], allowed: Sequence[str]) -> None:
    """Check, before any work is done, that a command can write files of these names."""
    for path in paths:
        if not path.lower().endswith(tuple(allowed)):
            raise UsageError(f"cannot write {path!r} (the name must end in {', '.join(allowed)})")


def write_documents(paths: Sequence[str], renderers: Mapping[str, Callable[[], bytes]]) -> None:
    """Write each file with the renderer of its extension."""
    check_extensions(paths, tuple(renderers))
    rendered = [
        (Path(path), renderer())
        for path in paths
        for extension, renderer in renderers.items()
        if path.lower().endswith(extension)
    ]
    write_together(rendered)


def write_attachments(folder: str, attachments: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write the files of an exam into a folder; files of an earlier run are replaced."""
    files = [(Path(folder) / name, data) for name, data in attachments.items()]
    write_together(files)
    return tuple(target for target, _ in files)


def write_text(path: str, text: str) -> None:
    """Write a text without changing its line ends."""
    write_whole(Path(path), [text.encode()])
