"""The records of a trace: what several agents said, delta by delta, as it was captured.

Traces contain no derived units. Times are milliseconds: ``t_emitted_ms`` and ``t_ms`` since 1970,
``t_rel_ms`` since the first delta, so an earlier boundary has a negative one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.exams.runlog.records.fields import CaseId, Count, Hash, MasRunId, Moment

TRACE_VERSION: Final = "2.0.0"


class Decoding(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Sampling settings of the model, as far as recorded."""

    temperature: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET


class TraceMeta(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="record_type",
    tag="trace_meta",
):
    """What the trace is about and how it was made; the first record of its file."""

    schema_version: Literal["2.0.0"]
    case_id: CaseId
    mas_run_id: MasRunId
    mac_commit: Annotated[str, Meta(min_length=7)]
    model: str
    created_at: Moment
    t0_emitted_ms: Count
    exaid_commit: str | UnsetType = UNSET
    decoding: Decoding | UnsetType = UNSET
    t0_definition: str | UnsetType = UNSET
    stub_mode: bool | UnsetType = UNSET
    total_turns: Count | UnsetType = UNSET
    total_deltas: Count | UnsetType = UNSET


class StreamDelta(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="record_type",
    tag="stream_delta",
):
    """A piece of what one agent said; it may end in the middle of a word."""

    case_id: CaseId
    seq: Count
    turn_id: Annotated[int, Meta(ge=1)]
    agent_id: str
    delta_text: str
    t_emitted_ms: Count
    t_rel_ms: Count


class TurnBoundary(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="record_type",
    tag="turn_boundary",
):
    """The start or the end of one agent's turn; an end may have the hash of the turn's text."""

    case_id: CaseId
    seq: Count
    turn_id: Annotated[int, Meta(ge=1)]
    agent_id: str
    boundary: Literal["start", "end"]
    t_ms: Count
    t_rel_ms: int
    content_hash: Hash | UnsetType = UNSET
    content_hash_input: str | UnsetType = UNSET


TraceRecord = TraceMeta | StreamDelta | TurnBoundary
