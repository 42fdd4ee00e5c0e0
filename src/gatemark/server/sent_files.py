"""Bodies of requests as files, for what a command reads from files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gatemark.core.errors import BadInputError, UsageError

PLACE: Final = "body"


@contextmanager
def write_temporary_files(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield temporary file paths by name; errors mention the name instead of the path."""
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        paths = {}
        for number, (name, text) in enumerate(texts.items()):
            path = Path(folder) / f"{number}.jsonl"
            path.write_text(text, encoding="utf-8")
            paths[name] = str(path)
        try:
            yield paths
        except BadInputError as error:
            problems = tuple(_rename_paths(problem, paths) for problem in error.problems)
            raise BadInputError(problems, unlisted_count=error.unlisted_count) from error
        except UsageError as error:
            raise type(error)(_rename_paths(str(error), paths)) from error


def _rename_paths(problem: str, paths: Mapping[str, str]) -> str:
    for name, path in paths.items():
        problem = problem.replace(path, name)
    return problem


@contextmanager
def write_records(records: Sequence[object]) -> Iterator[str]:
    """Yield a temporary file of records, so that errors name the line as for a command."""
    try:
        text = "".join(json.dumps(one, allow_nan=False) + "\n" for one in records)
    except ValueError as error:
        raise BadInputError(f"{PLACE}: {error}") from error
    with write_temporary_files({PLACE: text}) as paths:
        yield paths[PLACE]
