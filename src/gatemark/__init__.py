"""Gatemark: the promotion gate for AI changes."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["__version__", "assign", "score"]

__version__ = "0.2.0.dev0"


_CALLS = {"assign": "gatemark.lifecycle.routing", "score": "gatemark.exams.score"}


def __getattr__(name: str) -> Any:
    # Loaded when called: a serving process needs one of them and should not pay for the others.
    if name in _CALLS:
        return getattr(importlib.import_module(_CALLS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
