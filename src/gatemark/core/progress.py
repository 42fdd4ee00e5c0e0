"""Types of the functions that report progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the amount done and the total; the unit is the caller's."""

Advance = Callable[[int], None]
"""Called with the amount done since the last call."""
