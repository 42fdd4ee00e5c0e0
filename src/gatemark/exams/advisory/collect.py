"""The fold over advisory records: batches become columns of codes, and codes are counted.

A code stands for a shared part (``shared_parts``), so that counting records is counting numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import UnsetType

from gatemark.evidence.private_text import PrivateTextScan
from gatemark.exams.advisory.category import UNCERTAIN_BUCKETS
from gatemark.exams.advisory.free_texts import collect_texts, list_free_texts
from gatemark.exams.advisory.inputs import (
    InputGroup,
    build_rows,
    group_input,
    hash_inputs,
    join_tables,
)
from gatemark.exams.advisory.kind import RecordKind, derive_kind
from gatemark.exams.advisory.merge import NAMED_PER_KIND, NAMES_MAX, bound_size, keep_first_named
from gatemark.exams.advisory.record import ID_PATTERN, AdvisoryDecision
from gatemark.exams.advisory.record_rules import BREACHES
from gatemark.exams.advisory.shared_parts import OWN_FREE_FIELDS, Profile, SharedPart, profile_batch
from gatemark.exams.advisory.state import (
    AdvisoryExamState,
    LaneCase,
    NamedRecord,
    RunBucket,
    ViolatedField,
    Violation,
)

VIOLATIONS_KEPT: Final = 200
MEANINGS_MAX: Final = 100_000
RUN_PATTERN: Final = re.compile(rf"run:[\w.:-]{{1,64}}|{ID_PATTERN}")
K = TypeVar("K")


class Meaning(NamedTuple):
    """The meaning of a code."""

    kind: RecordKind
    case: str | None
    fixture_set: str | None
    model: str | None


class Collector:
    """Adds batches to a state as codes, and keeps their meanings until they are counted.

    A record with private text besides its shared part is of another kind than the others; its code
    is the negative one.
    """

    def __init__(self, scan: PrivateTextScan) -> None:
        self._scan = scan
        self._meanings: dict[int, Meaning] = {}
        self._clean: set[int] = set()
        self._right: set[int] = set()

    def forget(self) -> None:
        """Drop the meanings of codes if there are many; all of them must have been counted."""
        if len(self._meanings) > MEANINGS_MAX:
            self._meanings, self._clean, self._right = {}, set(), set()

    def collect(self, state: AdvisoryExamState, batch: Sequence[AdvisoryDecision]) -> None:
        """Add a batch to the columns of a state, and its violations."""
        profile = profile_batch(batch)
        codes = [part.number for part in profile.parts]
        violations: list[Violation] = []
        for place in self._find_places_to_read(batch, profile, codes):
            codes[place] = self._read(batch[place], profile.parts[place], violations)
        times = profile.columns["latency.total_ms"]
        state.codes += np.array(codes, dtype=np.int64).tobytes()
        state.times += np.array(times, dtype=np.float64).tobytes()
        state.pairs += hash_inputs([record.source for record in batch])
        self._note_runs(state, batch, list(map(_name_run, profile.columns["source.artifact_ref"])))
        state.last = max((state.last, *_list_last_moments(batch, state.last[0])))
        self._name_records(state, batch, codes)
        if violations:
            kept = state.violations.setdefault(state.shard, [])
            kept.extend(violations[: VIOLATIONS_KEPT - len(kept)])
            for hit in violations:
                key = ViolatedField(hit.field.partition("[")[0], hit.kind)
                _add(state.violation_counts, key, 1)

    def _name_records(
        self, state: AdvisoryExamState, batch: Sequence[AdvisoryDecision], codes: list[int]
    ) -> None:
        """Record the first records of each kind that is not certainly right."""
        if self._right.issuperset(codes):
            return
        start = len(state.codes) // 8 - len(codes)
        for place, (record, code) in enumerate(zip(batch, codes, strict=True), start):
            if code in self._right:
                continue
            if _is_right(self._meanings[code].kind):
                self._right.add(code)
                continue
            named = state.named_codes.setdefault(code, [])
            if len(named) < NAMED_PER_KIND:
                source = record.source
                named.append(
                    NamedRecord(
                        state.shard,
                        place,
                        record.decision_id,
                        source.fixture_id or None,
                        source.artifact_ref or None,
                    )
                )

    @staticmethod
    def _note_runs(
        state: AdvisoryExamState, batch: Sequence[AdvisoryDecision], runs: Sequence[str]
    ) -> None:
        """Record the run of every record, and when each run began, to the second.

        Beyond ``NAMES_MAX`` runs, all records are of one run without a name.
        """
        known = state.run_names
        # A run that was seen before keeps its name.
        names = {run: _accept_run_name(run) for run in set(runs).difference(known)}
        for name in names.values():
            if name not in known and len(known) > NAMES_MAX:
                state.too_many_runs = True
                break
            known.setdefault(name, len(known))
        if state.too_many_runs:
            state.run_names, state.first_times = {}, {}
            state.run_places = bytearray(len(state.codes) // 2)
            return
        named = [names.get(run, run) for run in runs] if names else runs
        places = list(map(known.__getitem__, named))
        state.run_places += np.array(places, dtype=np.uint32).tobytes()
        first = state.first_times
        for name, record in zip(named, batch, strict=True):
            moment, earliest = record.timestamp, first.get(name)
            # Most records are later and can be skipped; a lower-case letter would sort wrongly.
            if earliest is None or moment < earliest or moment[10] == "t":
                second = moment[:19].upper()
                if earliest is None or second < earliest:
                    first[name] = second

    def settle(self, state: AdvisoryExamState) -> AdvisoryExamState:
        """Count the columns of a state and clear them."""
        if not state.codes:
            return state
        codes = np.frombuffer(state.codes, dtype=np.int64)
        times = np.frombuffer(state.times, dtype=np.float64)
        used, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
        meanings = [self._meanings[code] for code in used.tolist()]
        timed = ~np.isnan(times)
        lanes, lane_of_code = np.unique(
            [meaning.kind.lane for meaning in meanings], return_inverse=True
        )
        lane_of, own_times = lane_of_code[places][timed], times[timed]
        for number in np.flatnonzero(np.bincount(lane_of)).tolist():
            lane, data = str(lanes[number]), own_times[lane_of == number].tobytes()
            state.times_by_lane[lane] = state.times_by_lane.get(lane, b"") + data
        for meaning, total in zip(meanings, counts.tolist(), strict=True):
            _add(state.kinds, meaning.kind, total)
            if meaning.case is not None:
                _add(state.cases, LaneCase(meaning.kind.lane, meaning.case), total)
            if meaning.fixture_set is not None and not state.too_many_sets:
                _add(state.fixture_sets, meaning.fixture_set, total)
        for code, named in state.named_codes.items():
            kind = self._meanings[code].kind
            state.named[kind] = keep_first_named(state.named.get(kind, []), named)
        state.named_codes = {}
        if not state.too_many_runs:
            self._count_runs(state, meanings, places)
        state.codes, state.times, state.pairs = bytearray(), bytearray(), bytearray()
        state.run_places, state.run_names = bytearray(), {}
        return bound_size(state)

    @staticmethod
    def _count_runs(
        state: AdvisoryExamState, meanings: Sequence[Meaning], places: npt.NDArray[np.int64]
    ) -> None:
        """Count the columns by run: buckets, and the inputs that each run had."""
        names = list(state.run_names)
        runs = np.frombuffer(state.run_places, dtype=np.uint32).astype(np.int64)
        buckets: dict[tuple[str, str, bool], int] = {}
        groups: dict[InputGroup, int] = {}
        bucket_of, group_of = [], []
        for meaning in meanings:
            kind = meaning.kind
            bucket = (kind.lane, kind.bucket, kind.mode == "offline_fixture")
            bucket_of.append(buckets.setdefault(bucket, len(buckets)))
            group_of.append(
                groups.setdefault(
                    group_input(kind, meaning.fixture_set, meaning.model), len(groups)
                )
            )
        cells, counts = np.unique(
            runs * len(buckets) + np.array(bucket_of)[places], return_counts=True
        )
        cell_names = list(buckets)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            run, bucket_place = divmod(cell, len(buckets))
            _add(state.runs, RunBucket(names[run], *cell_names[bucket_place]), count)
        if not state.too_many_inputs:
            pairs = np.frombuffer(state.pairs, dtype=np.uint64).reshape(-1, 2)
            table = build_rows(pairs, np.array(group_of)[places], runs)
            table.groups, table.runs = list(groups), names
            state.inputs = join_tables([state.inputs, table])

    def _find_places_to_read(
        self,
        batch: Sequence[AdvisoryDecision],
        profile: Profile,
        codes: list[int],
    ) -> Sequence[int]:
        """Return the positions of records with violations, or with a text not known to be clean."""
        scan, clean = self._scan, self._clean
        if not clean.issuperset(codes):
            for part in profile.parts:
                if part.number not in self._meanings:
                    self._learn(part)
        texts = collect_texts(profile.columns, OWN_FREE_FIELDS, "code")
        notes = collect_texts(profile.columns, OWN_FREE_FIELDS, "note")
        if not scan.private(texts) and not scan.private(notes, note=True):
            return [place for place, code in enumerate(codes) if code not in clean]
        return [
            place
            for place, (record, code) in enumerate(zip(batch, codes, strict=True))
            if code not in clean
            or any(scan.kinds(text, note=note) for _, text, note in list_free_texts(record))
        ]

    def _learn(self, part: SharedPart) -> None:
        self._meanings[part.number] = self._make_meaning(part, private_text=False)
        if not part.violated and not any(self._scan.kinds(text) for text in part.texts):
            self._clean.add(part.number)

    def _read(self, record: AdvisoryDecision, part: SharedPart, violations: list[Violation]) -> int:
        """Record every violation of a record; return its code."""
        violations.extend(
            Violation(record.decision_id, problem.path, rule.kind)
            for rule, problem in BREACHES.find_broken(record)
        )
        private = [
            Violation(record.decision_id, field, kind)
            for field, text, note in list_free_texts(record)
            for kind in self._scan.kinds(text, note=note)
        ]
        violations.extend(private)
        if not private:
            return part.number
        self._meanings.setdefault(-part.number, self._make_meaning(part, private_text=True))
        return -part.number

    def _make_meaning(self, part: SharedPart, *, private_text: bool) -> Meaning:
        record = part.record
        return Meaning(
            kind=derive_kind(
                record,
                noted=part.case is not None,
                private_text=private_text,
                violated=part.violated,
            ),
            case=part.case,
            fixture_set=record.source.fixture_set or None,
            model=record.service.model or None,
        )


def _is_right(kind: RecordKind) -> bool:
    """Whether a kind is right under any policy; may say no wrongly, never yes."""
    violates = kind.authority or kind.side_effect or kind.privacy or kind.no_reason
    return (
        not violates
        and kind.label == kind.reference_label
        and kind.severity == kind.reference_severity
        and kind.bucket not in UNCERTAIN_BUCKETS
        and (kind.fallback is None or kind.fallback_expected)
    )


def _name_run(artifact: str | UnsetType | None) -> str:
    """Return the run that a record may be of, by the reference to its artifact."""
    run = artifact or ""
    return run if len(run) in (26, 36) or run.startswith("run:") else ""


@lru_cache(NAMES_MAX)
def _accept_run_name(run: str) -> str:
    return run if RUN_PATTERN.fullmatch(run) else ""


def _list_last_moments(batch: Sequence[AdvisoryDecision], after: str) -> Iterator[tuple[str, str]]:
    """Yield each time from ``after`` on, to the second, with the id of its record."""
    for record in batch:
        for moment in (record.timestamp, record.human_or_atlas_decision.timestamp):
            # Lower-case letters and fractions sort later, so nothing is skipped.
            if moment and moment >= after:
                yield moment[:19].upper(), record.decision_id


def _add(counts: dict[K, int], key: K, count: int) -> None:
    counts[key] = counts.get(key, 0) + count
