"""One quick look at a batch of advisory records, for everyone who must look at all of them.

Admission asks whether any record contradicts itself; the exam asks what kinds of records there are.
Both questions need the same fields, so they are read once. Most of a record (who advised, what was
recommended, what came of it) is the same in thousands of others: that part is judged once for all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from gatemark.exams.advisory.categories import (
    BUCKET_RULES,
    BUCKETS,
    CASE_NOTES,
    DEFAULT_BUCKET_RULE,
)
from gatemark.exams.advisory.decision import (
    ID_PATTERN,
    LABEL_PATTERN,
    NAME_PATTERN,
    TIME_PATTERN,
    AdvisoryDecision,
    StatedConfidence,
)
from gatemark.exams.advisory.decision_rules import (
    authority_breaches,
    fallback_breaches,
    fallback_has_its_kind,
    is_a_day,
    matches,
    named_errors_disagree,
    privacy_breaches,
    proof_fits_its_mode,
    reference_is_whole,
    side_effect_breaches,
)

AUTHORITY, SIDE_EFFECT, PRIVACY, NO_REASON = 1, 2, 4, 8
_REMEMBERED: Final = 50_000
_EDGES: Final = BUCKET_RULES[DEFAULT_BUCKET_RULE]
_NAME: Final = re.compile(NAME_PATTERN)
_LABEL: Final = re.compile(LABEL_PATTERN)
_TIMES: Final = re.compile(rf"(?:{TIME_PATTERN.strip('^$')}\n)*")
_LAST_DAYS: Final = re.compile(r"-(?:29|3[01])T")
_IDS: Final = re.compile(rf"(?:(?:{ID_PATTERN.strip('^$')})\n)*")
_HEX: Final = b"0123456789abcdef"
_ULID: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Fact:
    """Everything about a record that thousands of others share, judged once.

    ``record`` is the first one; ``run`` and ``case`` are those of all. Equal parts share one
    object, which is known by its ``number``.
    """

    __slots__ = ("breaches", "case", "number", "record", "run", "sound", "texts")

    def __init__(
        self, number: int, record: AdvisoryDecision, run: str | None, case: str | None
    ) -> None:
        self.number = number
        self.record = record
        self.run = run
        self.case = case
        self.sound = _shared_part_is_sound(record)
        self.breaches = breaches_of(record)
        service = record.service
        self.texts: tuple[Any, ...] = (
            record.input_class,
            service.name,
            service.endpoint,
            service.model,
            record.source.fixture_set,
            run,
            record.npu_proof.counter_path,
            record.fallback.reason,
            *record.actual_action.side_effects,
        )


class Survey(NamedTuple):
    """What a look at a batch found: a fact per record, and the texts that facts do not hold.

    ``common`` are texts that tend to come again, ``singular`` those that tend to differ.
    """

    sound: bool
    facts: list[Fact]
    common: list[Any]
    singular: list[str]


class _Conduct:
    """What records are allowed and do; nearly always the same, so it is compared and not hashed."""

    __slots__ = ("action", "allowed", "fallback", "flags", "privacy")

    def __init__(self, record: Any) -> None:
        self.flags = record.authority_flags
        self.allowed = record.allowed_actions
        self.action = record.actual_action
        self.privacy = record.privacy
        self.fallback = record.fallback


_numbers = count(1)
_facts: dict[tuple[Any, ...], Fact] = {}
_conducts: dict[tuple[Any, ...], _Conduct] = {}
_runs: set[str] = set()
_last_conduct: _Conduct | None = None
_last_survey: tuple[Sequence[Any] | None, Survey] = (None, Survey(True, [], [], []))  # noqa: FBT003


def all_sound(batch: Sequence[AdvisoryDecision]) -> bool:
    """Whether surely no record of a batch contradicts itself; errs only by saying no."""
    moments = [record.timestamp for record in batch]
    moments += [moment for record in batch if (moment := record.human_or_atlas_decision.timestamp)]
    return (
        profile_batch(batch).sound
        and _ids_are_whole([record.decision_id for record in batch])
        and _moments_exist(moments)
        and _hashes_are_whole([text for record in batch if (text := record.source.content_hash)])
    )


def profile_batch(batch: Sequence[AdvisoryDecision]) -> Survey:
    """Look at a batch; looking at the same list twice in a row costs nothing.

    A list must not be changed between two looks at it.
    """
    global _last_survey  # noqa: PLW0603 - one batch is remembered, whole or not at all
    seen, found = _last_survey
    if seen is not batch and batch:
        found = _profile(batch)
        _last_survey = (batch, found)
    return found if batch else Survey(sound=True, facts=[], common=[], singular=[])


def _profile(batch: Sequence[AdvisoryDecision]) -> Survey:
    facts: list[Fact] = []
    common: list[Any] = []
    singular: list[str] = []
    known = _facts
    conduct = _last_conduct or _conduct_of(batch[0])
    sound = True
    for record in batch:
        source, service, advice = record.source, record.service, record.recommendation
        reference, proof, latency = record.human_or_atlas_decision, record.npu_proof, record.latency
        outcome, confidence = record.outcome, record.confidence
        if (
            record.authority_flags != conduct.flags
            or record.allowed_actions != conduct.allowed
            or record.actual_action != conduct.action
            or record.privacy != conduct.privacy
            or record.fallback != conduct.fallback
        ):
            conduct = _conduct_of(record)
        notes, run, fixture = record.notes, source.artifact_ref, source.fixture_id
        case = None
        if notes:
            singular += notes
            case = CASE_NOTES.get(notes[0]) or (_later_case(notes) if len(notes) > 1 else None)
        if fixture:
            singular.append(fixture)
        if reference.decision_ref and reference.decision_ref != fixture:
            singular.append(reference.decision_ref)
        common += advice.reasons
        if advice.evidence_refs or advice.raw_output_ref:
            common += (*(advice.evidence_refs or ()), advice.raw_output_ref)
        if run and run not in _runs:
            run = _run_or_none(run, common)
        cell = (
            conduct,
            record.input_class,
            service.name,
            service.endpoint,
            service.model,
            service.mode,
            source.kind,
            source.privacy_class,
            source.fixture_set,
            run,
            case,
            advice.label,
            advice.severity,
            reference.source,
            reference.label,
            reference.severity,
            confidence.bucket,
            confidence.bucket_rule,
            outcome.comparison,
            outcome.error_type,
            outcome.human_review_required,
            outcome.promotion_blocker,
            proof.proof_mode,
            proof.proof_ok,
            proof.inference_ran,
            # Absent, zero and moved are three different things; how far it moved is not.
            proof.busy_delta_us and True,
            proof.service_reported_delta_us and True,
            proof.counter_path,
            latency.timeout,
            latency.total_ms is None,
        )
        fact = known.get(cell) or _learnt(cell, record, run, case)
        facts.append(fact)
        score = confidence.score
        if not fact.sound or not (
            score.__class__ is float
            and confidence.bucket_rule == DEFAULT_BUCKET_RULE
            and confidence.bucket == BUCKETS[bisect_right(_EDGES, score)]
        ):
            sound = sound and fact.sound and _bucket_fits(confidence)
    return Survey(sound, facts, common, singular)


def _bucket_fits(confidence: StatedConfidence) -> bool:
    score, bucket = confidence.score, confidence.bucket
    if score is None or score is UNSET:
        return bucket == "unknown"
    if confidence.bucket_rule != DEFAULT_BUCKET_RULE:
        return bucket != "unknown"
    return bucket == BUCKETS[bisect_right(_EDGES, score)]


def _run_or_none(reference: str, common: list[Any]) -> str | None:
    """A reference that looks like the id of a run; any other is a text like others."""
    if len(reference) in (26, 36) or reference.startswith("run:"):
        if len(_runs) < _REMEMBERED:
            _runs.add(reference)
        return reference
    common.append(reference)
    return None


def _later_case(notes: Sequence[str]) -> str | None:
    return next((CASE_NOTES[note] for note in notes if note in CASE_NOTES), None)


def _conduct_of(record: AdvisoryDecision) -> _Conduct:
    global _last_conduct  # noqa: PLW0603 - the conduct that the next record most likely has
    parts = (
        record.authority_flags,
        record.allowed_actions,
        record.actual_action,
        record.privacy,
        record.fallback,
    )
    if len(_conducts) >= _REMEMBERED:
        _conducts.clear()
    _last_conduct = _conducts.get(parts) or _conducts.setdefault(parts, _Conduct(record))
    return _last_conduct


def _learnt(cell: tuple[Any, ...], record: AdvisoryDecision, run: Any, case: str | None) -> Fact:
    if len(_facts) >= _REMEMBERED:
        _facts.clear()
    fact = _facts[cell] = Fact(next(_numbers), record, run or None, case)
    return fact


def _shared_part_is_sound(record: AdvisoryDecision) -> bool:
    """Whether the part of a record that others share keeps every rule that concerns it alone."""
    labels = (record.recommendation.label, record.human_or_atlas_decision.label)
    names = (record.service.name, record.input_class, record.confidence.bucket_rule)
    return (
        all(matches(_LABEL, label) for label in labels if label)
        and all(matches(_NAME, name) for name in names)
        and not any(
            rule(record)
            for rule in (
                reference_is_whole,
                named_errors_disagree,
                proof_fits_its_mode,
                fallback_has_its_kind,
            )
        )
    )


def breaches_of(record: AdvisoryDecision) -> int:
    """The bits of everything that the fields of a record violate; its texts are not read."""
    return (
        (AUTHORITY if authority_breaches(record) else 0)
        | (SIDE_EFFECT if side_effect_breaches(record) else 0)
        | (PRIVACY if privacy_breaches(record) else 0)
        | (NO_REASON if fallback_breaches(record) else 0)
    )


def _ids_are_whole(ids: list[str]) -> bool:
    """Whether every id is a ULID, or else a UUID; types have bounded their lengths already."""
    joined = "".join(ids)
    if len(joined) == 26 * len(ids):
        letters = joined.encode("utf-8", "replace").translate(None, _ULID)
        return not letters and not joined[::26].strip("01234567")
    return _IDS.fullmatch("\n".join(ids) + "\n") is not None


def _moments_exist(moments: list[str]) -> bool:
    """Whether every time is one, in UTC, and on a day of the calendar."""
    lines = "\n".join(moments) + "\n"
    if _TIMES.fullmatch(lines) is None:
        return False
    # Only the last days of a month may be missing from the calendar.
    return _LAST_DAYS.search(lines) is None or all(map(is_a_day, moments))


def _hashes_are_whole(hashes: list[str]) -> bool:
    """Whether every hash has its prefix and 64 digits; the type has bounded its length already."""
    if not hashes:
        return True
    size = len(hashes)
    lines = "\n" + "\n".join(hashes)
    rest = lines.encode("utf-8", "replace").translate(None, _HEX)
    return len(lines) == 72 * size and lines.count("\nsha256:") == size and rest == b"\nsh:" * size
