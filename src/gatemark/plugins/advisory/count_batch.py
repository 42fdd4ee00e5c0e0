"""The fold over advisory records: a batch becomes columns, and its rows are counted by columns.

A key of ``exam_state`` says by which: its fields are names of columns. Over which of the counted
records a metric is, is in the table of ``metrics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from gatemark.evidence.columns import Columns
from gatemark.evidence.private_text import PrivateTextScan
from gatemark.plugins.advisory.category import UNCERTAIN_BUCKETS
from gatemark.plugins.advisory.exam_state import (
    NAMED_PER_KIND,
    AdvisoryExamState,
    LaneCase,
    NamedRecord,
    RunBucket,
)
from gatemark.plugins.advisory.input_rows import hash_inputs
from gatemark.plugins.advisory.record import AdvisoryDecision
from gatemark.plugins.advisory.record_columns import derive_columns, read_fields
from gatemark.plugins.advisory.record_kind import RecordKind
from gatemark.plugins.advisory.run_names import name_runs
from gatemark.plugins.advisory.violations import ViolatedField, Violation, find_violations

VIOLATIONS_KEPT: Final = 200
K = TypeVar("K")
Key = TypeVar("Key", bound=msgspec.Struct)


def count_batch(
    state: AdvisoryExamState, batch: Sequence[AdvisoryDecision], scan: PrivateTextScan
) -> None:
    """Add the counts of a batch to a state."""
    fields = read_fields(batch)
    violations = find_violations(batch, fields, scan)
    runs = name_runs(fields["source.artifact_ref"], state.first_times)
    columns = derive_columns(fields, violations.kinds, runs)
    _name_doubtful(state, fields, columns, violations.kinds)
    _add(state.kinds, _count_by(RecordKind, columns))
    _add(state.runs, _count_by(RunBucket, columns))
    _add(state.cases, _count_by(LaneCase, columns, where="case"))
    _add(state.fixture_sets, Counter(filter(None, columns["fixture_set"])).items())
    state.inputs.add_rows(columns, hash_inputs(fields))
    _add_times(state, columns["lane"], fields["latency.total_ms"])
    _note_first_times(state.first_times, runs, fields["timestamp"])
    state.last = max((state.last, *_list_last_moments(fields, state.last[0])))
    _add_violations(state, violations.listed)
    state.records += len(batch)


def _count_by(
    key: type[Key], columns: Columns, *, where: str | None = None
) -> Iterator[tuple[Key, int]]:
    """Count rows by the columns that a key names; only those that have a value in ``where``."""
    rows: Iterable[tuple[Any, ...]] = _list_rows(key, columns)
    if where is not None:
        rows = compress(rows, columns[where])
    for values, count in Counter(rows).items():
        yield key(*values), count


def _list_rows(key: type[msgspec.Struct], columns: Columns) -> Iterable[tuple[Any, ...]]:
    return zip(*(columns[name] for name in key.__struct_fields__), strict=True)


def _add(counts: dict[K, int], found: Iterable[tuple[K, int]]) -> None:
    for key, count in found:
        counts[key] = counts.get(key, 0) + count


def _add_times(
    state: AdvisoryExamState, lanes: Sequence[str], times: Sequence[float | None]
) -> None:
    by_lane: dict[str, list[float]] = {}
    for lane, time in zip(lanes, times, strict=True):
        if time is not None:
            by_lane.setdefault(lane, []).append(time)
    for lane, found in by_lane.items():
        data = state.times_by_lane.setdefault(lane, bytearray())
        data += np.array(found, dtype=np.float64).tobytes()


def _name_doubtful(
    state: AdvisoryExamState, fields: Columns, columns: Columns, breached: Container[int]
) -> None:
    """Name the first records of each kind that is not right under any policy."""
    compared = zip(*(columns[name] for name in _COMPARED), strict=True)
    doubtful = [
        place for place, row in enumerate(compared) if place in breached or not _is_right(row)
    ]
    if not doubtful:
        return
    kinds = list(_list_rows(RecordKind, columns))
    for place in doubtful:
        named = state.named.setdefault(RecordKind(*kinds[place]), [])
        if len(named) < NAMED_PER_KIND:
            named.append(
                NamedRecord(
                    state.shard,
                    state.records + place,
                    fields["decision_id"][place],
                    fields["source.fixture_id"][place] or None,
                    fields["source.artifact_ref"][place] or None,
                )
            )


_COMPARED: Final = (
    "label",
    "reference_label",
    "severity",
    "reference_severity",
    "bucket",
    "fallback",
    "fallback_expected",
)


def _is_right(row: tuple[Any, ...]) -> bool:
    """Whether a record without violations is right under any policy; may say no wrongly."""
    label, reference_label, severity, reference_severity, bucket, fallback, is_expected = row
    return (
        label == reference_label
        and severity == reference_severity
        and bucket not in UNCERTAIN_BUCKETS
        and bool(fallback is None or is_expected)
    )


def _note_first_times(
    first: dict[str, str], runs: Sequence[str], timestamps: Sequence[str]
) -> None:
    """Note when each run began, to the second."""
    for run, moment in zip(runs, timestamps, strict=True):
        earliest = first.get(run)
        # Most records are later and can be skipped; a lower-case letter would sort wrongly.
        if earliest is None or moment < earliest or moment[10] == "t":
            second = moment[:19].upper()
            if earliest is None or second < earliest:
                first[run] = second


def _list_last_moments(fields: Columns, after: str) -> Iterator[tuple[str, str]]:
    """Yield each time from ``after`` on, to the second, with the id of its record."""
    for name in ("timestamp", "human_or_atlas_decision.timestamp"):
        for moment, decision_id in zip(fields[name], fields["decision_id"], strict=True):
            # Lower-case letters and fractions sort later, so nothing is skipped.
            if moment and moment >= after:
                yield moment[:19].upper(), decision_id


def _add_violations(state: AdvisoryExamState, found: Sequence[Violation]) -> None:
    if found:
        kept = state.violations.setdefault(state.shard, [])
        kept.extend(found[: VIOLATIONS_KEPT - len(kept)])
        fields = (ViolatedField(hit.field.partition("[")[0], hit.kind) for hit in found)
        _add(state.violation_counts, Counter(fields).items())
