"""Uploaded samples as temporary files, for readers that take files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gatemark.core.errors import BadInputError, UsageError


@contextmanager
def files_of(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
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
            problems = tuple(_renamed(problem, paths) for problem in error.problems)
            raise BadInputError(problems, unlisted_count=error.unlisted_count) from error
        except UsageError as error:
            raise type(error)(_renamed(str(error), paths)) from error


def _renamed(problem: str, paths: Mapping[str, str]) -> str:
    for name, path in paths.items():
        problem = problem.replace(path, name)
    return problem
