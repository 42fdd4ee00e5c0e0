"""What scoring needs of a record, reduced to one cell: all its discrete facts, no text.

Records of a large file share few cells. Counting cells once, and asking everything else of the
small table of counts, is what makes a policy cheap to change.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from gatemark.core.advisory_record import ALLOWED_ACTIONS, CLOSED_FLAGS, ID_PATTERN, LOCAL_WRITES
from gatemark.core.advisory_rules import (
    authority_breaches,
    fallback_breaches,
    privacy_breaches,
    side_effect_breaches,
)
from gatemark.core.record import Problem
from gatemark.hygiene.private_text import PrivateTextScan

AUTHORITY, SIDE_EFFECT, PRIVACY, NO_REASON = 1, 2, 4, 8
CASE_KINDS: Final = ("normal", "low_confidence", "false_alarm", "action_needed")
CASE_NOTES: Final = {f"case:{kind}": kind for kind in CASE_KINDS}
RUN_PATTERN: Final = re.compile(rf"run:[\w.:-]{{1,64}}|{ID_PATTERN}")

CellValue = str | int | bool | None
CellTuple = tuple[CellValue, ...]


class Cell(NamedTuple):
    """One kind of record; ``breaches`` adds up the bits of what it violates."""

    input_class: str
    service: str
    mode: str
    source_kind: str
    fixture_set: str | None
    run: str | None
    label: str
    severity: str
    reference_source: str
    reference_label: str | None
    reference_severity: str | None
    bucket: str
    bucket_rule: str
    comparison: str
    error_type: str | None
    human_review_required: bool
    promotion_blocker: bool
    proof_mode: str
    proof_ok: bool | None
    inference_ran: bool
    timeout: bool
    timed: bool
    fallback: str | None
    fallback_expected: bool
    case: str | None
    breaches: int


class Violation(NamedTuple):
    """Where a record violates something: by id and field, never by content."""

    decision_id: str
    field: str
    kind: str


class Collected(NamedTuple):
    """The facts of a batch: a code per record, its time (NaN when unknown), and violations."""

    codes: array[int]
    times: array[float]
    violations: list[Violation]


_FLAGS: Final = CLOSED_FLAGS.__struct_fields__
_CLOSED: dict[type, Any] = {type(CLOSED_FLAGS): CLOSED_FLAGS}
_EFFECTS_ALLOWED: Final = frozenset({(), *((name,) for name in LOCAL_WRITES)})


def collect(batch: Sequence[Any], table: dict[CellTuple, int], scan: PrivateTextScan) -> Collected:
    """Reduce records to codes of cells; a cell seen for the first time gets the next code."""
    codes = array("I")
    violations: list[Violation] = []
    dirty = _records_to_read(batch, scan)
    for place, record in enumerate(batch):
        source, service, advice = record.source, record.service, record.recommendation
        reference, outcome, proof = (
            record.human_or_atlas_decision,
            record.outcome,
            record.npu_proof,
        )
        latency, fallback, confidence = record.latency, record.fallback, record.confidence
        breaches = _breaches(record)
        if breaches or place in dirty:
            breaches |= _noted(record, scan, violations)
        run = source.artifact_ref
        case = None
        for note in record.notes or ():
            if note in CASE_NOTES:
                case = CASE_NOTES[note]
        cell = (
            record.input_class,
            service.name,
            service.mode,
            source.kind,
            source.fixture_set or None,
            run if run and (len(run) in (26, 36) or run[:4] == "run:") else None,
            advice.label,
            advice.severity,
            reference.source,
            reference.label or None,
            reference.severity or None,
            confidence.bucket,
            confidence.bucket_rule,
            outcome.comparison,
            outcome.error_type or None,
            outcome.human_review_required,
            outcome.promotion_blocker,
            proof.proof_mode,
            proof.proof_ok,
            proof.inference_ran,
            latency.timeout,
            latency.total_ms is not None,
            fallback.kind or None,
            fallback.expected,
            case,
            breaches,
        )
        code = table.get(cell)
        if code is None:
            code = table[cell] = len(table)
        codes.append(code)
    times = [record.latency.total_ms for record in batch]
    if None in times:
        times = [float("nan") if value is None else value for value in times]
    return Collected(codes, array("d", times), violations)


def _breaches(record: Any) -> int:
    """The bits of everything that the fields themselves say; texts are not read here."""
    found = 0
    flags = record.authority_flags
    closed = _CLOSED.get(type(flags))
    if closed is None:
        closed = _CLOSED[type(flags)] = _closed_as(type(flags))
    error = record.outcome.error_type
    if (
        flags != closed
        or error == "unsafe_authority"
        or not ALLOWED_ACTIONS.issuperset(record.allowed_actions)
    ):
        found |= AUTHORITY
    action = record.actual_action
    if action.performed or (
        action.side_effects not in _EFFECTS_ALLOWED and side_effect_breaches(record)
    ):
        found |= SIDE_EFFECT
    privacy = record.privacy
    if (
        privacy.payload_logged
        or privacy.contains_private_payload
        or error == "privacy_violation"
        or (
            record.source.privacy_class == "private_disallowed"
            and privacy.redaction != "blocked_private"
        )
    ):
        found |= PRIVACY
    fallback = record.fallback
    if fallback.occurred and not (fallback.reason or "").strip():
        found |= NO_REASON
    return found


def _closed_as(flags_type: type) -> Any:
    return flags_type(**{name: getattr(CLOSED_FLAGS, name) for name in _FLAGS})


def _records_to_read(batch: Sequence[Any], scan: PrivateTextScan) -> set[int]:
    """The places of records with a text that is not known to be clean."""
    repeated: list[Any] = []
    singular: list[str] = []
    for record in batch:
        source, service, advice = record.source, record.service, record.recommendation
        repeated += (
            record.input_class,
            service.name,
            source.fixture_set,
            source.artifact_ref,
            service.endpoint,
            service.model,
            *advice.reasons,
            *(advice.evidence_refs or ()),
            advice.raw_output_ref,
            record.npu_proof.counter_path,
            record.fallback.reason,
            *record.actual_action.side_effects,
        )
        fixture, cited = source.fixture_id, record.human_or_atlas_decision.decision_ref
        if fixture:
            singular.append(fixture)
        if cited and cited != fixture:
            singular.append(cited)
        if record.notes:
            singular += record.notes
    if scan.all_known(repeated) and (not singular or scan.all_alike(singular)):
        return set()
    return {
        place
        for place, record in enumerate(batch)
        if any(scan.kinds(text, note=note) for _, text, note in texts_of(record))
    }


def texts_of(record: Any) -> list[tuple[str, str, bool]]:
    """Every free text of a record: its field, itself, and whether it may be as long as a note.

    Labels and bucket rules are not free: the policy names every one that may be used.
    """
    source, service, advice = record.source, record.service, record.recommendation
    single = (
        ("$.source.fixture_id", source.fixture_id),
        ("$.source.fixture_set", source.fixture_set),
        ("$.source.artifact_ref", source.artifact_ref),
        ("$.service.name", service.name),
        ("$.service.endpoint", service.endpoint),
        ("$.service.model", service.model),
        ("$.input_class", record.input_class),
        ("$.recommendation.raw_output_ref", advice.raw_output_ref),
        ("$.human_or_atlas_decision.decision_ref", record.human_or_atlas_decision.decision_ref),
        ("$.npu_proof.counter_path", record.npu_proof.counter_path),
        ("$.fallback.reason", record.fallback.reason),
    )
    lists = (
        ("$.recommendation.reasons", advice.reasons, False),
        ("$.recommendation.evidence_refs", advice.evidence_refs or (), False),
        ("$.actual_action.side_effects", record.actual_action.side_effects, False),
        ("$.notes", record.notes or (), True),
    )
    found = [(field, text, False) for field, text in single if text and text is not UNSET]
    found.extend(
        (f"{field}[{place}]", text, note)
        for field, texts, note in lists
        for place, text in enumerate(texts)
    )
    return found


def _noted(record: Any, scan: PrivateTextScan, violations: list[Violation]) -> int:
    """Note every violation of a record; gives the bits it adds."""

    def note(problems: Sequence[Problem], kind: str) -> None:
        violations.extend(Violation(record.decision_id, problem.path, kind) for problem in problems)

    note(authority_breaches(record), "authority")
    note(side_effect_breaches(record), "side_effect")
    note(privacy_breaches(record), "privacy")
    note(fallback_breaches(record), "fallback_reason")
    found = 0
    for field, text, is_note in texts_of(record):
        for kind in scan.kinds(text, note=is_note):
            violations.append(Violation(record.decision_id, field, kind))
            found = PRIVACY
    return found
