"""Rules of a run log, for each record and across records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, le
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from gatemark.core.record import FileRules, Problem, Remark
from gatemark.exams.runlog.records.fields import (
    CASE_PATTERN,
    EVENT_PATTERN,
    VARIANT_PATTERN,
    VERSION_PATTERN,
    are_hashes,
    are_moments,
    check_texts,
    matches_pattern,
)
from gatemark.exams.runlog.records.names import count_ctu, name_decision, name_event
from gatemark.exams.runlog.records.run import (
    LAST_FIELD,
    PARTS,
    PROVENANCE_KEYS,
    RECORD_TYPES,
    SEMANTIC_FIELDS,
    SOURCE_VARIANTS,
    BufferDecision,
    Parts,
    RunLog,
    RunMeta,
    StoplistsProvenance,
    SummaryEvent,
    TokengateFlush,
    VersionedRecord,
)

RECORD_ORDER: Final = tuple(RECORD_TYPES)


def check_run_meta(meta: RunMeta) -> Sequence[Problem]:
    """Return the problems of a ``run_meta`` record."""
    found = check_meta_texts(meta, RunMeta)
    if matches_pattern(VERSION_PATTERN, meta.schema_version) and not meta.schema_version.startswith(
        "1.5."
    ):
        known = "1.0 to 1.2 in one object, 1.3 to 1.5 with a record per line"
        message = f"unknown version {meta.schema_version!r} (known: {known})"
        found.append(Problem("$.schema_version", message))
    return found


def check_meta_texts(meta: VersionedRecord, kind: type[Struct]) -> list[Problem]:
    """Return the problems of a ``run_meta`` of any version; ids of older ones are freer."""
    found = list(check_texts(meta, kind))
    stoplists = meta.stoplists_provenance
    if isinstance(stoplists, Struct):
        found.extend(
            Problem(f"$.stoplists_provenance{problem.path[1:]}", problem.message)
            for problem in check_texts(stoplists, StoplistsProvenance)
        )
    if getattr(meta.determinism, "json_sort_keys", UNSET) is False:
        found.append(Problem("$.determinism.json_sort_keys", "got false, expected true"))
    return found


def check_flush(flush: TokengateFlush) -> Sequence[Problem]:
    """Return the problems of a flush."""
    return [
        *check_texts(flush, TokengateFlush),
        *check_window(flush),
        *_check_provenance(flush),
    ]


def check_decision(decision: BufferDecision) -> Sequence[Problem]:
    """Return the problems of a decision."""
    expected = name_decision(decision.case_id, decision.variant_id, decision.decision_index)
    return [
        *check_texts(decision, BufferDecision),
        *_check_ids("decision_id", decision.decision_id, expected),
        *_check_provenance(decision),
    ]


def check_summary(event: VersionedRecord) -> Sequence[Problem]:
    """Return the problems of a summary event."""
    expected = name_event(event.case_id, event.variant_id, event.event_index)
    return [
        *check_texts(event, SummaryEvent),
        *_check_ids("event_id", event.event_id, expected),
        *_check_names(event),
        *_check_provenance(event),
    ]


def _check_names(event: VersionedRecord) -> Iterator[Problem]:
    latest, history = event.latest_summary_event_id, event.summary_history_event_ids
    if isinstance(latest, str) and not matches_pattern(EVENT_PATTERN, latest):
        yield Problem("$.latest_summary_event_id", f"{latest[:80]!r} is not an event id")
    for place, name in enumerate(() if history is UNSET else history):
        if not matches_pattern(EVENT_PATTERN, name):
            path = f"$.summary_history_event_ids[{place}]"
            yield Problem(path, f"{name[:80]!r} is not an event id")


def are_flushes_valid(flushes: Sequence[TokengateFlush]) -> bool:
    """Return whether none of many flushes has a problem."""
    hashes = [one.text_hash for one in flushes if one.text_hash is not UNSET]
    return (
        _are_texts_valid(flushes)
        and are_hashes(hashes)
        and all(one.start_seq <= one.end_seq for one in flushes)
    )


def are_decisions_valid(decisions: Sequence[BufferDecision]) -> bool:
    """Return whether none of many decisions has a problem."""
    return _are_texts_valid(decisions) and [one.decision_id for one in decisions] == [
        f"{one.case_id}-{one.variant_id}-bd-{one.decision_index:03d}" for one in decisions
    ]


def are_summaries_valid(events: Sequence[VersionedRecord]) -> bool:
    """Return whether no summary event has a problem; earlier versions lack some hashes."""
    hashes = [one.summarizer_input_hash for one in events]
    hashes += [one.new_buffer_text_hash for one in events]
    names = {one.latest_summary_event_id for one in events} - {None, UNSET}
    for one in events:
        if one.summary_history_event_ids is not UNSET:
            names.update(one.summary_history_event_ids)
    return (
        _are_texts_valid(events)
        and are_hashes([found for found in hashes if found is not UNSET])
        and all(matches_pattern(EVENT_PATTERN, name) for name in names)
        and [one.event_id for one in events]
        == [f"{one.case_id}-{one.variant_id}-se-{one.event_index:03d}" for one in events]
    )


def _are_texts_valid(records: Sequence[Struct]) -> bool:
    """Return whether case ids and timestamps are valid and only ``run_meta`` has provenance."""
    return (
        all(matches_pattern(CASE_PATTERN, name) for name in set(map(_case_of, records)))
        and all(matches_pattern(VARIANT_PATTERN, name) for name in set(map(_variant_of, records)))
        and are_moments(list(map(_moment_of, records)))
        and all(found == _NO_PROVENANCE for found in map(_provenance_of, records))
    )


def _check_ids(field: str, found: str | UnsetType, expected: str) -> Iterator[Problem]:
    if found is not UNSET and found != expected:
        yield Problem(f"$.{field}", f"got {found[:80]!r}, expected {expected!r}")


_case_of: Final = attrgetter("case_id")
_variant_of: Final = attrgetter("variant_id")
_moment_of: Final = attrgetter("timestamp")
_provenance_of: Final = attrgetter(*PROVENANCE_KEYS)
_NO_PROVENANCE: Final = (UNSET,) * len(PROVENANCE_KEYS)


def _is_window_ordered(record: VersionedRecord) -> bool:
    start, end = record.start_seq, record.end_seq
    return start is UNSET or end is UNSET or 0 <= start <= end


def check_window(record: VersionedRecord) -> Iterator[Problem]:
    """Yield a problem if the window ends before it starts."""
    if not _is_window_ordered(record):
        yield Problem(
            "$.end_seq", f"window must be ordered, got [{record.start_seq}, {record.end_seq}]"
        )


def _check_provenance(record: Struct) -> Iterator[Problem]:
    for key in PROVENANCE_KEYS:
        if getattr(record, key) is not UNSET:
            yield Problem(f"$.{key}", "belongs to run_meta, nowhere else")


_COUNTERS: Final = {
    "tokengate_flush": "flush_index",
    "buffer_decision": "decision_index",
    "summary_event": "event_index",
}
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


def _check_policy(line: int, meta: VersionedRecord) -> Iterator[Remark]:
    """Yield a trigger policy that does not belong to the variant, or is missing."""
    stated, implied = meta.trigger_policy, SOURCE_VARIANTS.get(meta.variant_id)
    if not isinstance(stated, str):
        if implied is None:
            message = (
                f"trigger_policy is missing; a variant of your own, such as {meta.variant_id}, "
                f"must have one of {', '.join(PARTS)}"
            )
            yield Remark(line, "variant_policy", "$.trigger_policy", message)
    elif implied not in (None, stated):
        message = f"must be {implied} under {meta.variant_id}, got {stated}"
        yield Remark(line, "variant_policy", "$.trigger_policy", message)


def check_summary_text(line: int, event: VersionedRecord, contributions: bool) -> Iterator[Remark]:
    """Yield a summary's size that does not fit its text, and a text that does not fit its fields.

    With ``contributions``, the text may end with the sixth field, as it did before 1.5.
    """
    text, size = event.summary_semantics_text, event.summary_ctu
    if size is not UNSET and size != count_ctu(text):
        message = f"must be {count_ctu(text)}, the size of summary_semantics_text, got {size}"
        yield Remark(line, "summary_size", "$.summary_ctu", message)
    content = event.summary_content
    if content is UNSET:
        return
    fields = [getattr(content, name) for name in SEMANTIC_FIELDS]
    if any(field is UNSET for field in fields) or text.strip() == " ".join(fields).strip():
        return
    last = getattr(content, LAST_FIELD)
    if (
        contributions
        and isinstance(last, str)
        and text.strip() == " ".join((*fields, last)).strip()
    ):
        return
    message = f"must be the first {len(fields)} fields of summary_content, joined by spaces"
    yield Remark(line, "semantics_text", "$.summary_semantics_text", message)


class RunRules(FileRules):
    """One ``run_meta`` first, kinds in order, indices from 0 without gaps, existing history.

    Each trigger policy writes certain kinds of records, and nothing may be cut off: every decision
    to summarize (V0, V3, V4) or flush (V2) has its summary, and every record its derived timestamp.
    The size of a summary is that of its text, and the text is made of its fields.

    A window that ends before it starts is a warning: if agents take turns, logs that follow the
    source have such windows.
    """

    _contributions = False
    """Whether the text of a summary may end with ``agent_contributions``."""

    def __init__(self) -> None:
        self._meta: VersionedRecord = None
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
            run = records[start:end]
            self._counts[place] += len(run)
            if self._meta is not None and place:
                yield from self._check_variant(lines[start:end], run, place)
            indices = [counter_of(one) for one in run] if place else []
            if place == 0 or not self._as_expected(run, place, indices):
                yield from self._see_each(lines[start:end], run, place, counter_of)
            else:
                self._place, self._next[place] = place, indices[-1] + 1
                if place == _LAST:
                    for line, event in zip(lines[start:end], run, strict=True):
                        yield from self._check_history(line, event)
                        yield from check_summary_text(line, event, self._contributions)
            start = end

    def _as_expected(self, run: Sequence[VersionedRecord], place: int, indices: list[int]) -> bool:
        """Return whether records of one kind have no remarks, apart from their history."""
        meta, first, count = self._meta, self._next[place], len(run)
        if meta is None or place < self._place or indices != list(range(first, first + count)):
            return False
        starts, ends = [one.start_seq for one in run], [one.end_seq for one in run]
        return (
            [one.case_id for one in run].count(meta.case_id) == count
            and [one.variant_id for one in run].count(meta.variant_id) == count
            and set(map(type, starts)) == set(map(type, ends)) == {int}
            and min(starts) >= 0
            and all(map(le, starts, ends))
        )

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
                yield from check_summary_text(line, record, self._contributions)

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
            self._to_summarize += sum(one.decision == "summarize" for one in records)
        if parts is None:
            return
        if (place == _FLUSH and not parts.gate) or (place == _DECISION and not parts.buffer):
            message = f"{variant} has no {RECORD_ORDER[place]} records"
            yield Remark(lines[0], "variant_records", "$.record_type", message)
        for line, record in zip(lines, records, strict=True):
            if place == _DECISION:
                novelty = getattr(record.filter_results, "novelty_passed", None)
                if parts.buffer and not parts.novelty and isinstance(novelty, bool):
                    path = "$.filter_results.novelty_passed"
                    message = (
                        f"must be null under {variant}, which does not check novelty, got {novelty}"
                    )
                    yield Remark(line, "variant_records", path, message)
            elif place == _FLUSH and record.trigger_reason == "turn_end":
                message = f"turns end no flush of {variant}; only V1 waits for the end of turns"
                yield Remark(line, "variant_records", "$.trigger_reason", message)
            elif place == _LAST and record.trigger_type not in (UNSET, parts.trigger):
                message = f"must be {parts.trigger} under {variant}, got {record.trigger_type}"
                yield Remark(line, "variant_records", "$.trigger_type", message)

    def _see_meta(self, line: int, meta: VersionedRecord) -> Iterator[Remark]:
        if self._meta is not None:
            message = f"a file has one run_meta, the first is on line {self._meta_line}"
            yield Remark(line, "one_run_meta", "$.record_type", message)
            return
        if self._place and not self._some_lost:
            message = "run_meta must be the first record of its file"
            yield Remark(line, "run_meta_first", "$.record_type", message)
        self._meta, self._meta_line = meta, line
        yield from _check_policy(line, meta)

    def _check_place(
        self, line: int, record: VersionedRecord, place: int, index: int
    ) -> Iterator[Remark]:
        """Yield remarks on a record's place, index, names or window."""
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
        if not _is_window_ordered(record):
            message = f"the window [{record.start_seq}, {record.end_seq}] ends before it starts"
            yield Remark(line, "window_order", "$.end_seq", message, "warning")

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
