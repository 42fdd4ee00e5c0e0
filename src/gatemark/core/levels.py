"""How serious a finding about a live version is."""

from __future__ import annotations

from typing import Literal

Level = Literal[
    "OK",
    "INFO",
    "INSUFFICIENT_BASELINE",
    "STALE",
    "NEW_CLASS",
    "DEGENERATE",
    "WARN",
    "BREACH",
]
"""From the least to the most serious."""
