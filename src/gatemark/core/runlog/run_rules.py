"""What must hold in a run log: in each record, and across the records of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Struct

from gatemark.core.canonical import is_digest
from gatemark.core.record import FileRules, Problem, Remark
from gatemark.core.runlog.fields import (
    CASE_PATTERN,
    EVAL_RUN_PATTERN,
    EVENT_PATTERN,
    MAS_RUN_PATTERN,
    VERSION_PATTERN,
    Check,
    fits,
    is_moment,
    must_be_hash,
    must_be_moment,
    must_fit,
    text_problems,
)
from gatemark.core.runlog.names import decision_id, event_id
from gatemark.core.runlog.run import BufferDecision, RunMeta, TokengateFlush

RECORD_ORDER: Final = ("run_meta", "tokengate_flush", "buffer_decision", "summary_event")
PROVENANCE_KEYS: Final = (
    "concept_extractor",
    "stoplists_provenance",
    "timestamp_derivation",
    "determinism",
    "trace_file_hash",
    "trace_dataset_hash",
    "tokengate_config_hash",
)

_META: Final = (
    must_be_moment("created_at"),
    must_fit("case_id", CASE_PATTERN),
    must_fit("schema_version", VERSION_PATTERN),
    must_fit("mas_run_id", MAS_RUN_PATTERN),
    must_fit("eval_run_id", EVAL_RUN_PATTERN),
    must_be_hash("trace_file_hash"),
    must_be_hash("trace_dataset_hash"),
    must_be_hash("tokengate_config_hash"),
)
_STOPLISTS: Final = (
    must_be_hash("stop_entities_hash"),
    must_be_hash("stop_cuis_hash"),
    must_be_hash("stoplist_df_report_hash"),
    must_be_moment("stoplists_generated_at"),
)
_EVENT: Final = (
    must_fit("case_id", CASE_PATTERN),
    must_be_moment("timestamp"),
    must_be_hash("text_hash"),
    must_be_hash("summarizer_input_hash"),
    must_be_hash("new_buffer_text_hash"),
)
_BY_FIELD: Final = {check.field: check for check in _EVENT}
FLUSH_TEXTS: Final = tuple(_BY_FIELD[name] for name in ("case_id", "timestamp", "text_hash"))
DECISION_TEXTS: Final = tuple(_BY_FIELD[name] for name in ("case_id", "timestamp"))
SUMMARY_TEXTS: Final = tuple(check for check in _EVENT if check.field != "text_hash")


def meta_problems(meta: RunMeta) -> Sequence[Problem]:
    """What no single field of ``run_meta`` can show."""
    return _meta_problems(meta, _META)


def older_meta_problems(meta: Any) -> Sequence[Problem]:
    """The same of a version whose evaluation ids had no fixed form."""
    return _meta_problems(meta, tuple(check for check in _META if check.field != "eval_run_id"))


def _meta_problems(meta: Any, checks: tuple[Check, ...]) -> Sequence[Problem]:
    found = list(text_problems(meta, checks))
    stoplists = meta.stoplists_provenance
    if isinstance(stoplists, Struct):
        found.extend(
            Problem(f"$.stoplists_provenance{problem.path[1:]}", problem.message)
            for problem in text_problems(stoplists, _STOPLISTS)
        )
    if getattr(meta.determinism, "json_sort_keys", UNSET) is False:
        found.append(Problem("$.determinism.json_sort_keys", "got false, expected true"))
    return found


def flush_problems(flush: TokengateFlush) -> Sequence[Problem]:
    """What no single field of a flush can show."""
    if (
        flush.start_seq <= flush.end_seq
        and fits(CASE_PATTERN, flush.case_id)
        and (flush.text_hash is UNSET or is_digest(flush.text_hash))
        and is_moment(flush.timestamp)
        and _has_no_provenance(flush)
    ):
        return ()
    return [
        *text_problems(flush, FLUSH_TEXTS),
        *window_problems(flush),
        *_provenance_problems(flush),
    ]


def decision_problems(decision: BufferDecision) -> Sequence[Problem]:
    """What no single field of a decision can show."""
    expected = decision_id(decision.case_id, decision.variant_id, decision.decision_index)
    if (
        decision.decision_id == expected
        and fits(CASE_PATTERN, decision.case_id)
        and is_moment(decision.timestamp)
        and _has_no_provenance(decision)
    ):
        return ()
    return [
        *text_problems(decision, DECISION_TEXTS),
        *_id_problems("decision_id", decision.decision_id, expected),
        *_provenance_problems(decision),
    ]


def summary_problems(event: Any) -> Sequence[Problem]:
    """What no single field of a summary event can show."""
    found = [*text_problems(event, SUMMARY_TEXTS)]
    expected = event_id(event.case_id, event.variant_id, event.event_index)
    if event.event_id != expected:
        found.extend(_id_problems("event_id", event.event_id, expected))
    latest, history = event.latest_summary_event_id, event.summary_history_event_ids
    if isinstance(latest, str) and not fits(EVENT_PATTERN, latest):
        found.append(Problem("$.latest_summary_event_id", f"{latest[:80]!r} names no event"))
    for place, name in enumerate(() if history is UNSET else history):
        if not fits(EVENT_PATTERN, name):
            path = f"$.summary_history_event_ids[{place}]"
            found.append(Problem(path, f"{name[:80]!r} names no event"))
    if not _has_no_provenance(event):
        found.extend(_provenance_problems(event))
    return found


def _id_problems(field: str, found: Any, expected: str) -> Iterator[Problem]:
    if found is not UNSET and found != expected:
        yield Problem(f"$.{field}", f"got {found[:80]!r}, expected {expected!r}")


def _window_is_ordered(record: Any) -> bool:
    start, end = record.start_seq, record.end_seq
    return start is UNSET or end is UNSET or 0 <= start <= end


def window_problems(record: Any) -> Iterator[Problem]:
    """A window that ends before it starts."""
    if not _window_is_ordered(record):
        yield Problem(
            "$.end_seq", f"window must be ordered, got [{record.start_seq}, {record.end_seq}]"
        )


def _has_no_provenance(record: Any) -> bool:
    return (
        record.concept_extractor is UNSET
        and record.stoplists_provenance is UNSET
        and record.timestamp_derivation is UNSET
        and record.determinism is UNSET
        and record.trace_file_hash is UNSET
        and record.trace_dataset_hash is UNSET
        and record.tokengate_config_hash is UNSET
    )


def _provenance_problems(record: Any) -> Iterator[Problem]:
    for key in PROVENANCE_KEYS:
        if getattr(record, key) is not UNSET:
            yield Problem(f"$.{key}", "belongs to run_meta, nowhere else")


class _Kind(NamedTuple):
    """One kind of record: its place in the order and the field that counts it."""

    place: int
    counter: str


_KINDS: Final = {
    "tokengate_flush": _Kind(1, "flush_index"),
    "buffer_decision": _Kind(2, "decision_index"),
    "summary_event": _Kind(3, "event_index"),
}


class RunRules(FileRules):
    """One ``run_meta`` first, kinds in order, indices from 0 without gaps, history that exists.

    A window that ends before it starts is a warning: where agents take turns, logs that follow
    the source hold such windows.
    """

    def __init__(self) -> None:
        self._meta: Any = None
        self._meta_line = 0
        self._place = 0
        self._next = [0, 0, 0, 0]
        self._event_ids: set[str] = set()
        self._some_lost = False
        self._kinds: dict[type, _Kind | None] = {}

    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterator[Remark]:
        kinds = self._kinds
        for line, record in zip(lines, records, strict=True):
            found = type(record)
            if found not in kinds:
                kinds[found] = _KINDS.get(found.__struct_config__.tag)
            kind = kinds[found]
            if kind is None:
                yield from self._see_meta(line, record)
            else:
                yield from self._see_event(line, record, kind)

    def lost(self) -> None:
        self._some_lost = True

    def end(self) -> Iterator[Remark]:
        if self._meta is None and not self._some_lost:
            yield Remark(1, "one_run_meta", "$", "the file has no run_meta record")

    def _see_meta(self, line: int, meta: Any) -> Iterator[Remark]:
        if self._meta is not None:
            message = f"a file has one run_meta, the first is on line {self._meta_line}"
            yield Remark(line, "one_run_meta", "$.record_type", message)
            return
        if self._place and not self._some_lost:
            message = "run_meta must be the first record of its file"
            yield Remark(line, "run_meta_first", "$.record_type", message)
        self._meta, self._meta_line = meta, line

    def _see_event(self, line: int, record: Any, kind: _Kind) -> Iterator[Remark]:
        meta = self._meta
        if meta is None:
            if not (self._place or self._some_lost):
                message = f"run_meta must come first, got {RECORD_ORDER[kind.place]}"
                yield Remark(line, "run_meta_first", "$.record_type", message)
        elif record.case_id != meta.case_id or record.variant_id != meta.variant_id:
            yield from self._strangers(line, record)
        place = kind.place
        if place < self._place:
            message = f"{RECORD_ORDER[place]} must not come after {RECORD_ORDER[self._place]}"
            yield Remark(line, "record_order", "$.record_type", message)
        else:
            self._place = place
        index = getattr(record, kind.counter)
        expected = self._next[place]
        if index != expected and not (self._some_lost and index > expected):
            message = f"must be {expected}: indices count from 0 without gaps, got {index}"
            yield Remark(line, "index_order", f"$.{kind.counter}", message)
        self._next[place] = max(expected, index) + 1
        if not _window_is_ordered(record):
            message = f"the window [{record.start_seq}, {record.end_seq}] is turned round"
            yield Remark(line, "window_order", "$.end_seq", message, "warning")
        if place == 3:
            yield from self._history(line, record)

    def _strangers(self, line: int, record: Any) -> Iterator[Remark]:
        for field in ("case_id", "variant_id"):
            mine, theirs = getattr(record, field), getattr(self._meta, field)
            if mine != theirs:
                message = f"must be run_meta's {theirs!r}, got {mine!r}"
                yield Remark(line, "same_run", f"$.{field}", message)

    def _history(self, line: int, event: Any) -> Iterator[Remark]:
        known, latest = self._event_ids, event.latest_summary_event_id
        history = event.summary_history_event_ids
        path = "$.summary_history_event_ids"
        if not self._some_lost:
            if latest is not UNSET and latest is not None and latest not in known:
                message = f"{latest!r} must be an event before this one"
                yield Remark(line, "latest_exists", "$.latest_summary_event_id", message)
            if history is not UNSET and not known.issuperset(history):
                stranger = next(name for name in history if name not in known)
                message = f"{stranger!r} must be an event before this one"
                yield Remark(line, "history_exists", path, message)
        if history is not UNSET:
            if latest in history:
                message = f"must not hold the latest event {latest!r}"
                yield Remark(line, "history_without_latest", path, message)
            limit = getattr(self._meta, "history_k", UNSET)
            if isinstance(limit, int) and len(history) > limit:
                message = f"must hold at most history_k={limit}, got {len(history)}"
                yield Remark(line, "history_length", path, message)
        if event.event_id is not UNSET:
            known.add(event.event_id)
