"""Read files that a config of another tool names, within its folder and size limits."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Final

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import parse_settings
from gatemark.evidence.small_file import read_small_file

MAX_BYTES: Final = 16 * 1024 * 1024
SCHEME: Final = "file://"
CODE: Final = (".py", ".js", ".ts", ".mjs", ".cjs", ".rb", ".sh")


class Unconvertible(Exception):  # noqa: N818 - not an error of the user: it is told and left out
    """Raised for something that has no counterpart in a pack."""


class ForeignFolder:
    """The files alongside a config. Only files below it, or below the working folder, are read."""

    def __init__(self, config: Path) -> None:
        self.folder = config.parent.resolve()

    def paths(self, name: str) -> list[Path]:
        """Return the files of a name, which can be a pattern."""
        text = name.removeprefix(SCHEME)
        if any(mark in text for mark in "*?["):
            if Path(text).is_absolute():
                raise Unconvertible(f"{name}: patterns must be relative")
            found = sorted(path for path in self.folder.glob(text) if path.is_file())
            if not found:
                raise BadInputError(f"{self.folder / text}: no file matches")
            return [self._require_inside(path, name) for path in found]
        return [self._require_inside(self.folder / text, name)]

    def _require_inside(self, path: Path, name: str) -> Path:
        real = path.resolve()
        if not any(real.is_relative_to(place) for place in (self.folder, Path.cwd().resolve())):
            raise Unconvertible(f"{name}: is outside the folder of the config")
        return real

    def text(self, path: Path) -> str:
        """Return the text of a file."""
        if path.suffix in CODE:
            raise Unconvertible(f"{path.name}: is code")
        try:
            text = read_small_file(str(path), MAX_BYTES).decode("utf-8-sig")
            return text.replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            raise BadInputError(f"{path}: is not UTF-8 text") from error

    def value(self, path: Path) -> Any:
        """Return the value of a YAML, JSON, JSON Lines or CSV file; the text of any other."""
        text = self.text(path)
        match path.suffix.lower():
            case ".yaml" | ".yml" | ".json":
                return parse_settings(text, str(path))
            case ".jsonl":
                return [_parse_json(line, path) for line in text.splitlines() if line.strip()]
            case ".csv":
                return _parse_csv(text, path)
            case _:
                return text

    def resolved(self, value: object) -> Any:
        """Return a value, or the content of the file that it names."""
        if not isinstance(value, str) or not value.startswith(SCHEME):
            return value
        return self.value(self.paths(value)[0])


def _parse_json(line: str, path: Path) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: not readable JSON Lines: {error}") from error


def _parse_csv(text: str, path: Path) -> list[dict[str, str]]:
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise BadInputError(f"{path}: not readable CSV: {error}") from error
    if any(None in row or None in row.values() for row in rows):
        raise BadInputError(f"{path}: a row has another number of cells than the header")
    return rows
