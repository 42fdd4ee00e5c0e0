"""What a record must not say: patterns it misses, and fields that contradict each other."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Final

from msgspec import UNSET

from gatemark.core.errors import InvalidValueError
from gatemark.core.record import Problem
from gatemark.exams.advisory.decision import (
    BUCKET_RULES,
    BUCKETS,
    DEFAULT_BUCKET_RULE,
    ERROR_CATEGORIES,
    HASH_PATTERN,
    ID_PATTERN,
    LABEL_PATTERN,
    NAME_PATTERN,
    TIME_PATTERN,
    AdvisoryDecision,
    Bucket,
    Edges,
)


def choose_bucket(score: float | None, edges: Edges = BUCKET_RULES[DEFAULT_BUCKET_RULE]) -> Bucket:
    """Return the bucket of a score; each begins at its edge, and no score means unknown."""
    if score is None:
        return "unknown"
    if math.isnan(score) or not 0 <= score <= 1:
        raise InvalidValueError(f"a confidence score must be in [0, 1], got {score}")
    return BUCKETS[sum(score >= edge for edge in edges)]


_ID: Final = re.compile(ID_PATTERN)
_TIME: Final = re.compile(TIME_PATTERN)
_HASH: Final = re.compile(HASH_PATTERN)
_NAME: Final = re.compile(NAME_PATTERN)
_LABEL: Final = re.compile(LABEL_PATTERN)
LOOKS: Final = {
    ID_PATTERN: "a UUID or a ULID in capitals",
    TIME_PATTERN: "a time in UTC such as 2026-06-06T12:30:00Z",
    HASH_PATTERN: "sha256: and 64 hexadecimal digits",
    NAME_PATTERN: "1 to 128 of the characters A-Z a-z 0-9 _ . : -, with a letter or digit first",
    LABEL_PATTERN: "1 to 64 of the characters a-z 0-9 _, with a letter first",
}
"""What the patterns ask for, in words."""
_UNMEASURED_PROOF: Final = frozenset(("health_only", "offline_fixture", "unavailable"))


def check_patterns(record: AdvisoryDecision) -> list[Problem]:
    """Check the patterns of ids, times, hashes, names and labels."""
    reference = record.human_or_atlas_decision
    found = [
        Problem(path, f"must be {LOOKS[pattern.pattern]}")
        for path, text, pattern in (
            ("$.decision_id", record.decision_id, _ID),
            ("$.timestamp", record.timestamp, _TIME),
            ("$.source.content_hash", record.source.content_hash, _HASH),
            ("$.service.name", record.service.name, _NAME),
            ("$.input_class", record.input_class, _NAME),
            ("$.recommendation.label", record.recommendation.label, _LABEL),
            ("$.confidence.bucket_rule", record.confidence.bucket_rule, _NAME),
            ("$.human_or_atlas_decision.label", reference.label, _LABEL),
            ("$.human_or_atlas_decision.timestamp", reference.timestamp, _TIME),
        )
        if text is not UNSET and text is not None and not matches(pattern, text)
    ]
    if not found:
        for path, moment in (
            ("$.timestamp", record.timestamp),
            ("$.human_or_atlas_decision.timestamp", reference.timestamp),
        ):
            if moment and not is_a_day(moment):
                found.append(Problem(path, "is not a day of the calendar"))
    return found


def matches(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern matches a whole text."""
    # In Python, $ also matches before a newline at the end.
    return pattern.match(text) is not None and not text.endswith("\n")


def is_a_day(moment: str) -> bool:
    """Whether a well-formed time also exists."""
    try:
        datetime.fromisoformat(moment[:10])
    except ValueError:
        return False
    return True


def parse_moment(text: str) -> datetime:
    """Return the time of a record; a leap second counts as the second before."""
    text = text.upper()
    if text[17:19] == "60":
        text = f"{text[:17]}59{text[19:]}"
    return datetime.fromisoformat(text)


def check_bucket(record: AdvisoryDecision) -> list[Problem]:
    """Check that the bucket is the one of the score; no score means unknown.

    The exam checks bucket rules that only a policy knows.
    """
    confidence = record.confidence
    score = None if confidence.score is UNSET else confidence.score
    if score is None:
        expected: str = "unknown"
    elif confidence.bucket_rule in BUCKET_RULES:
        expected = choose_bucket(score, BUCKET_RULES[confidence.bucket_rule])
    elif confidence.bucket == "unknown":
        return [Problem("$.confidence.bucket", "must not be unknown when there is a score")]
    else:
        return []
    if confidence.bucket == expected:
        return []
    why = "without a score" if score is None else f"for the score {score:g}"
    return [Problem("$.confidence.bucket", f"must be {expected} {why}, got {confidence.bucket}")]


def check_reference(record: AdvisoryDecision) -> list[Problem]:
    """Check that a reference has a label, and that a missing one has nothing to compare with."""
    reference = record.human_or_atlas_decision
    place = "$.human_or_atlas_decision"
    if reference.source == "missing":
        return [
            Problem(f"{place}.{name}", "must be null when the source is missing")
            for name in ("label", "severity")
            if getattr(reference, name)
        ]
    if not reference.label:
        return [Problem(f"{place}.label", f"must be given when the source is {reference.source}")]
    return []


def check_named_errors(record: AdvisoryDecision) -> list[Problem]:
    """Check that the four error types of a wrong comparison come with ``disagree``."""
    outcome = record.outcome
    if outcome.error_type in ERROR_CATEGORIES and outcome.comparison != "disagree":
        return [
            Problem(
                "$.outcome.comparison",
                f"must be disagree when error_type is {outcome.error_type}, "
                f"got {outcome.comparison}",
            )
        ]
    return []


def check_proof(record: AdvisoryDecision) -> list[Problem]:
    """Check that a proof is claimed only if something was measured and the counter moved."""
    proof = record.npu_proof
    if proof.proof_mode in _UNMEASURED_PROOF:
        return [
            Problem(f"$.npu_proof.{name}", f"must be null when proof_mode is {proof.proof_mode}")
            for name in ("proof_ok", "busy_delta_us", "service_reported_delta_us")
            if getattr(proof, name) not in (None, UNSET)
        ]
    name = (
        "busy_delta_us" if proof.proof_mode == "sysfs_busy_delta" else "service_reported_delta_us"
    )
    delta = getattr(proof, name)
    if delta is None or delta is UNSET:
        return [
            Problem(f"$.npu_proof.{name}", f"must be given when proof_mode is {proof.proof_mode}")
        ]
    # A service's own claim proves nothing, so it may leave the question open.
    if proof.proof_ok is None and proof.inference_ran and name == "busy_delta_us":
        return [Problem("$.npu_proof.proof_ok", "must be true or false when inference ran")]
    if proof.proof_ok and not proof.inference_ran:
        return [Problem("$.npu_proof.proof_ok", "must not be true when no inference ran")]
    if proof.proof_ok and 0 in (delta, proof.busy_delta_us):
        still = name if delta == 0 else "busy_delta_us"
        return [Problem("$.npu_proof.proof_ok", f"must not be true when {still} is 0")]
    return []


def check_fallback(record: AdvisoryDecision) -> list[Problem]:
    """Check that a fallback has a kind if and only if it occurred."""
    fallback = record.fallback
    if fallback.occurred and not fallback.kind:
        return [Problem("$.fallback.kind", "must be given when a fallback occurred")]
    if not fallback.occurred and fallback.kind:
        return [Problem("$.fallback.kind", "must be null when no fallback occurred")]
    return []


_OF_SHARED_PARTS: Final = (
    check_reference,
    check_named_errors,
    check_proof,
    check_fallback,
)
CONTRADICTIONS: Final = (check_patterns, check_bucket, *_OF_SHARED_PARTS)


def is_shared_part_sound(record: AdvisoryDecision) -> bool:
    """Whether the shared part of a record meets every rule that concerns it alone."""
    labels = (record.recommendation.label, record.human_or_atlas_decision.label)
    names = (record.service.name, record.input_class, record.confidence.bucket_rule)
    return (
        all(matches(_LABEL, label) for label in labels if label)
        and all(matches(_NAME, name) for name in names)
        and not any(rule(record) for rule in _OF_SHARED_PARTS)
    )
