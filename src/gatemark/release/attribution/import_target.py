"""``gatemark import --to decisions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gatemark.samples.import_targets import ImportTarget

if TYPE_CHECKING:
    from gatemark.release.attribution.import_decisions import DecisionsImported


def _convert(paths: tuple[str, ...], **settings: Any) -> DecisionsImported:
    from gatemark.release.attribution.import_decisions import import_decisions  # noqa: PLC0415 - heavy

    return import_decisions(paths, **settings)


def _format_lines(made: DecisionsImported) -> Iterator[str]:
    yield f"{made.decisions} decisions, {made.refused} refused"
    if made.redacted:
        yield f"{made.redacted} decisions were redacted"
    yield f"written: {made.output}" if made.output else "nothing was written"


IMPORT_TARGET = ImportTarget(
    "decisions",
    "decisions (from traces or chat logs) for 'gatemark attribute'",
    _convert,
    _format_lines,
)
