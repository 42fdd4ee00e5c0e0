"""Which formats a report can take; the file extension picks one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.result import Result, verify_seal


class Format(msgspec.Struct, frozen=True):
    """One way to write a result: who renders it, loaded only when asked for."""

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
        ".html": Format("text/html; charset=utf-8", "html", "render", "a page that needs nothing"),
        ".junit.xml": Format("application/xml", "junit", "render", "test cases for CI viewers"),
        ".jsonl": Format(
            "application/jsonl", "json_report", "render_jsonl", "a line per finding and measurement"
        ),
    }
)


def format_for(path: str) -> str:
    """The extension that decides how a file of this name is written."""
    name = PurePath(path).name.lower()
    for extension in sorted(FORMATS, key=len, reverse=True):
        if name.endswith(extension):
            return extension
    raise UsageError(f"no report format for {path!r} (the name must end in {_allowed()})")


def render(result: Result, extension: str) -> bytes:
    """A sealed result in the format of that extension; one that does not verify is refused."""
    chosen = FORMATS.get(extension)
    if chosen is None:
        raise UsageError(f"no report format {extension!r} (known: {_allowed()})")
    verify_seal(result)
    return load_renderer(f"gatemark.report.{chosen.module}", chosen.function, extension)(result)


def load_renderer(module: str, function: str, extension: str) -> Callable[[Any], bytes]:
    """Load a renderer; say what to install when its libraries are missing."""
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gatemark":
            raise
        raise UsageError(
            f"a {extension} report needs {error.name}, which is not installed: "
            "pip install 'gatemark[report]'"
        ) from error
    return cast("Callable[[Any], bytes]", getattr(loaded, function))


def _allowed() -> str:
    return ", ".join(FORMATS)
