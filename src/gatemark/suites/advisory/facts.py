"""What scoring needs of a record, reduced to a code: all its discrete facts, no text.

Records of a large file share few kinds. Counting kinds once, and asking everything else of the
small table of counts, is what makes a policy cheap to change.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from gatemark.core.advisory_record import ID_PATTERN
from gatemark.core.advisory_rules import (
    authority_breaches,
    fallback_breaches,
    privacy_breaches,
    side_effect_breaches,
)
from gatemark.core.advisory_survey import PRIVACY, Conduct, Survey, survey
from gatemark.hygiene.private_text import PrivateTextScan

RUN_PATTERN: Final = re.compile(rf"run:[\w.:-]{{1,64}}|{ID_PATTERN}")

LaneKey = tuple[str, str]
"""Input class and service."""
KindTuple = tuple[str | int | bool | None, ...]
Codes = npt.NDArray[np.uint32]
T = TypeVar("T", bound=Hashable)


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


class Collected(NamedTuple):
    """The facts of a batch: a code per record, its time (NaN when unknown), and violations."""

    codes: array[int]
    times: array[float]
    violations: list[Violation]


class Column(Generic[T]):
    """One property of every code: its distinct values, and which of them each code has."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}
        self._of_code = array("I")

    def add(self, value: T) -> None:
        """The property of the next code."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        self._of_code.append(number)

    def numbers(self, codes: Codes) -> Codes:
        """Which value each of these codes has, by its place in ``values``."""
        return np.frombuffer(self._of_code, dtype=np.uint32)[codes]


class Collector:
    """Reduces records to codes. The codes mean something to this collector only."""

    def __init__(self, scan: PrivateTextScan, number: int) -> None:
        self.number = number
        self._scan = scan
        self._codes: dict[tuple[Any, ...], int] = {}
        self._dirty_conducts: set[Conduct] = set()
        self.kinds: Column[KindTuple] = Column()
        self.lanes: Column[LaneKey] = Column()
        self.runs: Column[str] = Column()
        self.cases: Column[str | None] = Column()
        self.fixture_sets: Column[str | None] = Column()

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self._codes)

    def collect(self, batch: Sequence[Any]) -> Collected:
        """The facts of a batch; a cell seen for the first time gets the next code."""
        look = survey(batch)
        codes = list(map(self._codes.get, look.cells))
        if None in codes:
            codes = [self._code(cell) for cell in look.cells]
        violations: list[Violation] = []
        for place in self._places_to_read(batch, look):
            codes[place] = self._read(batch[place], look.cells[place], violations)
        times = [record.latency.total_ms for record in batch]
        if None in times:
            times = [float("nan") if value is None else value for value in times]
        return Collected(array("I", codes), array("d", times), violations)  # type: ignore[arg-type]

    def _code(self, cell: tuple[Any, ...], more_breaches: int = 0) -> int:
        key = (*cell, more_breaches) if more_breaches else cell
        code = self._codes.get(key)
        if code is None:
            conduct: Conduct = cell[0]
            if any(self._scan.kinds(text) for _, text in conduct.texts if text):
                self._dirty_conducts.add(conduct)
            code = self._codes[key] = len(self._codes)
            run, case = cell[3], cell[16]
            self.kinds.add(_kind(cell, conduct, more_breaches))
            self.lanes.add((conduct.record.input_class, conduct.record.service.name))
            self.runs.add(run if run and RUN_PATTERN.fullmatch(run) else "")
            self.cases.add(case)
            self.fixture_sets.add(cell[2])
        return code

    def _places_to_read(self, batch: Sequence[Any], look: Survey) -> list[int]:
        """The places of records that violate something, or have a text not known to be clean."""
        scan = self._scan
        if scan.all_known(look.common) and scan.all_alike(look.singular):
            dirty = self._dirty_conducts
            return [
                place
                for place, cell in enumerate(look.cells)
                if cell[0].breaches or (dirty and cell[0] in dirty)
            ]
        return [
            place
            for place, record in enumerate(batch)
            if look.cells[place][0].breaches
            or any(scan.kinds(text, note=note) for _, text, note in texts_of(record))
        ]

    def _read(self, record: Any, cell: tuple[Any, ...], violations: list[Violation]) -> int:
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
        return self._code(cell, PRIVACY if private else 0)


def _kind(cell: tuple[Any, ...], conduct: Conduct, more_breaches: int) -> KindTuple:
    """The kind of a cell with the conduct spelled out, so that any process can read it."""
    source_kind, label, severity, source, wanted, wanted_severity = cell[1], *cell[4:9]
    bucket, rule, mode, proof_ok, ran, timeout, timed, case = cell[9:]
    record = conduct.record
    return Kind(
        mode=record.service.mode,
        source_kind=source_kind,
        label=label,
        severity=severity,
        reference_source=source,
        reference_label=wanted,
        reference_severity=wanted_severity,
        bucket=bucket,
        bucket_rule=rule,
        comparison=record.outcome.comparison,
        error_type=record.outcome.error_type or None,
        human_review_required=record.outcome.human_review_required,
        promotion_blocker=record.outcome.promotion_blocker,
        proof_mode=mode,
        proof_ok=proof_ok,
        inference_ran=ran,
        timeout=timeout,
        timed=timed,
        fallback=record.fallback.kind or None,
        fallback_expected=record.fallback.expected,
        noted=case is not None,
        breaches=conduct.breaches | more_breaches,
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
