"""Gatemark: the promotion gate for AI changes."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["__version__", "assign"]

__version__ = "0.2.0.dev0"


def __getattr__(name: str) -> Any:
    # Serving processes need this one call; nobody else should pay for its imports.
    if name == "assign":
        return importlib.import_module("gatemark.lifecycle.routing").assign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
