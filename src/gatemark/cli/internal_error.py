"""Handle an unexpected exception: save the traceback, and say where."""

from __future__ import annotations

import os
import platform
import secrets
import traceback
from pathlib import Path
from tempfile import gettempdir

from gatemark import __version__


def internal_error_lines(error: BaseException) -> tuple[str, str]:
    """Write the traceback to a file that only this user can read; return what to print."""
    report = secrets.token_hex(4)
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{'/'.join(Path(at.filename).parts[-3:])}:{at.lineno}"
    return (
        f"internal error {report}: {type(error).__name__} at {place}; "
        "this is a bug in Gatemark, not a verdict",
        _save_details(error, report),
    )


def _save_details(error: BaseException, report: str) -> str:
    text = (
        f"gatemark {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"internal error {report}\n\n{''.join(traceback.format_exception(error))}"
    )
    path = Path(gettempdir()) / f"gatemark-error-{report}.txt"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as problem:
        return f"the details could not be written to {path}: {problem.strerror or problem}"
    return f"the details are in {path}; check them for private data before you share them"
