"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with what is done and what there is in all; the caller says of what."""

Advance = Callable[[int], None]
"""Called with what was done since the last call."""
