"""The five ways a command can end."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes users script against; the numbers are a contract."""

    PASS = 0
    FAIL = 1
    BAD_INPUT = 2
    INCONCLUSIVE = 3
    INTEGRITY = 4
