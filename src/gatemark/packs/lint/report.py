"""What lint found: errors that would stop a run, and warnings about what its verdict is worth."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class LintReport(msgspec.Struct, frozen=True):
    """What is wrong with a pack, what is doubtful about it, and what it would decide."""

    pack: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    predictions: tuple[str, ...] = ()


class LintWarning(NamedTuple):
    """Something doubtful; ``path`` leads to it in the pack file, such as ``$.suites[0].min``."""

    path: str
    message: str
