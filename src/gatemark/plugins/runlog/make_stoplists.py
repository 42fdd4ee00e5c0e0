"""``gatemark runlog stoplists``: list the concepts that nearly every trace has."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.progress import Progress
from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec, find_extractor, load_extractor
from gatemark.plugins.runlog.concepts.port import describe_extractor_provenance
from gatemark.plugins.runlog.concepts.stoplists import (
    DEFAULT_THRESHOLD,
    Frequencies,
    count_frequencies,
    render_stoplists,
)
from gatemark.plugins.runlog.records.fields import refuse_no_moment
from gatemark.plugins.runlog.records.names import format_moment
from gatemark.plugins.runlog.records.trace_file_rules import ReadingMode
from gatemark.plugins.runlog.traces.files import find_traces, read_trace
from gatemark.plugins.runlog.traces.trace import TextCompat, TracesFolder, join_canonical_text
from gatemark.workspace import Workspace

FEW_TRACES = 50


class StoplistRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The traces, and the share of traces from which a concept is stopped."""

    traces: TracesFolder = "data/traces"
    threshold: float = DEFAULT_THRESHOLD
    extractor: ExtractorSpec = ExtractorSpec()
    compat: TextCompat = "gatemark"
    mode: ReadingMode = "strict"
    allow_stub: Annotated[bool, option("Count stub traces too.")] = False
    generated_at: Annotated[
        str | None,
        option(
            "Time to write into the metadata (default: the end of the last trace).", metavar="TIME"
        ),
    ] = None
    commit: Annotated[
        str | None, option("Commit to write into the metadata.", metavar="COMMIT")
    ] = None


class StoplistsMade(msgspec.Struct, frozen=True):
    """The stopped concepts, and the files to write."""

    found: Frequencies
    extractor: dict[str, object]
    files: dict[str, bytes]


class _Found(msgspec.Struct, frozen=True):
    case_id: str
    cuis: list[str]
    surfaces: list[str]
    end_ms: int
    extractor: dict[str, object]


def make_stoplists(
    workspace: Workspace, request: StoplistRequest, on_progress: Progress | None = None
) -> StoplistsMade:
    """Count in how many traces each concept occurs, with every stoplist off."""
    if request.extractor.stoplists is not None:
        raise UsageError("stoplists are made without stoplists; remove --stoplists")
    refuse_no_moment(request.generated_at, "--generated-at")
    find_extractor(request.extractor)
    paths = [str(path) for path in find_traces(request.traces)]
    found: dict[str, tuple[list[str], list[str]]] = {}
    end_ms = 0
    extractor: dict[str, object] = {}
    engine = workspace.engine_for(len(paths), FEW_TRACES)
    for data in engine.run(partial(_look, request), paths):
        case = msgspec.msgpack.decode(data, type=_Found)
        if case.case_id in found:
            raise BadInputError(f"{request.traces}: holds two traces of {case.case_id}")
        found[case.case_id] = (case.cuis, case.surfaces)
        end_ms = max(end_ms, case.end_ms)
        extractor = case.extractor
        if on_progress is not None:
            on_progress(len(found), len(paths))
    counted = count_frequencies(found, request.threshold)
    generated_at = request.generated_at or format_moment(end_ms)
    files = render_stoplists(counted, generated_at=generated_at, commit=request.commit)
    return StoplistsMade(counted, extractor, files)


def _look(request: StoplistRequest, path: str) -> bytes:
    read = read_trace(path, mode=request.mode, allow_stub=request.allow_stub)
    text = join_canonical_text(read.trace, request.compat)
    extractor = load_extractor(request.extractor)
    cuis, surfaces = extractor.cuis_and_surfaces(text)
    return msgspec.msgpack.encode(
        _Found(
            case_id=read.trace.meta.case_id,
            cuis=sorted(cuis),
            surfaces=sorted(surfaces),
            end_ms=read.trace.end_ms,
            extractor=describe_extractor_provenance(extractor),
        )
    )
