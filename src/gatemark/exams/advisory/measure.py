"""The advisory fold: records in batches, counted by kind, with times by lane and violations.

Most of a record (the service, the recommendation, the outcome) is the same in thousands of others.
That part is judged once for all of them: whether it contradicts itself, what it violates, and its
kind. A record is then a number, and counting records is counting numbers.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import UNSET
from msgspec.structs import replace

from gatemark.evidence.exam import added_counts
from gatemark.evidence.hygiene import PrivateTextScan
from gatemark.exams.advisory.decision import (
    BUCKET_RULES,
    BUCKETS,
    CASE_NOTES,
    CODES_MAX,
    DEFAULT_BUCKET_RULE,
    ID_PATTERN,
    SHARED_TEXTS,
    AdvisoryDecision,
)
from gatemark.exams.advisory.inputs import (
    InputGroup,
    InputTable,
    input_group,
    input_pairs,
    input_rows,
    joined_tables,
)
from gatemark.exams.advisory.metrics import Kind, kind_of, shared_part
from gatemark.exams.advisory.policy import UNCERTAIN_BUCKETS
from gatemark.exams.advisory.record_rules import (
    KINDS_OF_BREACH,
    BatchTexts,
    batch_texts,
    breaches_of,
    bucket_fits,
    free_texts,
    hashes_are_whole,
    ids_are_whole,
    local_effects,
    moments_exist,
    readable_reason,
    shared_part_is_sound,
    surely_local,
)
from gatemark.exams.advisory.state import (
    AdvisoryExamState,
    LaneCase,
    NamedRecord,
    RunBucket,
    ViolatedField,
    Violation,
)
from gatemark.statistics.quantiles import sketched

EXACT_MAX: Final = 2_000_000
"""Up to this many times in all, percentiles are exact."""
NAMES_MAX: Final = 2_000
"""Up to this many runs or fixture sets are counted apart; beyond, none are."""
VIOLATIONS_KEPT: Final = 200
NAMED_PER_KIND: Final = 20
"""The most records of one kind that are named by their ids."""
INPUTS_MAX: Final = 2_000_000
"""Up to this many inputs, counted once per run and kind, are told apart; beyond, none are."""
MEANINGS_MAX: Final = 100_000
RUN_PATTERN: Final = re.compile(rf"run:[\w.:-]{{1,64}}|{ID_PATTERN}")
_REMEMBERED: Final = 50_000
_EDGES: Final = BUCKET_RULES[DEFAULT_BUCKET_RULE]

_shared_texts: Final = attrgetter(*SHARED_TEXTS)
K = TypeVar("K")


class SharedPart:
    """What thousands of records have in common, judged once.

    ``record`` is the first of them without its own values; ``case`` is that of all. ``number`` is
    the code by which they are counted.
    """

    __slots__ = ("breaches", "case", "number", "record", "sound", "texts")

    def __init__(self, number: int, record: AdvisoryDecision, case: str | None) -> None:
        self.number = number
        self.record = record
        self.case = case
        self.sound = shared_part_is_sound(record)
        self.breaches = [(kind, since) for rule, kind, since in KINDS_OF_BREACH if rule(record)]
        self.texts = tuple(text for text in _shared_texts(record) if text)

    def violated(self, version: int) -> set[str]:
        """Return what the part violates by a version of the rules."""
        return {kind for kind, since in self.breaches if since <= version}


class Profile(NamedTuple):
    """The outcome of checking a batch: whether it is valid, and the shared part of each record."""

    sound: bool
    parts: list[SharedPart]


class _Numbers(dict[tuple[object, ...], int]):
    """A number for everything; it keeps its number until too many are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.next = itertools.count(1).__next__

    def __missing__(self, part: tuple[object, ...]) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        self[part] = number = self.next()
        return number


class Profiler:
    """Checks batches; remembers the parts that records share, and the last batch.

    The reader needs to know whether any record of a batch contradicts itself; then the exam needs
    the kinds of its records. Both use the same fields, so the last profile is kept.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], SharedPart] = {}
        self._numbers = _Numbers()
        self._same: dict[object, object] = {}
        self._last: tuple[Sequence[Any], Profile | None] = ((), None)

    def profile(self, batch: Sequence[AdvisoryDecision]) -> Profile:
        """Return the profile of a batch, which must not change between two calls."""
        seen, found = self._last
        if found is None or seen is not batch:
            found = self._profile(batch)
            self._last = (batch, found)
        return found

    def _profile(self, batch: Sequence[AdvisoryDecision]) -> Profile:
        parts: list[SharedPart] = []
        known, numbers = self._known, self._numbers
        # Conduct is nearly always the same: comparing it is cheaper than hashing it.
        last_conduct: tuple[object, ...] | None = None
        number = 0
        sound = True
        all_local = surely_local(
            {effect for record in batch for effect in record.actual_action.side_effects}
        )
        for record in batch:
            confidence, action, fallback = record.confidence, record.actual_action, record.fallback
            case = _case_of(record.notes) if record.notes else None
            conduct = (
                record.authority_flags,
                record.allowed_actions,
                action.kind,
                action.performed,
                action.performed_by,
                all_local or local_effects(action.side_effects),
                record.privacy,
                fallback.occurred,
                fallback.kind,
                fallback.expected,
                readable_reason(fallback),
            )
            if conduct != last_conduct:
                last_conduct, number = conduct, numbers[conduct]
            cell = (number, case, shared_part(record, numbers))
            part = known.get(cell) or self._learn(cell, record, case)
            parts.append(part)
            score = confidence.score
            if not part.sound or not (
                score.__class__ is float
                and confidence.bucket_rule == DEFAULT_BUCKET_RULE
                and confidence.bucket == BUCKETS[bisect_right(_EDGES, score)]
            ):
                sound = sound and part.sound and bucket_fits(confidence)
        return Profile(sound, parts)

    def _learn(
        self, cell: tuple[Any, ...], record: AdvisoryDecision, case: str | None
    ) -> SharedPart:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
            self._same.clear()
        shared = self._without_its_own(record)
        part = self._known[cell] = SharedPart(self._numbers.next(), shared, case)
        return part

    def _without_its_own(self, record: AdvisoryDecision) -> AdvisoryDecision:
        """Return a record without ids and lists of codes; shared values are one object."""
        source, advice, reference = (
            record.source,
            record.recommendation,
            record.human_or_atlas_decision,
        )
        same = {
            name: self._same.setdefault(value, value)
            for name in ("service", "authority_flags", "actual_action", "outcome", "privacy")
            if (value := getattr(record, name))
        }
        return replace(
            record,
            decision_id="",
            timestamp="",
            notes=UNSET,
            source=replace(source, fixture_id=UNSET, artifact_ref=UNSET, content_hash=UNSET),
            recommendation=replace(advice, reasons=(), evidence_refs=UNSET, raw_output_ref=UNSET),
            human_or_atlas_decision=replace(reference, decision_ref=UNSET, timestamp=UNSET),
            **same,
        )


_profiler: Final = Profiler()


def all_sound(batch: Sequence[AdvisoryDecision]) -> bool:
    """Whether certainly no record of a batch contradicts itself; may say no wrongly, never yes."""
    moments = [record.timestamp for record in batch]
    moments += [moment for record in batch if (moment := record.human_or_atlas_decision.timestamp)]
    return (
        _profiler.profile(batch).sound
        and ids_are_whole([record.decision_id for record in batch])
        and moments_exist(moments)
        and hashes_are_whole([text for record in batch if (text := record.source.content_hash)])
    )


def _case_of(notes: Sequence[str]) -> str | None:
    for note in notes:
        if note in CASE_NOTES:
            return CASE_NOTES[note]
    return None


def lanes_of(state: AdvisoryExamState) -> list[str]:
    """The lanes of all counted records."""
    return sorted({kind.lane for kind in state.kinds})


class Meaning(NamedTuple):
    """The meaning of a code."""

    kind: Kind
    case: str | None
    fixture_set: str | None
    model: str | None


class Collector:
    """Adds batches to a state as codes, and keeps their meanings until they are counted.

    A record with private text besides its shared part is of another kind than the others; its code
    is the negative one.
    """

    def __init__(self, scan: PrivateTextScan, version: int = 2) -> None:
        self._scan = scan
        self._version = version
        self._meanings: dict[int, Meaning] = {}
        self._clean: set[int] = set()
        self._right: set[int] = set()

    def forget(self) -> None:
        """Drop the meanings of codes if there are many; all of them must have been counted."""
        if len(self._meanings) > MEANINGS_MAX:
            self._meanings, self._clean, self._right = {}, set(), set()

    def collect(self, state: AdvisoryExamState, batch: Sequence[AdvisoryDecision]) -> None:
        """Add a batch to the columns of a state, and its violations."""
        profile = _profiler.profile(batch)
        codes = [part.number for part in profile.parts]
        violations: list[Violation] = []
        texts = batch_texts(batch)
        for place in self._places_to_read(batch, profile, texts, codes):
            codes[place] = self._read(batch[place], profile.parts[place], violations)
        times = [record.latency.total_ms for record in batch]
        state.codes += np.array(codes, dtype=np.int64).tobytes()
        state.times += np.array(times, dtype=np.float64).tobytes()
        state.pairs += input_pairs([record.source for record in batch])
        self._note_runs(state, batch, texts.runs)
        state.last = max((state.last, *_last_moments(batch, state.last[0])))
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
        names = {run: _run_name(run) for run in set(runs).difference(known)}
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
            state.named[kind] = _first_named(state.named.get(kind, []), named)
        state.named_codes = {}
        if not state.too_many_runs:
            self._count_runs(state, meanings, places)
        state.codes, state.times, state.pairs = bytearray(), bytearray(), bytearray()
        state.run_places, state.run_names = bytearray(), {}
        return _bounded(state)

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
                    input_group(kind, meaning.fixture_set, meaning.model), len(groups)
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
            table = input_rows(pairs, np.array(group_of)[places], runs)
            table.groups, table.runs = list(groups), names
            state.inputs = joined_tables([state.inputs, table])

    def _places_to_read(
        self,
        batch: Sequence[AdvisoryDecision],
        profile: Profile,
        texts: BatchTexts,
        codes: list[int],
    ) -> Sequence[int]:
        """Return the positions of records with violations, or with a text not known to be clean."""
        scan, clean = self._scan, self._clean
        if not clean.issuperset(codes):
            for part in profile.parts:
                if part.number not in self._meanings:
                    self._learn(part)
        private = scan.private(texts.codes) or scan.private(texts.notes, note=True)
        if not private and not texts.too_long:
            return [place for place, code in enumerate(codes) if code not in clean]
        return [
            place
            for place, (record, code) in enumerate(zip(batch, codes, strict=True))
            if code not in clean
            or len(record.recommendation.reasons) > CODES_MAX
            or len(record.recommendation.evidence_refs or ()) > CODES_MAX
            or any(scan.kinds(text, note=note) for _, text, note in free_texts(record))
        ]

    def _learn(self, part: SharedPart) -> None:
        self._meanings[part.number] = self._meaning(part, private_text=False)
        if not part.breaches and not any(self._scan.kinds(text) for text in part.texts):
            self._clean.add(part.number)

    def _read(self, record: AdvisoryDecision, part: SharedPart, violations: list[Violation]) -> int:
        """Record every violation of a record; return its code."""
        found = breaches_of(record, self._version)
        violations.extend(Violation(record.decision_id, why.path, kind) for kind, why in found)
        shared = part.violated(self._version)
        private = [
            Violation(record.decision_id, field, kind)
            for field, text, note in free_texts(record)
            for kind in self._scan.kinds(text, note=note)
        ]
        violations.extend(private)
        if not private and ("privacy" in shared or all(kind != "privacy" for kind, _ in found)):
            return part.number
        self._meanings.setdefault(-part.number, self._meaning(part, private_text=True))
        return -part.number

    def _meaning(self, part: SharedPart, *, private_text: bool) -> Meaning:
        record = part.record
        return Meaning(
            kind=kind_of(
                record,
                noted=part.case is not None,
                private_text=private_text,
                version=self._version,
                violated=part.violated(self._version),
            ),
            case=part.case,
            fixture_set=record.source.fixture_set or None,
            model=record.service.model or None,
        )


def _is_right(kind: Kind) -> bool:
    """Whether a kind is right under any policy; may say no wrongly, never yes."""
    violates = kind.authority or kind.side_effect or kind.privacy or kind.no_reason
    return (
        not violates
        and kind.label == kind.reference_label
        and kind.severity == kind.reference_severity
        and kind.bucket not in UNCERTAIN_BUCKETS
        and (kind.fallback is None or kind.fallback_expected)
    )


def _first_named(left: list[NamedRecord], right: list[NamedRecord]) -> list[NamedRecord]:
    if not left or not right:
        return left or right[:NAMED_PER_KIND]
    if len(left) == NAMED_PER_KIND and left[-1].shard < right[0].shard:
        return left
    ordered = sorted([*left, *right], key=lambda named: (named.shard, named.place))
    return ordered[:NAMED_PER_KIND]


def merged(left: AdvisoryExamState, right: AdvisoryExamState) -> AdvisoryExamState:
    """Return one state for two disjoint sets of counted records."""
    lanes = {*left.times_by_lane, *right.times_by_lane}
    sketched_lanes = {*left.sketches, *right.sketches}
    total = AdvisoryExamState(
        shard=min(left.shard, right.shard),
        kinds=added_counts(left.kinds, right.kinds),
        runs=added_counts(left.runs, right.runs),
        too_many_runs=left.too_many_runs or right.too_many_runs,
        cases=added_counts(left.cases, right.cases),
        fixture_sets=added_counts(left.fixture_sets, right.fixture_sets),
        too_many_sets=left.too_many_sets or right.too_many_sets,
        times_by_lane={
            lane: left.times_by_lane.get(lane, b"") + right.times_by_lane.get(lane, b"")
            for lane in lanes
        },
        sketches={
            lane: added_counts(left.sketches.get(lane, {}), right.sketches.get(lane, {}))
            for lane in sketched_lanes
        },
        violations={**left.violations, **right.violations},
        violation_counts=added_counts(left.violation_counts, right.violation_counts),
        named={
            kind: _first_named(left.named.get(kind, []), right.named.get(kind, []))
            for kind in {**left.named, **right.named}
        },
        inputs=joined_tables([left.inputs, right.inputs]),
        too_many_inputs=left.too_many_inputs or right.too_many_inputs,
        first_times=dict(left.first_times),
        last=max(left.last, right.last),
    )
    for run, first in right.first_times.items():
        total.first_times[run] = min(first, total.first_times.get(run, first))
    return _bounded(total)


def _bounded(state: AdvisoryExamState) -> AdvisoryExamState:
    """Limit the size of a state: sketches for too many times, no names for too many names."""
    if state.too_many_runs or len({key.run for key in state.runs}) > NAMES_MAX:
        state.runs, state.too_many_runs = {}, True
        state.first_times, state.inputs = {}, InputTable()
    if state.too_many_sets or len(state.fixture_sets) > NAMES_MAX:
        state.fixture_sets, state.too_many_sets = {}, True
    if state.too_many_inputs or len(state.inputs) > INPUTS_MAX:
        state.inputs, state.too_many_inputs = InputTable(), True
    if len(state.named) > NAMES_MAX:
        # Enough kinds are wrong: one record of each is enough.
        state.named = {kind: named[:1] for kind, named in state.named.items()}
    size = sum(map(len, state.times_by_lane.values())) // 8
    if size > EXACT_MAX or state.sketches:
        for lane, data in state.times_by_lane.items():
            more = sketched(np.frombuffer(data, dtype=np.float64))
            state.sketches[lane] = added_counts(state.sketches.get(lane, {}), more)
        state.times_by_lane = {}
    return state


@lru_cache(NAMES_MAX)
def _run_name(run: str) -> str:
    return run if RUN_PATTERN.fullmatch(run) else ""


def _last_moments(batch: Sequence[AdvisoryDecision], after: str) -> Iterator[tuple[str, str]]:
    """Yield each time from ``after`` on, to the second, with the id of its record."""
    for record in batch:
        for moment in (record.timestamp, record.human_or_atlas_decision.timestamp):
            # Lower-case letters and fractions sort later, so nothing is skipped.
            if moment and moment >= after:
                yield moment[:19].upper(), record.decision_id


def _add(counts: dict[K, int], key: K, count: int) -> None:
    counts[key] = counts.get(key, 0) + count
