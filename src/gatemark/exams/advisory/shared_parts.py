"""What records have in common, judged once for all of them.

Most of a record (the service, the recommendation, the outcome) is the same in thousands of others.
That part is judged once: whether it contradicts itself, what it violates, and its kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from gatemark.evidence.columns import ColumnReader, Columns
from gatemark.evidence.record_rules import RecordRule, RecordRules
from gatemark.exams.advisory.free_texts import FREE_FIELDS
from gatemark.exams.advisory.proof import is_implausible
from gatemark.exams.advisory.record import CASE_NOTES, AdvisoryDecision
from gatemark.exams.advisory.record_rules import BREACHES, CONTRADICTIONS, BreachKind, BreachRule

_REMEMBERED: Final = 50_000
SHARED: Final = (
    "service",
    "input_class",
    "source.fixture_set",
    "source.kind",
    "source.privacy_class",
    "recommendation.label",
    "recommendation.severity",
    "confidence.bucket",
    "confidence.bucket_rule",
    "authority_flags",
    "allowed_actions",
    "actual_action.kind",
    "actual_action.performed",
    "actual_action.performed_by",
    "human_or_atlas_decision.source",
    "human_or_atlas_decision.label",
    "human_or_atlas_decision.severity",
    "outcome",
    "npu_proof.proof_mode",
    "npu_proof.proof_ok",
    "npu_proof.inference_ran",
    "npu_proof.counter_path",
    "latency.timeout",
    "fallback.occurred",
    "fallback.kind",
    "fallback.expected",
    "privacy",
)
"""The fields by which shared parts differ.

What reads other fields, such as a rule or the scan of a new free text, looks at every record.
"""
DELTAS: Final = ("npu_proof.busy_delta_us", "npu_proof.service_reported_delta_us")
"""Of these, shared parts differ by whether there is one and whether it is 0."""


def is_shared(path: str) -> bool:
    """Whether a field is the same in all records of a shared part."""
    return path in SHARED or path in DELTAS or path.partition(".")[0] in SHARED


def _reads_shared(rule: RecordRule) -> bool:
    return all(map(is_shared, rule.paths))


SHARED_CONTRADICTIONS: Final = CONTRADICTIONS.select(_reads_shared)
OWN_CONTRADICTIONS: Final = CONTRADICTIONS.select(lambda rule: not _reads_shared(rule))
OWN_BREACHES: Final = BREACHES.select(lambda rule: not _reads_shared(rule))
OWN_FREE_FIELDS: Final = [field for field in FREE_FIELDS if not is_shared(field.path)]
OWN_FIELDS: Final = ColumnReader(
    (
        *OWN_CONTRADICTIONS.paths,
        *OWN_BREACHES.paths,
        *(field.path for field in OWN_FREE_FIELDS),
        "latency.total_ms",
    )
)
_PARTS: Final = RecordRules((*SHARED_CONTRADICTIONS.rules, *BREACHES.rules))
_PART_FIELDS: Final = ColumnReader(_PARTS.paths)
_shared_texts: Final = attrgetter(*(field.path for field in FREE_FIELDS if is_shared(field.path)))


class SharedPart:
    """What thousands of records have in common, judged once.

    ``record`` is the first of them without its own values; ``case`` is that of all. ``number`` is
    the code by which they are counted.
    """

    __slots__ = ("case", "number", "record", "sound", "texts", "violated")

    def __init__(
        self,
        number: int,
        record: AdvisoryDecision,
        case: str | None,
        violated: frozenset[BreachKind],
        *,
        sound: bool,
    ) -> None:
        self.number = number
        self.record = record
        self.case = case
        self.violated = violated
        self.sound = sound
        self.texts = tuple(text for text in _shared_texts(record) if text)


_Cell = tuple[int, str | None, tuple[object, ...]]


class Profile(NamedTuple):
    """The outcome of checking a batch: whether it is valid, and the shared part of each record."""

    sound: bool
    parts: list[SharedPart]
    columns: Columns


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
        self._known: dict[_Cell, SharedPart] = {}
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
        columns = OWN_FIELDS.read(batch)
        cells = self._find_cells(batch, RecordRules(OWN_BREACHES.list_broken(columns)))
        known = self._known
        unknown = {
            cell: record for cell, record in zip(cells, batch, strict=True) if cell not in known
        }
        if unknown:
            self._learn(unknown)
        parts = [known[cell] for cell in cells]
        sound = all(part.sound for part in parts) and OWN_CONTRADICTIONS.hold_for_all(columns)
        return Profile(sound, parts, columns)

    def _find_cells(
        self, batch: Sequence[AdvisoryDecision], breaches: RecordRules[BreachRule]
    ) -> list[_Cell]:
        """Return what records with equal shared parts have in common, besides what they violate."""
        cells = []
        numbers = self._numbers
        # Conduct is nearly always the same: comparing it is cheaper than hashing it.
        last_conduct: tuple[object, ...] | None = None
        number = 0
        for record in batch:
            action, fallback = record.actual_action, record.fallback
            conduct = (
                record.authority_flags,
                record.allowed_actions,
                action.kind,
                action.performed,
                action.performed_by,
                record.privacy,
                fallback.occurred,
                fallback.kind,
                fallback.expected,
                breaches.rules and _list_kinds(breaches, record),
            )
            if conduct != last_conduct:
                last_conduct, number = conduct, numbers[conduct]
            case = _find_case(record.notes) if record.notes else None
            cells.append((number, case, make_shared_key(record, numbers)))
        return cells

    def _learn(self, unknown: Mapping[_Cell, AdvisoryDecision]) -> None:
        """Judge the shared parts of some records, together where nothing is wrong with any."""
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
            self._same.clear()
        broken = _PARTS.list_broken(_PART_FIELDS.read(list(unknown.values())))
        for cell, record in unknown.items():
            found = [rule for rule, _ in RecordRules(broken).find_broken(record)] if broken else []
            self._known[cell] = SharedPart(
                number=self._numbers.next(),
                record=self._strip_own_values(record),
                case=cell[1],
                violated=frozenset(rule.kind for rule in found if isinstance(rule, BreachRule)),
                sound=all(isinstance(rule, BreachRule) for rule in found),
            )

    def _strip_own_values(self, record: AdvisoryDecision) -> AdvisoryDecision:
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


def _list_kinds(rules: RecordRules[BreachRule], record: AdvisoryDecision) -> frozenset[BreachKind]:
    """Return what a record violates."""
    return frozenset(rule.kind for rule, _ in rules.find_broken(record))


_profiler: Final = Profiler()


def profile_batch(batch: Sequence[AdvisoryDecision]) -> Profile:
    """Return the profile of a batch; that of the last batch is remembered."""
    return _profiler.profile(batch)


def are_all_sound(batch: Sequence[AdvisoryDecision]) -> bool:
    """Whether certainly no record of a batch contradicts itself; may say no wrongly, never yes."""
    return profile_batch(batch).sound


def _find_case(notes: Sequence[str]) -> str | None:
    for note in notes:
        if note in CASE_NOTES:
            return CASE_NOTES[note]
    return None


def make_shared_key(
    record: AdvisoryDecision, numbers: Mapping[tuple[object, ...], int]
) -> tuple[object, ...]:
    """Return everything besides conduct that determines a record's kind, validity and shared texts.

    Records with equal conduct and equal parts are judged once. Written out instead of using dotted
    names (``operator.attrgetter``), which took about twice as long for every record.
    ``numbers`` has a number for what has texts: there are thousands of parts, and comparing the
    texts of one that was not seen for a while waits for memory.
    """
    source, advice, confidence = record.source, record.recommendation, record.confidence
    reference, proof, latency = record.human_or_atlas_decision, record.npu_proof, record.latency
    return (
        numbers[
            record.service,
            record.input_class,
            source.fixture_set,
            confidence.bucket_rule,
            proof.counter_path,
        ],
        numbers[advice.label, reference.label, record.outcome],
        source.kind,
        source.privacy_class,
        advice.severity,
        reference.source,
        reference.severity,
        confidence.bucket,
        proof.proof_mode,
        proof.proof_ok,
        proof.inference_ran,
        # Absent, zero and moved are three different things; how far it moved is not.
        proof.busy_delta_us and True,
        proof.service_reported_delta_us and True,
        latency.timeout,
        latency.total_ms is None,
        is_implausible(proof.busy_delta_us, latency.total_ms) if proof.busy_delta_us else False,
    )
