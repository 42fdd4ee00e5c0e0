"""What scoring needs of a record, reduced to a code: all its discrete facts, no text.

Records of a large file share few kinds. Counting kinds once, and asking everything else of the
small table of counts, is what makes a policy cheap to change.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gatemark.evidence.hygiene.private_text import PrivateTextScan
from gatemark.exams.advisory.decision import ID_PATTERN
from gatemark.exams.advisory.decision_rules import (
    authority_breaches,
    fallback_breaches,
    privacy_breaches,
    side_effect_breaches,
)
from gatemark.exams.advisory.profile import PRIVACY, Fact, Survey, profile_batch

RUN_PATTERN: Final = re.compile(rf"run:[\w.:-]{{1,64}}|{ID_PATTERN}")

LaneKey = tuple[str, str]
"""Input class and service."""
KindTuple = tuple[str | int | bool | None, ...]
MEANINGS_MAX: Final = 100_000


class Kind(NamedTuple):
    """One kind of record within a lane; ``breaches`` adds up the bits of what it violates.

    ``noted`` says that a note tells what kind of case the record is.
    """

    mode: str
    source_kind: str
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
    noted: bool
    breaches: int


class Violation(NamedTuple):
    """Where a record violates something: by id and field, never by content."""

    decision_id: str
    field: str
    kind: str


class Meaning(NamedTuple):
    """What a code stands for; an empty run is none."""

    lane: LaneKey
    kind: KindTuple
    run: str
    case: str | None
    fixture_set: str | None


class Collected(NamedTuple):
    """The facts of a batch: a code per record, its time (NaN when unknown), and violations."""

    codes: array[int]
    times: array[float]
    violations: list[Violation]


class Collector:
    """Reduces records to the numbers of their facts, and remembers what the numbers mean."""

    def __init__(self, scan: PrivateTextScan) -> None:
        self._scan = scan
        self._meanings: dict[int, Meaning] = {}
        self._clean: set[Fact] = set()
        self._private: dict[Fact, int] = {}
        self._kinds: dict[KindTuple, KindTuple] = {}

    def collect(self, batch: Sequence[Any]) -> Collected:
        """The facts of a batch."""
        profile = profile_batch(batch)
        codes = [fact.number for fact in profile.facts]
        violations: list[Violation] = []
        for place in self._places_to_read(batch, profile):
            codes[place] = self._read(batch[place], profile.facts[place], violations)
        times = [record.latency.total_ms for record in batch]
        if None in times:
            times = [float("nan") if value is None else value for value in times]
        return Collected(array("q", codes), array("d", times), violations)

    def meaning(self, code: int) -> Meaning:
        """What a code of this collector stands for."""
        return self._meanings[code]

    def forget(self) -> None:
        """Give up what codes meant if it has become much; all of them must have been counted."""
        if len(self._meanings) > MEANINGS_MAX:
            self._meanings, self._clean, self._private = {}, set(), {}

    def _places_to_read(self, batch: Sequence[Any], profile: Survey) -> Sequence[int]:
        """The places of records that violate something, or have a text not known to be clean."""
        scan, facts = self._scan, profile.facts
        if not self._clean.issuperset(facts):
            for fact in facts:
                self._learn(fact)
        texts_are_clean = scan.all_known(profile.common) and scan.all_alike(profile.singular)
        if texts_are_clean and self._clean.issuperset(facts):
            return ()
        return [
            place
            for place, (record, fact) in enumerate(zip(batch, facts, strict=True))
            if fact not in self._clean
            or any(scan.kinds(text, note=note) for _, text, note in texts_of(record))
        ]

    def _learn(self, fact: Fact) -> None:
        if fact.number in self._meanings:
            return
        self._meanings[fact.number] = self._meaning(fact, 0)
        if not fact.breaches and not any(self._scan.kinds(text) for text in fact.texts if text):
            self._clean.add(fact)

    def _meaning(self, fact: Fact, more_breaches: int) -> Meaning:
        record = fact.record
        kind = _kind(fact, more_breaches)
        run = fact.run
        return Meaning(
            lane=(record.input_class, record.service.name),
            kind=self._kinds.setdefault(kind, kind),
            run=run if run and RUN_PATTERN.fullmatch(run) else "",
            case=fact.case,
            fixture_set=record.source.fixture_set or None,
        )

    def _read(self, record: Any, fact: Fact, violations: list[Violation]) -> int:
        """Note every violation of a record; gives its code."""
        for problems, kind in (
            (authority_breaches(record), "authority"),
            (side_effect_breaches(record), "side_effect"),
            (privacy_breaches(record), "privacy"),
            (fallback_breaches(record), "fallback_reason"),
        ):
            violations.extend(
                Violation(record.decision_id, problem.path, kind) for problem in problems
            )
        private = [
            Violation(record.decision_id, field, kind)
            for field, text, note in texts_of(record)
            for kind in self._scan.kinds(text, note=note)
        ]
        violations.extend(private)
        if not private or fact.breaches & PRIVACY:
            return fact.number
        # A record with private text shares its fact with others that have none.
        code = self._private.setdefault(fact, -fact.number)
        if code not in self._meanings:
            self._meanings[code] = self._meaning(fact, PRIVACY)
        return code


def _kind(fact: Fact, more_breaches: int) -> KindTuple:
    record = fact.record
    reference, proof, outcome = record.human_or_atlas_decision, record.npu_proof, record.outcome
    return Kind(
        mode=record.service.mode,
        source_kind=record.source.kind,
        label=record.recommendation.label,
        severity=record.recommendation.severity,
        reference_source=reference.source,
        reference_label=reference.label or None,
        reference_severity=reference.severity or None,
        bucket=record.confidence.bucket,
        bucket_rule=record.confidence.bucket_rule,
        comparison=outcome.comparison,
        error_type=outcome.error_type or None,
        human_review_required=outcome.human_review_required,
        promotion_blocker=outcome.promotion_blocker,
        proof_mode=proof.proof_mode,
        proof_ok=proof.proof_ok,
        inference_ran=proof.inference_ran,
        timeout=record.latency.timeout,
        timed=record.latency.total_ms is not None,
        fallback=record.fallback.kind or None,
        fallback_expected=record.fallback.expected,
        noted=fact.case is not None,
        breaches=fact.breaches | more_breaches,
    )


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
    found = [(field, text, False) for field, text in single if text]
    found.extend(
        (f"{field}[{place}]", text, note)
        for field, texts, note in lists
        for place, text in enumerate(texts)
    )
    return found
