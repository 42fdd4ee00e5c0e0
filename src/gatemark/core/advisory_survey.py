"""One quick look at a batch of advisory records, for everyone who must look at all of them.

Admission asks whether any record contradicts itself; the exam asks what kinds of records there are.
Both questions need the same fields, so they are read once. Much of a record (who advised, what it
was allowed, what it did) is the same in thousands of others: that part is judged once for all.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from gatemark.core.advisory import (
    BUCKET_RULES,
    BUCKETS,
    CASE_NOTES,
    DEFAULT_BUCKET_RULE,
)
from gatemark.core.advisory_record import (
    ID_PATTERN,
    LABEL_PATTERN,
    NAME_PATTERN,
    TIME_PATTERN,
    Decision,
)
from gatemark.core.advisory_rules import (
    CONTRADICTIONS,
    authority_breaches,
    fallback_breaches,
    fallback_has_its_kind,
    is_a_day,
    matches,
    named_errors_disagree,
    privacy_breaches,
    side_effect_breaches,
)

AUTHORITY, SIDE_EFFECT, PRIVACY, NO_REASON = 1, 2, 4, 8
_REMEMBERED: Final = 20_000
_EDGES: Final = BUCKET_RULES[DEFAULT_BUCKET_RULE]
_UNMEASURED: Final = frozenset(("health_only", "offline_fixture", "unavailable"))
_NOTHING: Final = (None, UNSET)
_HEX: Final = b"0123456789abcdef"
_NAME: Final = re.compile(NAME_PATTERN)
_LABEL: Final = re.compile(LABEL_PATTERN)
_IDS: Final = re.compile(rf"(?:(?:{ID_PATTERN.strip('^$')})\n)*")
_TIME: Final = re.compile(TIME_PATTERN)
_ULID: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGITS: Final = bytes.maketrans(b"0123456789", b"0000000000")


class Conduct:
    """Who advised and what came of it: everything in a record but its question and its answer.

    Equal parts of records share one object, so it is compared by identity.
    """

    __slots__ = ("breaches", "record", "sound", "texts")

    def __init__(self, record: Decision) -> None:
        service = record.service
        self.record = record
        self.sound = (
            matches(_NAME, service.name)
            and matches(_NAME, record.input_class)
            and not named_errors_disagree(record)
            and not fallback_has_its_kind(record)
        )
        self.breaches = breaches_of(record)
        self.texts: tuple[tuple[str, Any], ...] = (
            ("$.input_class", record.input_class),
            ("$.service.name", service.name),
            ("$.service.endpoint", service.endpoint),
            ("$.service.model", service.model),
            ("$.fallback.reason", record.fallback.reason),
            *(
                (f"$.actual_action.side_effects[{place}]", effect)
                for place, effect in enumerate(record.actual_action.side_effects)
            ),
        )


class Survey(NamedTuple):
    """What a look at a batch found.

    ``cells`` has all discrete facts of each record, ``common`` the texts that tend to come again
    and ``singular`` those that tend to differ.
    """

    sound: bool
    cells: list[tuple[Any, ...]]
    common: list[Any]
    singular: list[str]


_conducts: dict[tuple[Any, ...], Conduct] = {}
_known_labels: set[Any] = set()
_known_hours: set[str] = set()
_last: tuple[Sequence[Any] | None, Survey] = (
    None,
    Survey(sound=True, cells=[], common=[], singular=[]),
)


def all_sound(batch: Sequence[Decision]) -> bool:
    """Whether surely no record of a batch contradicts itself; errs only by saying no."""
    moments = [record.timestamp for record in batch]
    moments += [moment for record in batch if (moment := record.human_or_atlas_decision.timestamp)]
    return (
        _ids_are_whole([record.decision_id for record in batch])
        and _moments_exist(moments)
        and _hashes_are_whole([text for record in batch if (text := record.source.content_hash)])
        and survey(batch).sound
    )


def survey(batch: Sequence[Decision]) -> Survey:
    """Look at a batch; looking at the same list twice in a row costs nothing.

    A list must not be changed between two looks at it.
    """
    global _last  # noqa: PLW0603 - one batch is remembered, whole or not at all
    seen, found = _last
    if seen is not batch:
        found = _looked_over(batch)
        _last = (batch, found)
    return found


def _looked_over(batch: Sequence[Decision]) -> Survey:
    cells: list[tuple[Any, ...]] = []
    common: list[Any] = []
    singular: list[str] = []
    conducts, labels = _conducts, _known_labels
    sound = True
    for record in batch:
        key = (
            record.input_class,
            record.service,
            record.authority_flags,
            record.allowed_actions,
            record.actual_action,
            record.outcome,
            record.fallback,
            record.privacy,
            record.source.privacy_class,
        )
        conduct = conducts.get(key) or _learnt(key, record)
        source, advice, confidence = record.source, record.recommendation, record.confidence
        reference, proof, latency = record.human_or_atlas_decision, record.npu_proof, record.latency
        run, notes = source.artifact_ref, record.notes
        case = None
        if notes:
            singular += notes
            for note in notes:
                if note in CASE_NOTES:
                    case = CASE_NOTES[note]
        fixture, cited = source.fixture_id, reference.decision_ref
        if fixture:
            singular.append(fixture)
        if cited and cited != fixture:
            singular.append(cited)
        common += (run, source.fixture_set, advice.raw_output_ref, proof.counter_path)
        common += advice.reasons
        if advice.evidence_refs:
            common += advice.evidence_refs
        cells.append(
            (
                conduct,
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
                proof.proof_mode,
                proof.proof_ok,
                proof.inference_ran,
                latency.timeout,
                latency.total_ms is not None,
                case,
            )
        )
        if sound and not (
            conduct.sound and advice.label in labels and _is_usual(confidence, reference, proof)
        ):
            sound = _is_sound(record)
    return Survey(sound, cells, common, singular)


def _is_usual(confidence: Any, reference: Any, proof: Any) -> bool:
    """Whether confidence, reference and proof fit together in one of the usual ways."""
    score, mode = confidence.score, proof.proof_mode
    if score is None or score is UNSET:
        if confidence.bucket != "unknown":
            return False
    elif (
        confidence.bucket_rule != DEFAULT_BUCKET_RULE
        or confidence.bucket != BUCKETS[bisect_right(_EDGES, score)]
    ):
        return False
    if reference.source == "missing":
        if reference.label or reference.severity:
            return False
    elif reference.label not in _known_labels:
        return False
    if proof.proof_ok is None:
        return (
            mode in _UNMEASURED
            and proof.busy_delta_us in _NOTHING
            and proof.service_reported_delta_us in _NOTHING
        )
    return bool(
        proof.proof_ok
        and proof.inference_ran
        and mode == "sysfs_busy_delta"
        and proof.busy_delta_us
    )


def _is_sound(record: Decision) -> bool:
    """The rules one by one, for a record that is not of the usual kind."""
    if any(rule(record) for rule in CONTRADICTIONS):
        return False
    for label in (record.recommendation.label, record.human_or_atlas_decision.label):
        if label and len(_known_labels) < _REMEMBERED and matches(_LABEL, label):
            _known_labels.add(label)
    return True


def _learnt(key: tuple[Any, ...], record: Decision) -> Conduct:
    if len(_conducts) >= _REMEMBERED:
        _conducts.clear()
    conduct = _conducts[key] = Conduct(record)
    return conduct


def breaches_of(record: Decision) -> int:
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
    forms = lines.encode("utf-8", "replace").translate(_DIGITS)
    if forms == b"0000-00-00T00:00:00Z\n" * len(moments) and max(lines[14::21]) <= "5" >= max(
        lines[17::21]
    ):
        hours = [moment[:13] for moment in moments]
        return _known_hours.issuperset(hours) or all(map(_is_hour, hours))
    return all(matches(_TIME, moment) and is_a_day(moment) for moment in moments)


def _is_hour(hour: str) -> bool:
    """Whether a day and an hour exist; remembered, because records come close together."""
    exists = hour[11:] < "24" and is_a_day(hour)
    if exists and len(_known_hours) < _REMEMBERED:
        _known_hours.add(hour)
    return exists


def _hashes_are_whole(hashes: list[str]) -> bool:
    """Whether every hash has its prefix and 64 digits; the type has bounded its length already."""
    if not hashes:
        return True
    count = len(hashes)
    lines = "\n" + "\n".join(hashes)
    rest = lines.encode("utf-8", "replace").translate(None, _HEX)
    return (
        len(lines) == 72 * count and lines.count("\nsha256:") == count and rest == b"\nsh:" * count
    )
