"""The rules across the records of a run log. Those of each record are rows in ``run_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Final

from msgspec import UNSET, Struct

from gatemark.core.record import FileRules, Remark
from gatemark.evidence.record_rules import RecordRules, RemarkRule, remark_on
from gatemark.plugins.runlog.records.run import (
    PARTS,
    RECORD_TYPES,
    SOURCE_VARIANTS,
    Parts,
    RunLog,
    VersionedRecord,
)
from gatemark.plugins.runlog.records.run_rules import (
    EVENT_REMARKS,
    META_REMARKS,
    OLDER_EVENT_REMARKS,
    WINDOW_REMARKS,
    state_variant_rules,
)

RUN_RULES: Final[Mapping[str, str]] = {
    "one_run_meta": "a file has one run_meta",
    "run_meta_first": "run_meta is the first record",
    "variant_policy": "the trigger policy is that of the variant, and never missing",
    "variant_records": "a variant writes only the records of the parts that it has",
    "record_order": "flushes come before decisions, and decisions before summaries",
    "index_order": "the indices of a kind count from 0 without gaps",
    "same_run": "case and variant are those of run_meta",
    "window_order": "a window ends after it starts (a warning)",
    "latest_exists": "the latest event of a summary is before it",
    "history_exists": "the history of a summary names events before it",
    "history_without_latest": "the history of a summary does not have its latest event",
    "history_length": "a history has at most history_k events",
    "summary_size": "the size of a summary is that of its text",
    "semantics_text": "the text of a summary is made of its fields",
    "complete": "nothing is cut off: decisions, flushes, summaries and timestamps fit in number",
}
"""Every rule of a file that has one record per line. ``run_bytes`` has those of its bytes."""
RECORD_ORDER: Final = tuple(RECORD_TYPES)


_COUNTERS: Final = {
    "tokengate_flush": "flush_index",
    "buffer_decision": "decision_index",
    "summary_event": "event_index",
}
_case_of: Final = attrgetter("case_id")
_LAST: Final = len(RECORD_ORDER) - 1
_FLUSH, _DECISION = 1, 2


def find_parts(meta: VersionedRecord) -> Parts | None:
    """Return the parts of a log's trigger policy; None if it neither says nor implies one."""
    return PARTS.get(SOURCE_VARIANTS.get(meta.variant_id, meta.trigger_policy))


_ends: Final = attrgetter("start_seq", "end_seq")


def find_covering_windows(log: RunLog) -> list[tuple[int, int]] | None:
    """Return the windows that together have all content of the trace; None if none need to.

    The token gate flushes all text, and without it a summary is made of every turn. A policy
    without either may leave text at the end that no decision saw.
    """
    parts = find_parts(log.meta)
    if parts is None or (parts.buffer and not parts.gate):
        return None
    records: Sequence[VersionedRecord] = log.flushes if parts.gate else log.events
    # Older logs may lack the ends of a window, whatever the type says.
    windows = [ends for ends in map(_ends, records) if all(isinstance(seq, int) for seq in ends)]
    return windows if len(windows) == len(records) else None


def find_cut_off(
    meta: VersionedRecord,
    line: int,
    counts: Sequence[int],
    to_summarize: int,
    leftovers: int = 0,
) -> Iterator[Remark]:
    """Yield counts of flushes, decisions and summaries that do not fit each other.

    Versions before 1.5 may summarize ``leftovers`` at the end without a decision or a flush.
    """
    flushes, _, summaries = counts
    parts = find_parts(meta)
    found = []
    if parts and parts.buffer and not 0 <= summaries - to_summarize <= leftovers:
        found.append(f"{to_summarize} decisions to summarize, but {summaries} summaries")
    if parts and parts.gate and not parts.buffer and not 0 <= summaries - flushes <= leftovers:
        found.append(f"{flushes} flushes, but {summaries} summaries")
    names = ("derived_from_t_emitted", "derived_from_fallback")
    times = meta.timestamp_derivation
    derived = [one for name in names if isinstance(one := getattr(times, name, None), int)]
    if len(derived) == len(names) and sum(derived) != sum(counts):
        found.append(f"{sum(derived)} timestamps were derived, but there are {sum(counts)} records")
    for message in found:
        yield Remark(line, "complete", "$", f"the log is incomplete: {message}")


@cache
def _choose_rows(parts: Parts | None, *, is_older: bool) -> tuple[RecordRules[RemarkRule], ...]:
    """Return the rows of each kind of record, in the order of a file."""
    event_rows = OLDER_EVENT_REMARKS if is_older else EVENT_REMARKS
    of_variant = {} if parts is None else state_variant_rules(parts)
    return (
        RecordRules(META_REMARKS),
        RecordRules(of_variant.get("tokengate_flush", ())),
        RecordRules((*WINDOW_REMARKS, *of_variant.get("buffer_decision", ()))),
        RecordRules((*event_rows, *of_variant.get("summary_event", ()))),
    )


class RunRules(FileRules):
    """One ``run_meta`` first, kinds in order, indices from 0 without gaps, existing history.

    Each trigger policy writes certain kinds of records, and nothing may be cut off: every decision
    to summarize (V0, V3, V4) or flush (V2) has its summary, and every record its derived timestamp.
    ``run_rules`` has the rows that concern one record.
    """

    _is_older = False
    """Whether the log is of a version before 1.5."""

    def __init__(self) -> None:
        self._meta: VersionedRecord = None
        self._rows = _choose_rows(None, is_older=self._is_older)
        self._meta_line = 0
        self._place = 0
        self._next = [0, 0, 0, 0]
        self._event_ids: set[str] = set()
        self._some_lost = False
        self._counts = [0, 0, 0, 0]
        self._to_summarize = 0
        self._kinds: dict[type, tuple[int, Callable[[Struct], int]]] = {}

    def see(self, lines: Sequence[int], records: Sequence[VersionedRecord]) -> Iterator[Remark]:
        start = 0
        for kind, same in groupby(map(type, records)):
            end = start + len(list(same))
            place, counter_of = self._find_kind(kind)
            run, at = records[start:end], lines[start:end]
            self._counts[place] += len(run)
            if self._meta is not None and place:
                yield from self._check_variant(at, run, place)
            indices = list(map(counter_of, run)) if place else []
            if place == 0 or not self._is_expected(run, place, indices):
                yield from self._see_each(at, run, place, counter_of)
            else:
                self._place, self._next[place] = place, indices[-1] + 1
                if place == _LAST:
                    for line, event in zip(at, run, strict=True):
                        yield from self._check_history(line, event)
            yield from remark_on(self._rows[place], at, run)
            start = end

    def _is_expected(self, run: Sequence[VersionedRecord], place: int, indices: list[int]) -> bool:
        """Return whether records of one kind have no remarks, apart from their history."""
        meta, first, count = self._meta, self._next[place], len(run)
        if meta is None or place < self._place or indices != list(range(first, first + count)):
            return False
        return [one.case_id for one in run].count(meta.case_id) == count and [
            one.variant_id for one in run
        ].count(meta.variant_id) == count

    def _see_each(
        self,
        lines: Sequence[int],
        records: Sequence[VersionedRecord],
        place: int,
        counter_of: Callable[[Struct], int],
    ) -> Iterator[Remark]:
        following = self._next
        for line, record in zip(lines, records, strict=True):
            if place == 0:
                yield from self._see_meta(line, record)
                continue
            index = counter_of(record)
            yield from self._check_place(line, record, place, index)
            self._place = max(self._place, place)
            if index >= following[place]:
                following[place] = index + 1
            if place == _LAST:
                yield from self._check_history(line, record)

    def _find_kind(self, found: type) -> tuple[int, Callable[[Struct], int]]:
        """Return the place of a kind of record in the order, and its counter."""
        kind = self._kinds.get(found)
        if kind is None:
            tag = str(found.__struct_config__.tag)  # type: ignore[attr-defined]
            counter = attrgetter(_COUNTERS[tag]) if tag in _COUNTERS else _case_of
            kind = self._kinds[found] = (RECORD_ORDER.index(tag), counter)
        return kind

    def lost(self) -> None:
        self._some_lost = True

    def end(self) -> Iterator[Remark]:
        if self._some_lost:
            return
        if self._meta is None:
            yield Remark(1, "one_run_meta", "$", "the file has no run_meta record")
        else:
            yield from self._find_incomplete(self._meta)

    def _find_incomplete(self, meta: VersionedRecord) -> Iterator[Remark]:
        return find_cut_off(meta, self._meta_line, self._counts[1:], self._to_summarize)

    def _check_variant(
        self, lines: Sequence[int], records: Sequence[VersionedRecord], place: int
    ) -> Iterator[Remark]:
        """Yield records that the variant does not write, and count decisions to summarize."""
        variant, parts = self._meta.variant_id, find_parts(self._meta)
        if place == _DECISION:
            self._to_summarize += [one.decision for one in records].count("summarize")
        if parts is None:
            return
        if (place == _FLUSH and not parts.gate) or (place == _DECISION and not parts.buffer):
            message = f"{variant} has no {RECORD_ORDER[place]} records"
            yield Remark(lines[0], "variant_records", "$.record_type", message)

    def _see_meta(self, line: int, meta: VersionedRecord) -> Iterator[Remark]:
        if self._meta is not None:
            message = f"a file has one run_meta, the first is on line {self._meta_line}"
            yield Remark(line, "one_run_meta", "$.record_type", message)
            return
        if self._place and not self._some_lost:
            message = "run_meta must be the first record of its file"
            yield Remark(line, "run_meta_first", "$.record_type", message)
        self._meta, self._meta_line = meta, line
        self._rows = _choose_rows(find_parts(meta), is_older=self._is_older)

    def _check_place(
        self, line: int, record: VersionedRecord, place: int, index: int
    ) -> Iterator[Remark]:
        """Yield remarks on a record's place, index or names."""
        if self._meta is None:
            if not (self._place or self._some_lost):
                message = f"run_meta must come first, got {RECORD_ORDER[place]}"
                yield Remark(line, "run_meta_first", "$.record_type", message)
        else:
            yield from self._find_strangers(line, record)
        if place < self._place:
            message = f"{RECORD_ORDER[place]} must not come after {RECORD_ORDER[self._place]}"
            yield Remark(line, "record_order", "$.record_type", message)
        expected = self._next[place]
        if index != expected and not (self._some_lost and index > expected):
            message = f"must be {expected}: indices count from 0 without gaps, got {index}"
            path = f"$.{_COUNTERS[RECORD_ORDER[place]]}"
            yield Remark(line, "index_order", path, message)

    def _find_strangers(self, line: int, record: VersionedRecord) -> Iterator[Remark]:
        for field in ("case_id", "variant_id"):
            mine, theirs = getattr(record, field), getattr(self._meta, field)
            if mine != theirs:
                message = f"must be run_meta's {theirs!r}, got {mine!r}"
                yield Remark(line, "same_run", f"$.{field}", message)

    def _check_history(self, line: int, event: VersionedRecord) -> Iterator[Remark]:
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
