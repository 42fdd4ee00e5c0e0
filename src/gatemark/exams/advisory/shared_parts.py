"""What records have in common, judged once for all of them.

Most of a record (the service, the recommendation, the outcome) is the same in thousands of others.
That part is judged once: whether it contradicts itself, what it violates, and its kind.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from gatemark.exams.advisory.batch_checks import (
    are_hashes_whole,
    are_ids_whole,
    are_moments_real,
    are_surely_local,
    is_bucket_right,
)
from gatemark.exams.advisory.breaches import KINDS_OF_BREACH, are_effects_local, has_readable_reason
from gatemark.exams.advisory.contradictions import is_shared_part_sound
from gatemark.exams.advisory.decision import (
    BUCKET_RULES,
    BUCKETS,
    CASE_NOTES,
    DEFAULT_BUCKET_RULE,
    SHARED_TEXTS,
    AdvisoryDecision,
)
from gatemark.exams.advisory.proof import is_implausible

_REMEMBERED: Final = 50_000
_EDGES: Final = BUCKET_RULES[DEFAULT_BUCKET_RULE]
_shared_texts: Final = attrgetter(*SHARED_TEXTS)


class SharedPart:
    """What thousands of records have in common, judged once.

    ``record`` is the first of them without its own values; ``case`` is that of all. ``number`` is
    the code by which they are counted.
    """

    __slots__ = ("case", "number", "record", "sound", "texts", "violated")

    def __init__(self, number: int, record: AdvisoryDecision, case: str | None) -> None:
        self.number = number
        self.record = record
        self.case = case
        self.sound = is_shared_part_sound(record)
        self.violated = frozenset(kind for rule, kind in KINDS_OF_BREACH if rule(record))
        self.texts = tuple(text for text in _shared_texts(record) if text)


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
        all_local = are_surely_local(
            {effect for record in batch for effect in record.actual_action.side_effects}
        )
        for record in batch:
            confidence, action, fallback = record.confidence, record.actual_action, record.fallback
            case = _find_case(record.notes) if record.notes else None
            conduct = (
                record.authority_flags,
                record.allowed_actions,
                action.kind,
                action.performed,
                action.performed_by,
                all_local or are_effects_local(action.side_effects),
                record.privacy,
                fallback.occurred,
                fallback.kind,
                fallback.expected,
                has_readable_reason(fallback),
            )
            if conduct != last_conduct:
                last_conduct, number = conduct, numbers[conduct]
            cell = (number, case, make_shared_key(record, numbers))
            part = known.get(cell) or self._learn(cell, record, case)
            parts.append(part)
            score = confidence.score
            if not part.sound or not (
                score.__class__ is float
                and confidence.bucket_rule == DEFAULT_BUCKET_RULE
                and confidence.bucket == BUCKETS[bisect_right(_EDGES, score)]
            ):
                sound = sound and part.sound and is_bucket_right(confidence)
        return Profile(sound, parts)

    def _learn(
        self, cell: tuple[Any, ...], record: AdvisoryDecision, case: str | None
    ) -> SharedPart:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
            self._same.clear()
        shared = self._strip_own_values(record)
        part = self._known[cell] = SharedPart(self._numbers.next(), shared, case)
        return part

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


_profiler: Final = Profiler()


def profile_batch(batch: Sequence[AdvisoryDecision]) -> Profile:
    """Return the profile of a batch; that of the last batch is remembered."""
    return _profiler.profile(batch)


def are_all_sound(batch: Sequence[AdvisoryDecision]) -> bool:
    """Whether certainly no record of a batch contradicts itself; may say no wrongly, never yes."""
    moments = [record.timestamp for record in batch]
    moments += [moment for record in batch if (moment := record.human_or_atlas_decision.timestamp)]
    return (
        profile_batch(batch).sound
        and are_ids_whole([record.decision_id for record in batch])
        and are_moments_real(moments)
        and are_hashes_whole([text for record in batch if (text := record.source.content_hash)])
    )


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
