"""The built-in adversarial probes, each with a criterion that needs no judge.

All texts are invented and harmless: what an attack wins is a canary word, a planted note, a
made-up source, a tool name or a wrong glossary entry.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["load_probes", "probe_file"]


def probe_file() -> Traversable:
    """The shipped file of probes."""
    return files("gatemark.packs.probes") / "probes_v1.jsonl"


def load_probes() -> list[dict[str, Any]]:
    """The shipped probes as plain records, in the order of the file."""
    return [msgspec.json.decode(line) for line in probe_file().read_bytes().splitlines()]
