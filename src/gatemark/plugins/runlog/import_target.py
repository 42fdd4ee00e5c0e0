"""``gatemark import --to traces``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gatemark.samples.import_targets import ImportTarget

if TYPE_CHECKING:
    from gatemark.plugins.runlog.import_traces import TracesImported


def _convert(paths: tuple[str, ...], **settings: Any) -> TracesImported:
    from gatemark.plugins.runlog.import_traces import import_traces  # noqa: PLC0415 - heavy

    return import_traces(paths, **settings)


def _format_lines(made: TracesImported) -> Iterator[str]:
    yield f"{made.tool}: {made.traces} traces with {made.turns} turns, {made.refused} refused"
    yield from (f"note: {note}" for note in made.notes)
    if made.redacted:
        yield f"{made.redacted} traces were redacted"
    if made.output:
        yield f"written: {made.output}; pin them with: gatemark runlog manifest {made.output}"
    else:
        yield "nothing was written"


IMPORT_TARGET = ImportTarget(
    "traces",
    "traces of conversations for 'gatemark runlog'",
    _convert,
    _format_lines,
)
