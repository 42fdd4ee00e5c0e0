"""Gatemark: the promotion gate for AI changes.

The functions do what the commands of the same name do. See docs/reference/python.md.
Their types are in ``__init__.pyi``: nothing but the version is loaded before it is used.
"""

from __future__ import annotations

import importlib

__all__ = [
    "Comparison",
    "GateFailedError",
    "GatemarkError",
    "InconclusiveError",
    "Result",
    "Samples",
    "UnavailableError",
    "__version__",
    "assign",
    "compare",
    "gate",
    "import_log",
    "run",
    "score",
    "verify",
]

__version__ = "0.2.0.dev0"

_PLACES = {
    "GatemarkError": "gatemark.core.errors",
    "UnavailableError": "gatemark.core.errors",
    "assign": "gatemark.release.lifecycle.routing",
    "score": "gatemark.checks.score",
}


def __getattr__(name: str) -> object:
    # Loaded when used: a serving process needs one of them and should not pay for the others.
    if name in __all__:
        return getattr(importlib.import_module(_PLACES.get(name, "gatemark.api")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
