"""The run that a record is of, by the reference to its artifact."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

from msgspec import UnsetType

from gatemark.plugins.advisory.record import ID_PATTERN

RUN_PATTERN: Final = re.compile(rf"run:[\w.:-]{{1,64}}|{ID_PATTERN}")


def name_runs(artifacts: Sequence[str | UnsetType | None], known: Container[str]) -> list[str]:
    """Return the run of each record; an empty name means none. ``known`` has accepted names."""
    names = {one: _name_run(one or "", known) for one in set(artifacts)}
    return [names[one] for one in artifacts]


def _name_run(artifact: str, known: Container[str]) -> str:
    return artifact if artifact in known or RUN_PATTERN.fullmatch(artifact) else ""
