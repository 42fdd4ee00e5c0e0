"""The findings of lint: errors that would stop a run, and warnings about its verdict."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class LintReport(msgspec.Struct, frozen=True):
    """Errors and warnings about a pack, and the verdicts it is expected to give."""

    pack: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    predictions: tuple[str, ...] = ()


class LintWarning(NamedTuple):
    """A warning; ``path`` is its place in the pack file, such as ``$.suites[0].min``."""

    path: str
    message: str
