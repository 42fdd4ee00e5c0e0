"""Writing what a journey made: every file whole, and none when one of them cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.result import Result
from gatemark.disk.atomic import write_whole
from gatemark.report.formats import format_for, render


def check_formats(paths: Sequence[str]) -> None:
    """Refuse a file whose format nobody knows before any work is done for it."""
    for path in paths:
        format_for(path)


def write_reports(
    result: Result, paths: Sequence[str], *, summary: Mapping[str, Any] | None = None
) -> None:
    """Render a result into files; ``.json`` is the summary where a scorer has one."""
    rendered: list[tuple[Path, bytes]] = []
    for path in paths:
        extension = format_for(path)
        if extension == ".json" and summary is not None:
            data = msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"
        else:
            data = render(result, extension)
        rendered.append((Path(path), data))
    for target, data in rendered:
        write_whole(target, [data])


def check_extensions(paths: Sequence[str], allowed: Sequence[str]) -> None:
    """Refuse a file that a command cannot write, before any work is done for it."""
    for path in paths:
        if not path.lower().endswith(tuple(allowed)):
            raise UsageError(f"cannot write {path!r} (the name must end in {', '.join(allowed)})")


def write_documents(paths: Sequence[str], renderers: Mapping[str, Callable[[], bytes]]) -> None:
    """Write each file by the renderer of its extension."""
    check_extensions(paths, tuple(renderers))
    rendered = [
        (Path(path), renderer())
        for path in paths
        for extension, renderer in renderers.items()
        if path.lower().endswith(extension)
    ]
    for target, data in rendered:
        write_whole(target, [data])


def write_attachments(folder: str, attachments: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Write an exam's own files into a folder, over any of an earlier run."""
    written = []
    for name, data in attachments.items():
        target = Path(folder) / name
        write_whole(target, [data])
        written.append(target)
    return tuple(written)


def write_text(path: str, text: str) -> None:
    """Write a text as it is."""
    write_whole(Path(path), [text.encode()])
